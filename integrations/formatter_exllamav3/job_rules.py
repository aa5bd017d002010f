"""What a job takes out of its next mask by rules of its own: `banned_strings` and `min_new_tokens`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_exllamav3 import _compat

__all__ = ["leaves_token"]


def leaves_token(job: Any, row: NDArray[np.int32]) -> bool:
    """Whether a token of the mask is left once the job has taken out those that lead to a banned string.

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
