"""Masks as mlx arrays, applied where the logits are."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.limits.cache import ByteBoundedCache

__all__ = ["Mask"]


class Mask:
    """The mask of one sequence; inside a long string it often stays the same from one token to the next.

    Args:
        size: how many ids the vocabulary has. Logits may be wider, or narrower where no id past them is ever allowed.
    """

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(-(-size // 32) * 4)  # compared and summed up without a copy, or a call of numpy
        self.row: NDArray[np.int32] = np.frombuffer(self._bytes, dtype=np.int32)
        """The row, to be filled before `apply`."""
        self._uploaded: _Uploaded | None = None

    def apply(self, logits: mx.array) -> mx.array:
        """New logits, -inf wherever the row does not allow a token; lazily.

        Args:
            logits: a floating dtype, shape (1, width); the tail past the row is masked.
        """
        width = logits.shape[-1]
        uploaded = self._uploaded
        if uploaded is None or self._bytes != uploaded.row or width != uploaded.width:
            # A checksum takes less time than a hash of a copy; another mask with the same one is not kept.
            uploaded = _masks.get((crc32(self._bytes), width), _upload, self.row, width)
            if self._bytes != uploaded.row:
                uploaded = _upload(self.row, width)
            self._uploaded = uploaded
        if uploaded.are_allowed:
            kept = mx.take_along_axis(logits, uploaded.ids, axis=-1)
            return mx.put_along_axis(_forbidden(width, logits.dtype), uploaded.ids, kept, axis=-1)
        return mx.put_along_axis(logits, uploaded.ids, _forbidden(1, logits.dtype), axis=-1)


@lru_cache(8)
def _forbidden(width: int, dtype: mx.Dtype) -> mx.array:
    """Logits that allow nothing, to be copied; they are evaluated once."""
    logits = mx.full((1, width), -np.inf, dtype)
    mx.eval(logits)
    return logits


class _Uploaded(NamedTuple):
    """A mask on the device: its row, the width of logits, and its ids, either those that are allowed or the others.

    On a CPU, and with the arrays in no cache of the processor, a list of ids takes less time than an operation over all
    logits and bounds of the same size.
    """

    row: bytes
    width: int
    ids: mx.array
    are_allowed: bool


def _upload(row: NDArray[np.int32], width: int) -> _Uploaded:
    allowed = np.zeros(width, dtype=np.bool_)
    bits = bitmask.unpack(row)[:width]
    allowed[: len(bits)] = bits
    # To copy a logit out and in again takes about twice as long as to overwrite it.
    are_allowed = 3 * int(np.count_nonzero(allowed)) <= width
    (ids,) = (allowed if are_allowed else ~allowed).nonzero()
    return _Uploaded(row.tobytes(), width, mx.array(ids.astype(np.uint32)[None]), are_allowed)


#: The latest masks of all sequences: a format's states come back, in one output and in the next.
_masks = ByteBoundedCache[_Uploaded](2**25, lambda uploaded: len(uploaded.row) + uploaded.ids.nbytes)
