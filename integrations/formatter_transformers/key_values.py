"""The keys and values of a batch of sequences, in buffers that a step writes in place.

Concatenating tensors at each step would copy a long prompt once for every sample and every token. Rows may have
different lengths: an unused column is masked for the row, wherever it is. Positions are counted by row, so nothing else
depends on a token's column. Rows that were made of one may therefore share the columns of that one, each masked to its
own, for as long as most columns belong to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["KeyValues", "LayerBuffer", "Segment"]

#: Keys and values of some tokens of one row: for each layer two tensors of shape (heads, tokens, size).
Segment: TypeAlias = "list[tuple[torch.Tensor, torch.Tensor]]"

#: Columns that a new buffer has to spare.
_SPARE = 64
#: A batch is packed again when unused columns make it this many times as wide as its longest row.
_SLACK = 1.5


_NONE = torch.empty((0, 0, 0))


class LayerBuffer:
    """Keys and values of one layer, each (rows, heads, capacity, size), of which `length` columns are written."""

    def __init__(self) -> None:
        self.length = 0
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def views(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the written keys and values (rows, heads, length, size) as views of the buffer."""
        if self._buffers is None:
            empty = torch.empty((0, 0, 0, 0))
            return empty, empty
        keys, values = self._buffers
        return keys[:, :, : self.length], values[:, :, : self.length]

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Add columns (rows, heads, columns, size); returns all that are written then."""
        start, length = self.length, self.length + keys.shape[2]
        if self._buffers is None:
            self._buffers = _wider(keys[:, :, :0], length + _SPARE), _wider(values[:, :, :0], length + _SPARE)
        self.reserve(length, length // 4 + _SPARE)
        for buffer, new in zip(self._buffers, (keys, values), strict=True):
            buffer[:, :, start:length] = new
        self.length = length
        return self.views()

    def reserve(self, columns: int, spare: int = 0) -> None:
        """Make room for this many columns; a buffer that must grow gets some spare columns."""
        if self._buffers is not None and columns > self._buffers[0].shape[2]:
            keys, values = self.views()
            self._buffers = _wider(keys, columns + spare), _wider(values, columns + spare)

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows, in this order."""
        if self._buffers is not None:
            capacity = self._buffers[0].shape[2]
            keys, values = self.views()
            rows = rows.to(keys.device)  # the layers of a large model may be on several devices
            self._buffers = _wider(keys[rows], capacity), _wider(values[rows], capacity)

    def gather(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Keep these columns of each row, in this order; both are integers (rows, columns)."""
        if self._buffers is not None:
            device = self._buffers[0].device
            rows, columns = rows.to(device), columns.to(device)
            taken = [view[rows, :, columns].transpose(1, 2) for view in self.views()]
            self.length = columns.shape[1]
            self._buffers = _wider(taken[0], self.length + _SPARE), _wider(taken[1], self.length + _SPARE)

    def cut(self, length: int) -> None:
        """Forget the columns past `length`."""
        self.length = min(self.length, length)


def _wider(columns: torch.Tensor, capacity: int) -> torch.Tensor:
    rows, heads, length, size = columns.shape
    buffer = columns.new_empty((rows, heads, capacity, size))
    buffer[:, :, :length] = columns
    return buffer


class KeyValues:
    """The buffers of all layers, and which of their columns each row uses.

    Args:
        rows: how many sequences.
        layers: how many layers.
        device: where the model runs.
        can_share: whether rows that are made of one may share its columns.
    """

    def __init__(self, rows: int, layers: int, device: torch.device, can_share: bool = False) -> None:
        self.layers = [LayerBuffer() for _ in range(layers)]
        self.used = np.zeros((rows, 0), dtype=np.bool_)
        self.is_shared = False
        """True if the buffers have a single row, whose columns all sequences share."""
        self._device = device
        self._can_share = can_share

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.used)

    @property
    def columns(self) -> int:
        """The number of columns, used by a row or not."""
        return self.used.shape[1]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each row, int64 (rows,)."""
        lengths: NDArray[np.int64] = self.used.sum(axis=1, dtype=np.int64)
        return lengths

    @property
    def has_gaps(self) -> bool:
        """Tell whether a row has an unused column before one that it uses."""
        return bool((self.used[:, :-1] & ~self.used[:, 1:]).any())

    def mask_with(self, new: NDArray[np.bool_]) -> torch.Tensor | None:
        """Return the attention mask for new columns, int64 (rows, all columns), 0 if unused; None if all are used."""
        if self.used.all() and new.all():
            return None
        return torch.from_numpy(np.concatenate([self.used, new], axis=1).astype(np.int64)).to(self._device)

    def wrote(self, new: NDArray[np.bool_]) -> None:
        """Note that columns were written; `new`, booleans (rows, columns), says which of them a row uses."""
        self.used = np.concatenate([self.used, new], axis=1)

    def reserve(self, columns: int) -> None:
        """Make room for this many columns in all."""
        for layer in self.layers:
            layer.reserve(columns)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be there several times."""
        chosen = np.asarray(rows, dtype=np.int64)
        if np.array_equal(chosen, np.arange(self.rows)):
            return
        had_one_row, self.is_shared = self.is_shared or self.rows == 1, False
        if had_one_row and self._can_share:
            self.is_shared = len(chosen) != 1
        else:
            index = torch.from_numpy(chosen).to(self._device)
            for layer in self.layers:
                layer.select(index)
        self.used = self.used[chosen]
        self.pack()

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget the tokens of each row past its length."""
        ordinal = np.cumsum(self.used, axis=1)
        self.used = self.used & (ordinal <= np.asarray(lengths, dtype=np.int64)[:, None])
        occupied = np.flatnonzero(self.used.any(axis=0))
        columns = int(occupied[-1]) + 1 if len(occupied) else 0
        for layer in self.layers:
            layer.cut(columns)
        self.used = self.used[:, :columns]

    def is_too_wide(self, new_columns: int = 0, new_tokens: int = 0) -> bool:
        """Tell whether too many columns are unused, or will be with new columns.

        A row uses at most `new_tokens` of the new columns.
        """
        longest = int(self.lengths.max(initial=0)) + new_tokens
        return self.columns + new_columns > _SLACK * longest + _SPARE

    def pack(self, *, always: bool = False) -> None:
        """Drop unused columns where they are too many: every row then has its tokens in the last columns, and alone."""
        if not always and not self.is_too_wide():
            return
        longest = int(self.lengths.max(initial=0))
        columns = np.zeros((self.rows, longest), dtype=np.int64)
        used = np.zeros((self.rows, longest), dtype=np.bool_)
        for row, of_row in enumerate(self.used):
            own = np.flatnonzero(of_row)
            columns[row, longest - len(own) :] = own
            used[row, longest - len(own) :] = True
        at = torch.from_numpy(columns).to(self._device)
        rows = torch.arange(self.rows, device=self._device)[:, None].expand_as(at)
        if self.is_shared:
            rows = torch.zeros_like(rows)
        for layer in self.layers:
            layer.gather(rows, at)
        self.used, self.is_shared = used, False

    def segment(self, row: int, start: int, stop: int) -> Segment:
        """Return a copy of the keys and values of a row's tokens from `start` to before `stop`."""
        own = np.flatnonzero(self.used[row])[start:stop]
        is_run = len(own) and own[-1] - own[0] + 1 == len(own)
        at = slice(int(own[0]), int(own[-1]) + 1) if is_run else torch.from_numpy(own)
        segment: Segment = []
        for layer in self.layers:
            keys, values = layer.views()
            # A layer that uses the keys of another one writes none, and has no entry.
            at_row = 0 if self.is_shared else row
            segment.append(
                (keys[at_row, :, at].clone(), values[at_row, :, at].clone()) if len(keys) else (_NONE, _NONE)
            )
        return segment

    def begin(self, beginnings: Sequence[Sequence[Segment]]) -> None:
        """Write what the rows of an empty batch begin with, segment after segment, right-aligned."""
        lengths = [sum(segment[0][0].shape[1] for segment in segments) for segments in beginnings]
        longest = max(lengths, default=0)
        if not longest:
            return
        some = next(segments[0] for segments in beginnings if segments)
        for index, layer in enumerate(self.layers):
            if not len(some[index][0]):
                continue
            keys, values = (like.new_zeros((self.rows, len(like), longest, like.shape[2])) for like in some[index])
            for row, segments in enumerate(beginnings):
                at = longest - lengths[row]
                for segment in segments:
                    own_keys, own_values = segment[index]
                    keys[row, :, at : at + own_keys.shape[1]] = own_keys
                    values[row, :, at : at + own_keys.shape[1]] = own_values
                    at += own_keys.shape[1]
            layer.append(keys, values)
        self.used = np.arange(longest) >= longest - np.asarray(lengths)[:, None]
