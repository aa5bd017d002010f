"""What the adapter needs of mlx-lm; no other module inspects its loops, tokenizers or models."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.metadata import version
from types import FrameType
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion
from formatter_core.errors.arguments import shown

__all__ = ["Caller", "caller", "end_ids", "huggingface_tokenizer", "key_value_layers", "logits_width", "max_length"]

#: The longest sequence, if the model names no limit.
_LONGEST = 2**20

try:
    # The module's name is taken by its function `generate` in the package, so `import mlx_lm.generate` gives that.
    _loops = importlib.import_module("mlx_lm.generate")
    _GENERATE, _SPECULATIVE = _loops.generate_step.__code__, _loops.speculative_generate_step.__code__
    _BATCH_STEP = _loops.GenerationBatch._step.__code__
    _BatchGenerator: Any = _loops.BatchGenerator
except AttributeError as error:
    raise UnsupportedEngineVersion(
        "mlx-lm", found=version("mlx-lm"), needed=">= 0.31.3", missing=f"mlx_lm.generate.{error.name}"
    ) from error


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a batch.

    Attributes:
        uid: the number of its prompt.
        latest: int (rows,), the latest token of each row.
        index: which of these is this row's.
        before: the row's tokens before that one.
    """

    uid: int
    latest: mx.array
    index: int
    before: list[int]


@dataclass(frozen=True, slots=True)
class Caller:
    """The loop of mlx-lm that asks for a mask.

    Attributes:
        call: an object that lives exactly as long as one call of the loop, or one `BatchGenerator`.
        model: whose outputs it generates; in speculative decoding never the draft model.
        has_drafts: whether a draft model proposes tokens.
        batch: the row that is asked about; None where there is one sequence.
    """

    call: object
    model: Any
    has_drafts: bool = False
    batch: Row | None = None


def caller() -> Caller | None:
    """The loop that the caller is part of; None where it is not one of mlx-lm's.

    Nothing that a processor is given tells two calls with the same prompt apart, so the frames above have to.

    Raises:
        InvalidArgument: a call that samples its first token without asking a processor.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _BATCH_STEP:
            return _row_of_batch(frame)
        if frame.f_code is _GENERATE or frame.f_code is _SPECULATIVE:
            names = frame.f_locals
            if names.get("input_embeddings") is not None and not len(names["prompt"]):
                raise InvalidArgument(
                    "mlx-lm samples the first token after embeddings alone without a logits processor; give the "
                    "prompt's tokens beside input_embeddings",
                    argument="input_embeddings",
                )
            return Caller(names["_step"], names["model"], has_drafts=frame.f_code is _SPECULATIVE)
        frame = frame.f_back
    return None


def _row_of_batch(step: FrameType) -> Caller:
    names = step.f_locals
    batch, index = names["self"], names["e"]
    call, frame = batch, step.f_back
    while frame is not None:
        if isinstance(found := frame.f_locals.get("self"), _BatchGenerator):
            call = found
            break
        frame = frame.f_back
    return Caller(call, batch.model, batch=Row(batch.uids[index], names["inputs"], index, batch.tokens[index]))


def end_ids(tokenizer: Any) -> tuple[int, ...] | None:
    """The ids at which mlx-lm's loops stop; None where the tokenizer is not mlx-lm's, so that its own one counts."""
    found = getattr(tokenizer, "eos_token_ids", None)
    return None if found is None else tuple(sorted(found))


def huggingface_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer of transformers that mlx-lm's wrapper holds, or what was given."""
    return getattr(tokenizer, "_tokenizer", tokenizer) if hasattr(tokenizer, "eos_token_ids") else tokenizer


def logits_width(model: Any) -> int | None:
    """How many logits the model gives at each position; often more than its tokenizer has ids.

    Nothing is computed: the shape is known before the array is evaluated.

    Raises:
        InvalidArgument: it is not a model.
    """
    if model is None:
        return None
    if not callable(model) or not hasattr(model, "layers"):
        raise InvalidArgument(f"{shown(model)} is not a model; pass the first value that mlx_lm.load returns")
    return int(model(mx.array([[0]])).shape[-1])


def max_length(model: Any) -> int:
    """How many tokens a sequence has at most."""
    found = getattr(getattr(model, "args", None), "max_position_embeddings", None)
    return found if isinstance(found, int) else _LONGEST


def key_value_layers(model: Any) -> int:
    """How many caches of keys and values the model is called with.

    Raises:
        UnsupportedEngineVersion: it keeps something else, or forgets.
    """
    caches = make_prompt_cache(model)
    other = next((type(cache).__name__ for cache in caches if type(cache) is not KVCache), None)
    if other is not None:
        raise UnsupportedEngineVersion(
            "mlx-lm", found=other, needed="a KVCache in each layer", missing="sequences that can be cut back"
        )
    return len(caches)
