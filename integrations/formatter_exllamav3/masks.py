"""Packed rows as what an ExLlamaV3 job takes: packed int32 masks, or dense ones of half floats."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask

__all__ = ["MaskBuffer"]

#: The eight numbers that a byte of a packed mask stands for: 0 where its bit is set, -inf where not.
_DENSE = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0.0, -np.inf)
_HALVES = _DENSE.astype(np.float16)


class MaskBuffer:
    """The memory of one filter's masks; a job is done with one before it asks for the next."""

    def __init__(self, width: int, *, packed: bool, words: int | None = None) -> None:
        self.width = width
        self.row: NDArray[np.int32] = bitmask.allocate(1, width)[0]
        """The mask to be given."""
        self.text = self.row[:words]
        """The words that the vocabulary takes, for the core to write; behind them no bit is ever set."""
        self._packed = torch.from_numpy(self.row).unsqueeze(0) if packed else None

    def tensor(self) -> torch.Tensor:
        """The row for a job: int32 (1, words), or half (1, width) with 0 for what is allowed and -inf elsewhere."""
        if self._packed is not None:
            return self._packed
        octets = self.row.astype("<i4", copy=False).view(np.uint8)
        return torch.from_numpy(_HALVES[octets].reshape(1, -1)[:, : self.width])
