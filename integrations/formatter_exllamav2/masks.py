"""Packed masks as what ExLlamaV2's sampler takes: masked logits, or lists of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask

__all__ = ["AllowedIds", "Ceiling"]

#: The most that a logit may be, for each of the eight ids of a byte of a packed mask.
_CEILINGS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), np.inf, -np.inf
).astype(np.float32)


class Ceiling:
    """A mask as the most that each logit may be: inf where its id is allowed, -inf elsewhere.

    To mask is then one `minimum`, which changes nothing else: the cheapest exact way there is for dense float32 logits
    on a CPU (a tenth of a boolean mask's time). It is made anew only where the mask has changed, by whoever prepares
    the mask, which is a background thread.
    """

    def __init__(self, row: NDArray[np.int32]) -> None:
        self._row = row.copy()
        self._ceiling: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._masked: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._witness = 0  # some id that is allowed

    def prepare(self, row: NDArray[np.int32], width: int) -> None:
        """Get ready to mask this many logits with this row."""
        if len(self._masked) != width:
            self._ceiling = np.full(max(width, 32 * len(row)), -np.inf, dtype=np.float32)
            self._masked = np.empty(width, dtype=np.float32)
        elif np.array_equal(row, self._row):
            return
        self._row[:] = row
        octets = row.astype("<i4", copy=False).view(np.uint8)
        np.take(_CEILINGS, octets, axis=0, out=self._ceiling[: 32 * len(row)].reshape(-1, 8), mode="clip")
        self._witness = _first_allowed(row)

    def mask(self, logits: NDArray[Any]) -> NDArray[np.float32] | None:
        """The logits with -inf for what is not allowed, in memory that is used again for the next mask.

        None where none that is allowed is finite: the sampler would choose anything then, without a word.
        """
        masked: NDArray[np.float32] = np.minimum(logits, self._ceiling[: len(logits)], out=self._masked)
        # The comparisons are false for NaN too.
        if not masked[min(self._witness, len(masked) - 1)] > -np.inf and not masked.max() > -np.inf:
            return None
        return masked


class AllowedIds:
    """The sorted ids of a mask, made anew only where the mask has changed."""

    def __init__(self, row: NDArray[np.int32]) -> None:
        self._row = np.zeros_like(row)
        self._ids: list[int] = []
        self._set: set[int] | None = None

    def as_list(self, row: NDArray[np.int32]) -> list[int]:
        """The ids in ascending order: ExLlamaV2 walks through them once, and loses those that are out of order."""
        if not self._ids or not np.array_equal(row, self._row):
            self._ids = bitmask.allowed_ids(row)
            self._row[:] = row
            self._set = None
        return self._ids

    def as_set(self, row: NDArray[np.int32]) -> set[int]:
        """The same as a set."""
        ids = self.as_list(row)
        if self._set is None:
            self._set = set(ids)
        return self._set


def _first_allowed(row: NDArray[np.int32]) -> int:
    words = np.flatnonzero(row)
    if not len(words):
        return 0
    word = int(row[words[0]]) & 0xFFFFFFFF
    return 32 * int(words[0]) + (word & -word).bit_length() - 1
