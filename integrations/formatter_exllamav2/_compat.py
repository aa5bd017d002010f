"""What the adapter needs of ExLlamaV2; no other module looks at exllamav2 or inside its objects.

A filter tells the sampler what may come next in one of three ways, by release: up to 0.2.0 as a set; from 0.2.1 as a
sorted list, worked out by a background thread; from 0.2.4 by masking the logits. Which ways there are is seen from the
base class of all filters.
"""

from __future__ import annotations

import sys
from importlib import import_module
from operator import index
from typing import Any

from formatter_core.errors import InvalidVocabulary, UnsupportedEngineVersion

__all__ = [
    "MASKS_LOGITS",
    "Filter",
    "calling_job",
    "end_ids",
    "has_banned_strings",
    "has_tokens_of",
    "job_width",
    "logits_width",
    "padded_width",
    "prefers_end",
    "returns_logits",
    "runs",
    "sampler_prefers_end",
    "special_tokens",
    "stop_tokens",
    "token_id",
    "tokenizer_model",
]


def _exllamav2() -> tuple[Any, Any]:
    """The base class of all filters, and that of a dynamic generator's jobs."""
    filters = import_module("exllamav2.generator.filters")
    generators = import_module("exllamav2.generator")
    missing = "ExLlamaV2Filter"
    if hasattr(filters, missing):
        missing = "ExLlamaV2DynamicJob"
        if hasattr(generators, missing):
            return filters.ExLlamaV2Filter, generators.ExLlamaV2DynamicJob
    raise _unsupported(missing)


def _unsupported(missing: str) -> UnsupportedEngineVersion:
    version = str(getattr(import_module("exllamav2"), "__version__", "of unknown version"))
    return UnsupportedEngineVersion("exllamav2", found=version, needed="0.2.0 to 0.3.2", missing=missing)


Filter, _Job = _exllamav2()

#: Whether a filter may mask the logits itself.
MASKS_LOGITS = hasattr(Filter, "can_mask_logits")


# --- tokenizers ----------------------------------------------------------------------------------------------------


def tokenizer_model(tokenizer: Any) -> Any:
    """What holds the pieces: a `tokenizers.Tokenizer`, or, before 0.3.1, a SentencePiece processor.

    Raises:
        InvalidVocabulary: this is no tokenizer of ExLlamaV2.
    """
    inner = getattr(tokenizer, "tokenizer_model", None) or getattr(tokenizer, "tokenizer", None)
    for name in ("hf_tokenizer", "spm"):
        found = getattr(inner, name, None)
        if found is not None:
            return found
    raise InvalidVocabulary(f"{type(tokenizer).__name__} is not a tokenizer of ExLlamaV2; give an ExLlamaV2Tokenizer")


def special_tokens(tokenizer: Any) -> dict[str, int]:
    """What ExLlamaV2 leaves out of the text: the tokens that a file of the model declares as special."""
    return {name: token_id for token_id, name in (tokenizer.extended_id_to_piece or {}).items()}


def end_ids(tokenizer: Any, model: Any = None) -> tuple[int, ...]:
    """The ids that end an output: the tokenizer's own, which comes first, and those of `generation_config.json`."""
    config = tokenizer.config if model is None else model.config
    listed = (getattr(config, "generation_config", None) or {}).get("eos_token_id") or ()
    found = [tokenizer.eos_token_id, *listed]
    return tuple(dict.fromkeys(int(token_id) for token_id in found if token_id is not None))


def logits_width(tokenizer: Any, model: Any = None) -> int | None:
    """How many ids the model has logits for. The generator's rows of logits are this wide, or padded."""
    width = getattr(tokenizer.config if model is None else model.config, "vocab_size", None)
    return width if isinstance(width, int) else None


def padded_width(tokenizer: Any, model: Any, least: int) -> int:
    """How wide a row of logits will be, as far as that can be told: at least as wide as the vocabulary."""
    width = max(logits_width(tokenizer, model) or 0, least)
    return (width + 31) // 32 * 32


def token_id(token: Any) -> int:
    """The id that a filter is fed, as a number or a tensor with one element; -1 for anything else."""
    try:
        return index(token)
    except Exception:  # noqa: BLE001 - tensors raise errors of their own
        return -1


# --- jobs ----------------------------------------------------------------------------------------------------------


def calling_job() -> Any:
    """The job of a dynamic generator that is calling the filter; None where something else is.

    A job tells its filters nothing about itself, but it is the `self` of the method that calls them.

    Raises:
        UnsupportedEngineVersion: the dynamic generator calls the filter, but its job is not found.
    """
    frame: Any = sys._getframe(1)
    is_dynamic = False
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, _Job):
            return owner
        is_dynamic = is_dynamic or frame.f_globals.get("__name__") == _Job.__module__
        frame = frame.f_back
    if is_dynamic:
        raise _unsupported("the job among the callers of a filter")
    return None


def runs(job: Any) -> bool:
    """Whether the generator of this job is still working on it."""
    generator = job.generator
    return not job.is_finished and generator is not None and job in generator.active_jobs


def job_width(job: Any) -> int | None:
    """How many ids the model of the job's generator has logits for, where that can be told."""
    config = getattr(getattr(job.generator, "model", None), "config", None)
    width = getattr(config, "vocab_size", None)
    return width if isinstance(width, int) else None


def has_tokens_of(job: Any, tokenizer: Any) -> bool:
    """Whether the job's generator has this tokenizer, or one with the same pieces, as far as that can be told."""
    own = getattr(job.generator, "tokenizer", None)
    if own is None or tokenizer is None or own is tokenizer:
        return True
    return bool(own.get_id_to_piece_list() == tokenizer.get_id_to_piece_list())


def returns_logits(job: Any) -> bool:
    """Whether the job's results hold the logits, from the very memory that filters are given."""
    return bool(job.return_logits)


def prefers_end(job: Any) -> bool:
    """Whether the job ends as soon as its filters allow that (`filter_prefer_eos`), which is done with lists alone."""
    return bool(getattr(job, "filter_prefer_eos", False))


def sampler_prefers_end() -> bool:
    """Whether the sampler that calls a filter, for a generator without jobs, was asked for `filter_prefer_eos`."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "sample":
            return bool(frame.f_locals.get("filter_prefer_eos"))
        frame = frame.f_back
    return False


def has_banned_strings(job: Any) -> bool:
    """Whether the job takes tokens back that led to a banned string, of which a filter is not informed."""
    return bool(getattr(job, "banned_strings", None))


def stop_tokens(job: Any) -> frozenset[int]:
    """The ids at which the job ends."""
    return frozenset(job.stop_tokens)
