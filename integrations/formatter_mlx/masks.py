"""Masks as mlx arrays, applied where the logits are."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask

__all__ = ["Mask"]


class Mask:
    """The mask of one sequence; inside a long string it often stays the same from one token to the next.

    Whichever is fewer is uploaded, the ids that are allowed or the others: to move a few logits costs a fraction of
    what a choice between two arrays does, and of the memory that a mask of booleans takes on its way.
    """

    def __init__(self, size: int) -> None:
        self.row: NDArray[np.int32] = bitmask.allocate(1, size)[0]
        """The row, to be filled before `apply`."""
        self._of = b""
        self._width = -1
        self._ids = mx.array([0])
        self._are_allowed = True

    def apply(self, logits: mx.array) -> mx.array:
        """New logits, -inf wherever the row does not allow a token; lazily.

        Args:
            logits: a floating dtype, shape (1, width); the tail past the row is masked.
        """
        width = logits.shape[-1]
        row = self.row.tobytes()
        if row != self._of or width != self._width:
            self._choose(width)
            self._of, self._width = row, width
        if not self._are_allowed:
            return mx.put_along_axis(logits, self._ids, mx.array(-np.inf, logits.dtype), axis=-1)
        kept = mx.take_along_axis(logits, self._ids, axis=-1)
        return mx.put_along_axis(mx.full(logits.shape, -np.inf, logits.dtype), self._ids, kept, axis=-1)

    def _choose(self, width: int) -> None:
        allowed = bitmask.unpack(self.row)[:width]
        self._are_allowed = 2 * int(np.count_nonzero(allowed)) <= width
        ids = np.flatnonzero(allowed if self._are_allowed else ~allowed).astype(np.int32)
        if not self._are_allowed:
            ids = np.append(ids, np.arange(len(allowed), width, dtype=np.int32))
        self._ids = mx.array(ids[None])
