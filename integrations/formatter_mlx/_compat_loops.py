"""Detection of the mlx-lm loop that calls a processor; no other module inspects these loops."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from threading import get_ident
from types import CodeType, FrameType
from typing import Any
from weakref import ref

import mlx.core as mx

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion
from formatter_core.runtime.hook import reused, wrong_model

__all__ = ["Call", "Caller", "caller_of"]

try:
    # The module's name is taken by its function `generate` in the package, so `import mlx_lm.generate` gives that.
    _loops = importlib.import_module("mlx_lm.generate")
    _GENERATE, _SPECULATIVE = _loops.generate_step.__code__, _loops.speculative_generate_step.__code__
    _WITHIN = {one.co_name: one for one in _GENERATE.co_consts if isinstance(one, CodeType)}
    _STEP = _WITHIN.get("_step")
    _BATCH_STEP = _loops.GenerationBatch._step.__code__
    _BatchGenerator: Any = _loops.BatchGenerator
except AttributeError as error:
    raise UnsupportedEngineVersion(
        "mlx-lm", found=version("mlx-lm"), needed=">= 0.31.3", missing=f"mlx_lm.generate.{error.name}"
    ) from error
#: The name of a function that each call of `generate_step` defines for its steps; empty if there is none.
_MARK = "_model_call" if "_model_call" in _WITHIN else ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The loop that calls the processor.

    Attributes:
        call: an object that lives exactly as long as one call of the loop, or one `BatchGenerator`; None if the loop is
            not one of mlx-lm's.
        model: the model whose outputs it generates; in speculative decoding never the draft model.
        has_drafts: whether a draft model proposes tokens.
        latest: int (rows,), the latest token of each row, whose evaluation the loop has begun in the step before; None
            if the frames do not show it. A list of tokens ends with it, too, but has to be evaluated to be read.
        row: the number of the prompt in a batch.
        index: its place among the rows.
        before: the row's tokens before the latest one; None if there is one sequence.
        mark: an object that only the steps of this call name; None if they name none.
    """

    call: object = None
    model: Any = None
    has_drafts: bool = False
    latest: mx.array | None = None
    row: int = 0
    index: int = 0
    before: list[int] | None = None
    mark: object = None


class Call:
    """The call of a loop that a processor serves, as seen in its first step; it is referenced weakly.

    Args:
        caller: the caller in the first step.
        model: the only model that it may run; None for any.

    Raises:
        WrongModel: it runs another one.
    """

    __slots__ = ("_mark", "_owner", "_thread")

    def __init__(self, caller: Caller, model: Any) -> None:
        if model is not None and caller.call is not None and caller.model is not model:
            raise wrong_model("one model", "another one")
        self._owner = None if caller.call is None else ref(caller.call)
        self._mark = None if caller.mark is None else ref(caller.mark)
        self._thread = get_ident()

    def check(self, caller: Caller) -> None:
        """Raise `HookReused` for another call, or another thread."""
        owner = None if self._owner is None else self._owner()
        is_same = caller.call is owner and (caller.call is None) == (self._owner is None)
        if not is_same or get_ident() != self._thread:
            raise reused()

    def latest(self, tokens: mx.array) -> mx.array | None:
        """Return `Caller.latest` for a processor that a step of this call has called (one frame tells); else None."""
        step = sys._getframe(2)
        if self._mark is None or step.f_code is not _STEP or get_ident() != self._thread:
            return None
        names = step.f_locals
        is_same = names.get("tokens") is tokens and names.get(_MARK, step) is self._mark()
        return names.get("input_tokens") if is_same else None


def caller_of(tokens: mx.array) -> Caller:
    """Return the loop that calls the processor.

    Nothing that a processor is given tells two calls with the same prompt apart, so the frames above have to.

    Args:
        tokens: what the loop shows.

    Raises:
        InvalidArgument: a call that samples its first token without asking a processor.
    """
    frame: FrameType | None = sys._getframe(1)
    latest = mark = None
    while frame is not None:
        code = frame.f_code
        if code is _BATCH_STEP:
            return _row_of_batch(frame)
        if code is _STEP:
            latest, mark = _latest(frame.f_locals, tokens), frame.f_locals.get(_MARK)
        elif code is _GENERATE or code is _SPECULATIVE:
            names = frame.f_locals
            if names.get("input_embeddings") is not None and not len(names["prompt"]):
                raise InvalidArgument(
                    "mlx-lm samples the first token after embeddings alone without a logits processor; give the "
                    "prompt's tokens beside input_embeddings",
                    argument="input_embeddings",
                )
            return Caller(names["_step"], names["model"], code is _SPECULATIVE, latest, mark=mark)
        frame = frame.f_back
    return Caller()


def _latest(step: Mapping[str, Any], tokens: mx.array) -> mx.array | None:
    """Return the token that a step of `generate_step` appended to `tokens`; None if it was not exactly one."""
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
