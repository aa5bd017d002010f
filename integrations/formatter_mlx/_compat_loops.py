"""Who calls a processor: no other module inspects mlx-lm's loops."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import FrameType
from typing import Any

import mlx.core as mx

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion

__all__ = ["Caller", "caller_of"]

try:
    # The module's name is taken by its function `generate` in the package, so `import mlx_lm.generate` gives that.
    _loops = importlib.import_module("mlx_lm.generate")
    _GENERATE, _SPECULATIVE = _loops.generate_step.__code__, _loops.speculative_generate_step.__code__
    _STEP = next((one for one in _GENERATE.co_consts if getattr(one, "co_name", None) == "_step"), None)
    _BATCH_STEP = _loops.GenerationBatch._step.__code__
    _BatchGenerator: Any = _loops.BatchGenerator
except AttributeError as error:
    raise UnsupportedEngineVersion(
        "mlx-lm", found=version("mlx-lm"), needed=">= 0.31.3", missing=f"mlx_lm.generate.{error.name}"
    ) from error


@dataclass(frozen=True, slots=True)
class Caller:
    """The loop that asks for a mask.

    Attributes:
        call: an object that lives exactly as long as one call of the loop, or one `BatchGenerator`; None where the loop
            is not one of mlx-lm's.
        model: whose outputs it generates; in speculative decoding never the draft model.
        has_drafts: whether a draft model proposes tokens.
        latest: int (rows,), the latest token of each row, whose evaluation the loop has begun in the step before; None
            where the frames do not tell. A list of tokens ends with it, too, but has to be evaluated to be read.
        row: the number of the prompt in a batch.
        index: its place among the rows.
        before: the row's tokens before the latest one; None where there is one sequence.
    """

    call: object = None
    model: Any = None
    has_drafts: bool = False
    latest: mx.array | None = None
    row: int = 0
    index: int = 0
    before: list[int] | None = None


def caller_of(tokens: mx.array) -> Caller:
    """The loop that calls.

    Nothing that a processor is given tells two calls with the same prompt apart, so the frames above have to.

    Args:
        tokens: what the loop shows.

    Raises:
        InvalidArgument: a call that samples its first token without asking a processor.
    """
    frame: FrameType | None = sys._getframe(1)
    latest = None
    while frame is not None:
        code = frame.f_code
        if code is _BATCH_STEP:
            return _row_of_batch(frame)
        if code is _STEP:
            latest = _latest(frame.f_locals, tokens)
        elif code is _GENERATE or code is _SPECULATIVE:
            names = frame.f_locals
            if names.get("input_embeddings") is not None and not len(names["prompt"]):
                raise InvalidArgument(
                    "mlx-lm samples the first token after embeddings alone without a logits processor; give the "
                    "prompt's tokens beside input_embeddings",
                    argument="input_embeddings",
                )
            return Caller(names["_step"], names["model"], code is _SPECULATIVE, latest)
        frame = frame.f_back
    return Caller()


def _latest(step: Mapping[str, Any], tokens: mx.array) -> mx.array | None:
    """What a step of `generate_step` has appended to the list that it shows, if it is one token, and that list."""
    latest = step.get("input_tokens")
    return latest if step.get("tokens") is tokens and getattr(latest, "shape", None) == (1,) else None


def _row_of_batch(step: FrameType) -> Caller:
    names = step.f_locals
    batch, index = names["self"], names["e"]
    call, frame = batch, step.f_back
    while frame is not None:
        if isinstance(found := frame.f_locals.get("self"), _BatchGenerator):
            call = found
            break
        frame = frame.f_back
    row, before = batch.uids[index], batch.tokens[index]
    return Caller(call, batch.model, latest=names["inputs"], row=row, index=index, before=before)
