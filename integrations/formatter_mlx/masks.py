"""Masks as mlx arrays, applied where the logits are."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

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
        self.row: NDArray[np.int32] = bitmask.allocate(1, -(-size // 64) * 64)[0]
        """The row, to be filled before `apply`; its words come in pairs."""
        self._pairs = self.row.view(np.int64)
        self._uploaded: _Uploaded | None = None

    def apply(self, logits: mx.array) -> mx.array:
        """New logits, -inf wherever the row does not allow a token; lazily.

        Args:
            logits: a floating dtype, shape (1, width); the tail past the row is masked.
        """
        key = (self.row.tobytes(), logits.shape[-1], logits.dtype)
        uploaded = self._uploaded
        if uploaded is None or uploaded.key != key:
            # A sum takes less time than a hash of all bytes; another mask with the same one is not kept.
            uploaded = _masks.get((int(self._pairs.sum()), *key[1:]), lambda: _upload(key, self.row))
            if uploaded.key != key:
                uploaded = _upload(key, self.row)
            self._uploaded = uploaded
        return uploaded.apply(logits)


class _Uploaded(NamedTuple):
    """A mask on the device: its row with the width and dtype of logits, what applies it, how many bytes it holds."""

    key: tuple[bytes, int, Any]
    apply: Callable[[mx.array], mx.array]
    bytes: int


def _upload(key: tuple[bytes, int, Any], row: NDArray[np.int32]) -> _Uploaded:
    _, width, dtype = key
    (words,) = row.astype(np.bool_).nonzero()
    if 8 * len(words) <= len(row):
        (bits,) = bitmask.unpack(row[words]).nonzero()
        ids = mx.array((32 * words[bits >> 5] + (bits & 31)).astype(np.int32)[None])
        return _Uploaded(key, partial(_keep, ids, _nothing(width, dtype)), row.nbytes + ids.nbytes)
    whole = np.zeros(bitmask.words(width), dtype=np.int32)
    whole[: len(row)] = row[: len(whole)]
    octets = np.take(_bounds_of_octets(dtype), whole.view(np.uint8), axis=0, mode="clip")
    bounds = mx.array(octets.reshape(1, -1)[:, :width])
    return _Uploaded(key, partial(_bound, bounds), row.nbytes + bounds.nbytes)


def _keep(ids: mx.array, nothing: mx.array, logits: mx.array) -> mx.array:
    """The logits of some ids alone; `nothing` is -inf throughout."""
    return mx.put_along_axis(nothing, ids, mx.take_along_axis(logits, ids, axis=-1), axis=-1)


def _bound(bounds: mx.array, logits: mx.array) -> mx.array:
    """The logits, each with at least the bits of its bound: 0 leaves it as it is, those of -inf mask it.

    Among unsigned numbers with the bits of floats -inf is the highest, beside those of negative NaNs, and 0 the lowest.
    On a CPU this takes a twentieth of the time of a choice by booleans.
    """
    return mx.maximum(logits.view(bounds.dtype), bounds).view(logits.dtype)


#: The latest masks of all sequences: a format's states come back, in one output and in the next.
_masks = ByteBoundedCache[_Uploaded](2**25, lambda uploaded: uploaded.bytes)


@lru_cache(maxsize=4)
def _nothing(width: int, dtype: Any) -> mx.array:
    made = mx.full((1, width), -np.inf, dtype)
    mx.eval(made)  # by the thread that has its stream
    return made


@lru_cache
def _bounds_of_octets(dtype: Any) -> NDArray[Any]:
    """For each of 256 octets, eight times: 0 where its bit is set, otherwise the bits of -inf."""
    octets = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    lowest = mx.array([-np.inf, 0], dtype)
    return np.array(lowest.view(getattr(mx, f"uint{8 * lowest.itemsize}")))[octets]
