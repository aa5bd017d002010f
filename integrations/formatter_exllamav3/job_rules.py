"""The demands of a job beside its format, and the check that a filter may serve it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import FormatterError, HookReused, InvalidArgument, WrongModel
from formatter_exllamav3 import _compat

__all__ = ["is_alone", "leaves_token", "mask_memory", "misuse_of"]


def is_alone(job: Any) -> bool:
    """Tell whether a job has only one filter, so that masks may be made in threads or not, one by one.

    Releases before 1.6 confuse the masks of several filters when a draft is checked and only some filters use threads.
    """
    return job is not None and len(job.filters) == 1


def leaves_token(job: Any, row: NDArray[np.int32]) -> bool:
    """Tell whether the mask has a token left after the job removes those that lead to a banned string.

    A minimum of tokens that would leave none is lifted: the format must end there, however short the output is.
    """
    if job is None:
        return True
    refused, stops = _compat.refused_ids(job), _compat.stop_ids(job)
    if not refused and not stops:
        return True
    left = row.copy()
    bitmask.clear_ids(left, refused)
    if not left.any():
        return False
    bitmask.clear_ids(left, stops)
    if not left.any():
        _compat.lift_minimum(job)
    return True


def mask_memory(job: Any) -> Any:
    """Return the memory where a job's dense mask may be written directly, or None.

    It is None if there is no such memory, or if the job is going to change the mask there.
    """
    is_plain = is_alone(job) and not _compat.PACKED_MASKS and not _compat.refused_ids(job) and not _compat.stop_ids(job)
    return _compat.mask_memory(job) if is_plain else None


def misuse_of(job: Any, before: Any, attached: Any) -> FormatterError | None:
    """Make the error for misuse of a filter with a job; None if the use is right.

    Args:
        job: the job.
        before: the one that the filter served last, or None.
        attached: the filter.
    """
    size, width = len(attached.compiled.vocabulary), attached.vocab_size
    if before is not None and before is not job and _compat.runs(before):
        return HookReused("FormatterFilter", "create one filter for each job")
    if size > width:
        return _wrong_model(size, f"a model of {width} logits")
    if not _compat.has_tokens_of(job, attached.tokenizer):
        return _wrong_model(size, "a generator of other tokens")
    if _compat.has_banned_strings(job) and not _compat.PACKED_MASKS:
        return InvalidArgument(
            "the job has banned_strings, for which releases before 1.4.1 take tokens back without informing filters; "
            "leave the strings out, or exclude them in the format"
        )
    return None


def _wrong_model(size: int, found: str) -> WrongModel:
    remedy = "create it with the tokenizer of this generator"
    return WrongModel("FormatterFilter", made_for=f"a tokenizer of {size} ids", found=found, remedy=remedy)
