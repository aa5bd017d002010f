"""The demands of a job beside its format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_exllamav3 import _compat

__all__ = ["is_alone", "leaves_token", "mask_memory"]


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
