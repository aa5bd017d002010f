"""Packed masks as what ExLlamaV2's sampler takes: masked logits, or lists of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import InvalidArgument
from formatter_core.generation.jobs import wrong_generator
from formatter_core.runtime.hook import ids_within
from formatter_core.runtime.torch_bitmask import RowMasker

__all__ = ["AllowedIds", "check_logits", "masked_logits", "only_these"]


class AllowedIds:
    """The sorted ids of a mask, computed again only if the mask has changed."""

    def __init__(self, row: NDArray[np.int32]) -> None:
        self._row = np.zeros_like(row)
        self._ids: list[int] = []
        self._set: set[int] | None = None

    def answer(
        self, row: NDArray[np.int32], end_ids: Sequence[int], width: int | None, *, as_lists: bool
    ) -> tuple[Any, Any]:
        """Return the ids, and the end ids among them, as two lists or two sets.

        ExLlamaV2 writes past the logits for an id past `width`, how many there are. Only a filter of another model has
        such ids, and it has failed: it is left an id to end with.
        """
        ends = [token_id for token_id in end_ids if bitmask.get(row, token_id)]
        if ends and width is not None and ends[-1] >= width:
            ends = ids_within(ends, width)
            return (ends, ends) if as_lists else (set(ends), set(ends))
        return (self.as_list(row), ends) if as_lists else (self.as_set(row), set(ends))

    def as_list(self, row: NDArray[np.int32]) -> list[int]:
        """Return the ids in ascending order; ExLlamaV2 reads them in one pass and skips those that are out of order."""
        if not self._ids or not np.array_equal(row, self._row):
            self._ids = bitmask.allowed_ids(row)
            self._row[:] = row
            self._set = None
        return self._ids

    def as_set(self, row: NDArray[np.int32]) -> set[int]:
        """Return the allowed ids as a set."""
        ids = self.as_list(row)
        if self._set is None:
            self._set = set(ids)
        return self._set


def check_logits(logits: torch.Tensor, size: int) -> None:
    """Raise unless a mask of this many ids can be written into the logits.

    Raises:
        InvalidArgument: the logits are not float32.
        WrongModel: they are too few.
    """
    if logits.dtype is not torch.float32:
        raise InvalidArgument(f"the logits are {logits.dtype}, but the sampler of ExLlamaV2 takes float32")
    if logits.shape[0] < size:
        raise wrong_generator(size, f"a model of {logits.shape[0]} logits")


def masked_logits(mask: RowMasker, logits: torch.Tensor, *, may_write: bool, least: int | None) -> torch.Tensor | None:
    """Return the masked logits; None if no allowed token is above -inf.

    The given logits are not changed unless `may_write`. At the end they may be left out down to `least` if none of them
    is allowed. A multiple of 32 is left, because the sampler writes in blocks of as many; and the last one is not
    allowed, because where every token passes its min_p or top_a, the sampler writes one place too far.
    """
    if may_write:
        return mask.masked(logits, least)
    masked = logits.clone()
    return masked if mask(masked) else None


def only_these(token_ids: Sequence[int], width: int) -> torch.Tensor:
    """Return logits that allow only these ids."""
    logits = torch.full((width,), -torch.inf)
    if width:
        logits[ids_within(token_ids, width)] = 0
    return logits
