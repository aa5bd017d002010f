"""Packed rows as what an ExLlamaV3 job takes: packed int32 masks, or dense ones of half floats."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask

__all__ = ["MaskBuffer"]

#: The eight numbers for a byte of a packed mask: 0 for a set bit, else -inf.
_DENSE = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0.0, -np.inf)
_HALVES = _DENSE.astype(np.float16)


class MaskBuffer:
    """The memory of one filter's masks; a job finishes with one mask before it requests the next.

    Nothing else may write to memory that a dense mask was written to, as long as this buffer is used.
    """

    def __init__(self, width: int, *, packed: bool, words: int | None = None) -> None:
        self.width = width
        self.row: NDArray[np.int32] = bitmask.allocate(1, width)[0]
        """The mask to return."""
        self.text = self.row[:words]
        """The words of the vocabulary, which the core writes; no bit after them is ever set."""
        self._packed = torch.from_numpy(self.row).unsqueeze(0) if packed else None
        self._memory: torch.Tensor | None = None
        self._written = b""

    def tensor(self, memory: torch.Tensor | None = None) -> torch.Tensor:
        """Return the row for a job: int32 (1, words), or half (1, width) with 0 for allowed tokens, else -inf.

        Args:
            memory: half (1, width), where a dense mask is wanted in the end. It is written there, unless it is what was
                written there last, so that half a megabyte need not be written and copied in each step.
        """
        if self._packed is not None:
            return self._packed
        octets = self.row.astype("<i4", copy=False).view(np.uint8)
        if memory is None or memory.shape[-1] != len(octets) * 8:
            self._memory = None
            return torch.from_numpy(_HALVES.take(octets, axis=0).reshape(1, -1)[:, : self.width])
        written = octets.tobytes()
        if memory is not self._memory or written != self._written:
            _HALVES.take(octets, axis=0, out=memory.numpy().reshape(-1, 8), mode="clip")
            self._memory, self._written = memory, written
        return memory
