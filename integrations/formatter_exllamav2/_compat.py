"""The adapter's access to ExLlamaV2; only this module and `_compat_jobs` inspect exllamav2 or its objects.

A filter tells the sampler what may come next in one of three ways, by release: up to 0.2.0 as a set; from 0.2.1 as a
sorted list, computed by a background thread; from 0.2.4 by masking the logits. The base class of all filters shows
which of these a release has. Before 0.2.4 a filter can mask the logits too, where the sampler keeps them.
"""

from __future__ import annotations

from importlib import import_module
from operator import index
from typing import Any

from formatter_core.errors import InvalidVocabulary, UnsupportedEngineVersion

__all__ = [
    "MASKS_LOGITS",
    "TAKES_NONE",
    "Filter",
    "Job",
    "end_ids",
    "logits_width",
    "special_tokens",
    "token_id",
    "tokenizer_model",
    "unsupported",
]


def _exllamav2() -> tuple[Any, Any]:
    """Return the base class of all filters, and that of a dynamic generator's jobs."""
    filters = import_module("exllamav2.generator.filters")
    generators = import_module("exllamav2.generator")
    missing = "ExLlamaV2Filter"
    if hasattr(filters, missing):
        missing = "ExLlamaV2DynamicJob"
        if hasattr(generators, missing):
            return filters.ExLlamaV2Filter, generators.ExLlamaV2DynamicJob
    raise unsupported(missing)


def unsupported(missing: str) -> UnsupportedEngineVersion:
    return UnsupportedEngineVersion("exllamav2", found=_version(), needed="0.2.0 to 0.3.2", missing=missing)


def _version() -> str:
    return str(getattr(import_module("exllamav2"), "__version__", "of unknown version"))


Filter, Job = _exllamav2()

#: True if a filter may mask the logits itself.
MASKS_LOGITS = hasattr(Filter, "can_mask_logits")

#: True if a filter may allow every id by returning None. One release's sampler raises if all its filters do so.
TAKES_NONE = _version() != "0.2.2"


def tokenizer_model(tokenizer: Any) -> Any:
    """Return the object with the pieces: a `tokenizers.Tokenizer`, or, before 0.3.1, a SentencePiece processor.

    Raises:
        InvalidVocabulary: this is not an ExLlamaV2 tokenizer.
    """
    inner = getattr(tokenizer, "tokenizer_model", None) or getattr(tokenizer, "tokenizer", None)
    for name in ("hf_tokenizer", "spm"):
        found = getattr(inner, name, None)
        if found is not None:
            return found
    raise InvalidVocabulary(f"{type(tokenizer).__name__} is not a tokenizer of ExLlamaV2; give an ExLlamaV2Tokenizer")


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the tokens that ExLlamaV2 leaves out of the text: those that a file of the model declares as special."""
    return {name: token_id for token_id, name in (tokenizer.extended_id_to_piece or {}).items()}


def end_ids(tokenizer: Any, model: Any = None) -> tuple[int, ...]:
    """Return the ids that end an output: the tokenizer's own first, then those of `generation_config.json`."""
    config = tokenizer.config if model is None else model.config
    listed = (getattr(config, "generation_config", None) or {}).get("eos_token_id") or ()
    found = [tokenizer.eos_token_id, *listed]
    return tuple(dict.fromkeys(int(token_id) for token_id in found if token_id is not None))


def logits_width(tokenizer: Any, model: Any = None) -> int | None:
    """Return the number of ids that the model has logits for.

    The generator's rows of logits are this wide, or padded.
    """
    width = getattr(tokenizer.config if model is None else model.config, "vocab_size", None)
    return width if isinstance(width, int) else None


def token_id(token: Any) -> int:
    """Return the token id that a filter is fed, a number or a tensor with one element; -1 for anything else."""
    try:
        return index(token)
    except Exception:  # noqa: BLE001 - tensors raise their own errors
        return -1
