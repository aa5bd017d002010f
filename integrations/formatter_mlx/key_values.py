"""Keys and values of several sequences of different lengths, in the form that mlx-lm's models take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

__all__ = ["KeyValues"]

#: Buffers grow by this many tokens at a time.
_STEP = 256


class KeyValues:
    """The keys and values of a batch; the model is called with `layers` as its cache.

    Rows are aligned at their first token. Padding tokens of a shorter row are written after its own tokens: a row sees
    nothing past its own length, and its next tokens overwrite the padding.

    Args:
        layers: the number of caches that the model takes.
        lengths: the number of tokens in each row.
    """

    def __init__(self, layers: int, lengths: Sequence[int]) -> None:
        self.layers = [_Layer(self) for _ in range(layers)]
        self.lengths = lengths

    @property
    def lengths(self) -> Sequence[int]:
        """The number of tokens in each row."""
        return self._lengths

    @lengths.setter
    def lengths(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        # If all rows are equally long, a number will do, which every model takes; one token then needs no mask.
        self.offset: Any = self._lengths[0] if len(set(self._lengths)) == 1 else mx.array(self._lengths)

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays, to be evaluated."""
        return [array for layer in self.layers for array in (layer.keys, layer.values) if array is not None]

    def selected(self, rows: Sequence[int]) -> KeyValues:
        """Return a copy that consists of these rows."""
        made = KeyValues(len(self.layers), [self._lengths[row] for row in rows])
        indices = mx.array(list(rows))
        for old, new in zip(self.layers, made.layers, strict=True):
            if old.keys is not None and old.values is not None:
                new.keys, new.values = old.keys[indices], old.values[indices]
        return made


class _Layer:
    """The cache of one layer; its methods and `offset` are what models use of mlx-lm's own caches."""

    def __init__(self, batch: KeyValues) -> None:
        self._batch = batch
        self.keys: mx.array | None = None
        self.values: mx.array | None = None

    @property
    def offset(self) -> Any:
        """The position of the next token: a number, or an array with one for each row."""
        return self._batch.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append the new values to each row, (rows, heads, new, size), and return all, up to the longest row's end."""
        end = max(self._batch.lengths) + keys.shape[2]
        self.keys, self.values = self._written(self.keys, keys, end), self._written(self.values, values, end)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _written(self, kept: mx.array | None, new: mx.array, end: int) -> mx.array:
        rows, heads, count, size = new.shape
        if kept is None:
            kept = mx.zeros((rows, heads, 0, size), new.dtype)
        if (missing := end - kept.shape[2]) > 0:
            room = mx.zeros((rows, heads, -(-missing // _STEP) * _STEP, size), new.dtype)
            kept = mx.concatenate([kept, room], axis=2)
        offset = self.offset
        if isinstance(offset, int):
            kept[:, :, offset : offset + count] = new
            return kept
        places = (offset[:, None] + mx.arange(count))[:, None, :, None]
        return mx.put_along_axis(kept, mx.broadcast_to(places, new.shape), new, axis=2)

    def make_mask(self, new: int, return_array: bool = False, window_size: int | None = None) -> mx.array | str | None:
        """Make the mask of the positions that each new token sees; None or "causal", as in mlx-lm, if that suffices."""
        offset = self.offset
        if isinstance(offset, int) and window_size is None and not return_array:
            return None if new == 1 else "causal"
        own = (mx.array(offset).reshape(-1, 1) + mx.arange(new))[:, None, :, None]
        seen = mx.arange(max(self._batch.lengths) + new)
        mask = seen <= own
        return mask if window_size is None else mask & (seen > own - window_size)
