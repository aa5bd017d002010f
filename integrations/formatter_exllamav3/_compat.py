"""The adapter's access to ExLlamaV3; no other module inspects exllamav3 or its objects.

Releases differ in one thing that a filter must know: from 1.4.1 on a mask may be packed, and filters are rewound.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

from formatter_core.errors import UnsupportedEngineVersion

__all__ = [
    "PACKED_MASKS",
    "Filter",
    "declared_tokens",
    "end_ids",
    "lift_minimum",
    "mask_memory",
    "refused_ids",
    "runs",
    "size",
    "stop_ids",
]


def _filter_class() -> Any:
    module = import_module("exllamav3")
    found = getattr(module, "Filter", None)
    if found is None:
        version = getattr(getattr(module, "version", None), "__version__", "of unknown version")
        raise UnsupportedEngineVersion("exllamav3", found=version, needed=">= 0.0.5", missing="exllamav3.Filter")
    return found


#: The base class of all filters.
Filter: Any = _filter_class()

#: True if a job takes packed masks; the release that introduced them also introduced rewinding.
PACKED_MASKS = hasattr(Filter, "rewind")


# --- tokenizers ----------------------------------------------------------------------------------------------------


def end_ids(tokenizer: Any) -> tuple[int, ...]:
    """Return the ids that end an output, as the model's files name them: none, one or several.

    `tokenizer.eos_token_id` alone would not do: it is one of them, and 2 where no file names any.
    """
    listed = [token_id for token_id in tokenizer.config.eos_token_id_list or () if token_id is not None]
    if not listed and "eos_token" in (tokenizer.tokenizer_config_dict or {}):
        listed = [token_id for token_id in [tokenizer.eos_token_id] if token_id is not None]
    # A job looks up the text of each token, and raises where there is none.
    return tuple(token_id for token_id in dict.fromkeys(listed) if token_id < tokenizer.actual_vocab_size)


def size(tokenizer: Any, model: Any = None) -> int:
    """Return the number of ids that can be sampled and have a text.

    These have logits in the model and are known to the tokenizer.
    """
    width = getattr(tokenizer.config if model is None else model.config, "vocab_size", None)
    known = int(tokenizer.actual_vocab_size)
    return min(known, width) if isinstance(width, int) else known


def declared_tokens(tokenizer: Any) -> Iterator[tuple[int, str, bool]]:
    """Yield the added tokens of `tokenizer_config.json`: id, content, and whether the token is special.

    ExLlamaV3 forgets which of them are special where they decode correctly, so its file is read instead.
    """
    declared = (tokenizer.tokenizer_config_dict or {}).get("added_tokens_decoder") or {}
    for token_id, token in declared.items():
        yield int(token_id), str(token["content"]), bool(token.get("special", True))


# --- jobs ----------------------------------------------------------------------------------------------------------


def runs(job: Any) -> bool:
    """Tell whether the generator of this job is still working on it."""
    if job.is_finished:
        return False
    # A long output is queued again, with its filters unchanged.
    waits = getattr(job, "is_requeued", False) and job in job.generator.pending_jobs
    return waits or job in job.generator.active_jobs


def refused_ids(job: Any) -> list[int]:
    """Return the ids that the job removes from its next mask because they led to a banned string."""
    checkpoint = getattr(job, "checkpoint", None)
    if not checkpoint or checkpoint["offset"] != 0:
        return []
    return list(checkpoint["explored_tokens"])


def stop_ids(job: Any) -> list[int]:
    """Return the ids that the job removes from its next mask because its output is shorter than `min_new_tokens`."""
    return list(job.stop_tokens_list) if job.new_tokens < job.min_new_tokens else []


def lift_minimum(job: Any) -> None:
    """Let the output end before it has `min_new_tokens`."""
    job.min_new_tokens = 0


def mask_memory(job: Any) -> torch.Tensor | None:
    """Return the tensor that the job copies its dense masks to and sends to the device; None before it exists.

    A mask that already is this tensor is not copied. The job samples with the sent mask before it asks for the next
    one.
    """
    memory = getattr(job, "pinned_logit_mask", None)
    if not isinstance(memory, torch.Tensor) or not memory.is_cpu or memory.dtype is not torch.half:
        return None
    return memory if memory.is_contiguous() else None
