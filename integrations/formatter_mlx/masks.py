"""Masks as mlx arrays, applied where the logits are."""

from __future__ import annotations

import weakref
from functools import lru_cache
from zlib import crc32

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.limits.cache import ByteBoundedCache

__all__ = ["Mask", "Row", "all_forbidden", "keep_number", "numbered"]

# A name is read faster than an attribute.
_full, _put, _take = mx.full, mx.put_along_axis, mx.take_along_axis

#: How many numbers of masks are known at most; all are forgotten where there would be more.
_MOST_NUMBERS = 2**14


class Mask:
    """A mask on the device: a list of the ids that are allowed, or of the others.

    On a CPU, and with the arrays in no cache of the processor, such a list takes less time than an operation over all
    logits and bounds of the same size.

    Args:
        row: the packed mask.
        nothing: `all_forbidden` of the logits that it is for; those past the row are forbidden.

    Attributes:
        row: the packed mask's bytes.
        nothing: as above.
    """

    __slots__ = ("__weakref__", "_are_allowed", "_forbidden", "_ids", "_shape", "nothing", "row")

    def __init__(self, row: NDArray[np.int32], nothing: mx.array) -> None:
        self._shape = nothing.shape
        width = nothing.size
        allowed = np.zeros(width, dtype=np.bool_)
        bits = bitmask.unpack(row)[:width]
        allowed[: len(bits)] = bits
        # To copy a logit out and in again takes about twice as long as to overwrite it.
        self._are_allowed = 3 * int(np.count_nonzero(allowed)) <= width
        (ids,) = (allowed if self._are_allowed else ~allowed).nonzero()
        self._ids = mx.array(ids.astype(np.uint32)[None])
        self._forbidden = mx.broadcast_to(nothing[:, :1], self._ids.shape)  # here, to spare every step an operation
        mx.eval(self._ids, self._forbidden)
        self.nothing = nothing
        self.row = row.tobytes()

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return len(self.row) + int(self._ids.nbytes)

    def apply(self, logits: mx.array) -> mx.array:
        """New logits, -inf wherever no token is allowed; lazily.

        Args:
            logits: of the width and the dtype that it is for.
        """
        ids = self._ids
        if self._are_allowed:
            return _put(_full(self._shape, self.nothing), ids, _take(logits, ids, -1), -1)
        return _put(logits, ids, self._forbidden, -1)


class Row:
    """The row that one sequence writes its masks to; inside a long string they often stay the same.

    Args:
        size: how many ids the vocabulary has. Logits may be wider, or narrower where no id past them is ever allowed.

    Attributes:
        words: int32, to be written before `mask`.
    """

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(-(-size // 32) * 4)  # compared and summed up without a copy, or a call of numpy
        self.words: NDArray[np.int32] = np.frombuffer(self._bytes, dtype=np.int32)
        self._last: Mask | None = None

    def mask(self, nothing: mx.array) -> Mask:
        """What was written, for the logits that `nothing` is of."""
        last = self._last
        if last is None or self._bytes != last.row or nothing is not last.nothing:
            # A checksum takes less time than a hash of a copy; another mask with the same one is not kept.
            last = _masks.get((crc32(self._bytes), id(nothing)), Mask, self.words, nothing)
            if self._bytes != last.row or nothing is not last.nothing:
                last = Mask(self.words, nothing)
            self._last = last
        return last


@lru_cache(8)
def all_forbidden(width: int, dtype: mx.Dtype) -> mx.array:
    """Logits (1, width) of -inf; only one of them takes memory. The same object for the same arguments, if possible."""
    logits = mx.broadcast_to(mx.array(-np.inf, dtype), (1, width))
    mx.eval(logits)
    return logits


def numbered(number: int, nothing: mx.array) -> Mask | None:
    """The mask that has this number of `Cursor.append_kept`, if it is on the device for the logits of `nothing`."""
    found = _numbered.get(number)
    mask = None if found is None else found()
    return mask if mask is not None and mask.nothing is nothing else None


def keep_number(number: int, mask: Mask) -> None:
    """Let the mask be found by a number of `Cursor.append_kept`, as long as something else keeps it."""
    if len(_numbered) >= _MOST_NUMBERS:
        _numbered.clear()
    _numbered[number] = weakref.ref(mask)


#: The latest masks of all sequences: a format's states come back, in one output and in the next.
_masks = ByteBoundedCache[Mask](2**25, lambda mask: mask.nbytes)
_numbered: dict[int, weakref.ref[Mask]] = {}
