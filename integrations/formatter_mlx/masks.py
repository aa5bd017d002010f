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

__all__ = ["LogitsKind", "Mask", "Row", "kind_of"]

# A name is read faster than an attribute.
_full, _put, _take = mx.full, mx.put_along_axis, mx.take_along_axis

#: The maximum number of known mask numbers; beyond it, all are dropped.
_MAX_KNOWN_NUMBERS = 2**14


class Mask:
    """A mask on the device: a list of the allowed ids, or of the forbidden ids.

    On a CPU with cold caches, such a list takes less time than an operation over all logits and an array of the same
    size.

    Args:
        row: the packed mask.
        kind: the kind of logits that it is for; logits past the row are forbidden.

    Attributes:
        row: the packed mask's bytes.
        kind: as above.
    """

    __slots__ = ("__weakref__", "_are_allowed", "_forbidden", "_ids", "_shape", "kind", "row")

    def __init__(self, row: NDArray[np.int32], kind: LogitsKind) -> None:
        width = kind.width
        self._shape = (1, width)
        allowed = np.zeros(width, dtype=np.bool_)
        bits = bitmask.unpack(row)[:width]
        allowed[: len(bits)] = bits
        # To copy a logit out and in again takes about twice as long as to overwrite it.
        self._are_allowed = 3 * int(np.count_nonzero(allowed)) <= width
        (ids,) = (allowed if self._are_allowed else ~allowed).nonzero()
        self._ids = mx.array(ids.astype(np.uint32)[None])
        # Broadcast here, to spare every step an operation; only one number takes memory.
        self._forbidden = mx.broadcast_to(kind.forbidden, self._shape if self._are_allowed else self._ids.shape)
        mx.eval(self._ids, self._forbidden)
        self.kind = kind
        self.row = row.tobytes()

    @property
    def nbytes(self) -> int:
        """The size of the mask in bytes."""
        return len(self.row) + int(self._ids.nbytes)

    def apply(self, logits: mx.array) -> mx.array:
        """Return new logits, -inf wherever no token is allowed; evaluated lazily.

        Args:
            logits: of its kind, shape (1, width).
        """
        ids = self._ids
        if self._are_allowed:
            return _put(_full(self._shape, self._forbidden), ids, _take(logits, ids, -1), -1)
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

    def mask(self, kind: LogitsKind) -> Mask:
        """Return the mask that was written, for logits of one kind."""
        last = self._last
        if last is None or self._bytes != last.row or kind is not last.kind:
            # A checksum takes less time than a hash of a copy; another mask with the same one is not kept.
            last = _masks.get((crc32(self._bytes), id(kind)), Mask, self.words, kind)
            if self._bytes != last.row or kind is not last.kind:
                last = Mask(self.words, kind)
            self._last = last
        return last


class LogitsKind:
    """A width and dtype of logits, with the numbers of the masks that are on the device for them.

    Attributes:
        width: the number of logits.
        forbidden: the logit of a token that is not allowed, shape (1, 1).
    """

    __slots__ = ("_numbers", "forbidden", "width")

    def __init__(self, width: int, dtype: mx.Dtype) -> None:
        self.width = width
        self.forbidden = mx.full((1, 1), -np.inf, dtype)
        mx.eval(self.forbidden)
        self._numbers: dict[int, weakref.ref[Mask]] = {}

    def numbered(self, number: int) -> Mask | None:
        """Return the mask with this number from `Cursor.append_kept`, if it is on the device."""
        found = self._numbers.get(number)
        return None if found is None else found()

    def keep_number(self, number: int, mask: Mask) -> None:
        """Let the mask be found by a number of `Cursor.append_kept`, as long as something else keeps it."""
        if len(self._numbers) >= _MAX_KNOWN_NUMBERS:
            self._numbers.clear()
        self._numbers[number] = weakref.ref(mask)


@lru_cache(8)
def kind_of(width: int, dtype: mx.Dtype) -> LogitsKind:
    """Return the kind of these logits; equal arguments share one object while few kinds are in use."""
    return LogitsKind(width, dtype)


#: The latest masks of all sequences: a format's states come back, in one output and in the next.
_masks = ByteBoundedCache[Mask](2**25, lambda mask: mask.nbytes)
