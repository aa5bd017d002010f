"""The adapter's access to mlx-lm's tokenizers and models; no other module inspects them."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion
from formatter_core.errors.arguments import shown

__all__ = ["end_ids", "huggingface_tokenizer", "key_value_layers", "logits_width", "max_length"]

#: The longest sequence, if the model names no limit.
_UNLIMITED_LENGTH = 2**20


def end_ids(tokenizer: Any) -> tuple[int, ...] | None:
    """Return the ids at which mlx-lm's loops stop; None if the tokenizer is not mlx-lm's: its own end id applies."""
    found = getattr(tokenizer, "eos_token_ids", None)
    return None if found is None else tuple(sorted(found))


def huggingface_tokenizer(tokenizer: Any) -> Any:
    """Return the transformers tokenizer inside mlx-lm's wrapper, or the given object."""
    return getattr(tokenizer, "_tokenizer", tokenizer) if hasattr(tokenizer, "eos_token_ids") else tokenizer


def logits_width(model: Any) -> int | None:
    """Return the number of logits at each position, which often exceeds the number of the tokenizer's ids.

    Nothing is computed: the shape is known before the array is evaluated.

    Raises:
        InvalidArgument: the argument is not a model.
    """
    if model is None:
        return None
    if not callable(model) or not hasattr(model, "layers"):
        raise InvalidArgument(f"{shown(model)} is not a model; pass the first value that mlx_lm.load returns")
    return int(model(mx.array([[0]])).shape[-1])


def max_length(model: Any) -> int:
    """Return the maximum length of a sequence in tokens."""
    found = getattr(getattr(model, "args", None), "max_position_embeddings", None)
    return found if isinstance(found, int) else _UNLIMITED_LENGTH


def key_value_layers(model: Any) -> int:
    """Return the number of key-value caches that the model is called with.

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
