"""Masks as mlx arrays, applied where the logits are."""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask

__all__ = ["Mask"]


class Mask:
    """The mask of one sequence; inside a long string it often stays the same from one token to the next.

    Args:
        size: how many ids the vocabulary has. Logits may be wider, or narrower where no id past them is ever allowed.
    """

    def __init__(self, size: int) -> None:
        self.row: NDArray[np.int32] = bitmask.allocate(1, size)[0]
        """The row, to be filled before `apply`."""
        self._of: tuple[bytes, int, Any] | None = None
        self._ids: mx.array | None = None
        self._bounds: mx.array | None = None

    def apply(self, logits: mx.array) -> mx.array:
        """New logits, -inf wherever the row does not allow a token; lazily.

        Args:
            logits: a floating dtype, shape (1, width); the tail past the row is masked.
        """
        width, dtype = logits.shape[-1], logits.dtype
        if self._of != (of := (self.row.tobytes(), width, dtype)):
            self._upload(width, dtype)
            self._of = of
        if self._ids is not None:
            kept = mx.take_along_axis(logits, self._ids, axis=-1)
            return mx.put_along_axis(_nothing(width, dtype), self._ids, kept, axis=-1)
        # Among unsigned numbers with the bits of floats -inf is the highest, beside those of negative NaNs, and 0 the
        # lowest. On a CPU this takes a twentieth of the time of a choice by booleans.
        return mx.maximum(logits.view(_unsigned(dtype)), self._bounds).view(dtype)

    def _upload(self, width: int, dtype: Any) -> None:
        """The ids that are allowed, if they lie in few words of the row, or the least that each logit's bits may be."""
        (words,) = self.row.astype(np.bool_).nonzero()
        if 8 * len(words) <= len(self.row):
            (bits,) = bitmask.unpack(self.row[words]).nonzero()
            self._ids = mx.array((32 * words[bits >> 5] + (bits & 31)).astype(np.int32)[None])
            return
        row = np.zeros(bitmask.words(width), dtype=np.int32)
        row[: len(self.row)] = self.row[: len(row)]
        bounds = np.take(_bounds_of_octets(dtype), row.view(np.uint8), axis=0, mode="clip")
        self._ids, self._bounds = None, mx.array(bounds.reshape(1, -1)[:, :width])


@functools.lru_cache(maxsize=4)
def _nothing(width: int, dtype: Any) -> mx.array:
    made = mx.full((1, width), -np.inf, dtype)
    mx.eval(made)  # by the thread that has its stream
    return made


@functools.lru_cache
def _bounds_of_octets(dtype: Any) -> NDArray[Any]:
    """For each of 256 octets, eight times: 0 where its bit is set, otherwise the bits of -inf."""
    octets = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    lowest = mx.array([-np.inf, 0], dtype).view(_unsigned(dtype))
    return np.array(lowest)[octets]


@functools.lru_cache
def _unsigned(dtype: Any) -> Any:
    return getattr(mx, f"uint{8 * mx.zeros(1, dtype).itemsize}")
