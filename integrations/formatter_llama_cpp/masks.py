"""Masking the logits of one sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Vocabulary, bitmask
from formatter_core.errors import NoTokenLeft

__all__ = ["Mask", "apply_row"]


def apply_row(cursor: Cursor, row: NDArray[np.int32], logits: NDArray[Any]) -> None:
    """Do `Mask.apply` with a row that the cursor has filled."""
    # Of NaN alone llama.cpp would choose anything.
    if not bitmask.apply_row(logits, row):
        raise NoTokenLeft(cursor.bytes)


class Mask:
    """The mask of a sequence at its current position."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._row = np.zeros(vocabulary.words, dtype=np.int32)

    def apply(self, cursor: Cursor, logits: NDArray[Any]) -> None:
        """Set the logits of all ids that the format does not allow to -inf, in place.

        Args:
            cursor: the sequence; where it has failed, its end ids are left.
            logits: a floating dtype, shape (width,), any strides; the index is the token id.

        Raises:
            NoTokenLeft: none that is allowed is finite.
        """
        cursor.fill_bitmask(self._row)
        apply_row(cursor, self._row, logits)

    def allows(self, cursor: Cursor, ids: NDArray[np.intc]) -> NDArray[np.bool_]:
        """Return a boolean array, shape (len(ids),), that tells which of these ids the format allows."""
        cursor.fill_bitmask(self._row)
        bits = bitmask.unpack(self._row)
        return np.asarray(bits.take(ids, mode="clip") & (ids < len(bits)))
