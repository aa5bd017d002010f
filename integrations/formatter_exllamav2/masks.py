"""Packed masks as what ExLlamaV2's sampler takes: masked logits, or lists of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import InvalidArgument, WrongModel

__all__ = ["AllowedIds", "LogitsMask", "only_these", "wrong_model"]

#: Up to here allowed ids are copied one by one.
_FEW = 2048

#: The most that a logit may be, for each of the eight ids of a byte of a packed mask.
_LIMITS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), np.inf, -np.inf
).astype(np.float32)


class LogitsMask:
    """A mask, made ready to be applied to dense float32 logits on the CPU with as little as possible.

    Inside a text nearly all ids are allowed and between its parts only a few, so it is either the forbidden ids that
    are written, or the allowed ones that are copied. In between, the logits are limited by a row that is inf where an
    id is allowed and -inf elsewhere. Each of them changes no logit that is allowed. What is needed is worked out by
    `prepare`, which a background thread calls, and only where the mask has changed.

    Args:
        size: how many ids the vocabulary has.
        width: how many logits to expect.
    """

    def __init__(self, size: int, width: int) -> None:
        self._size, self._width = size, width
        self._row = np.zeros(bitmask.words(size), dtype=np.int32)
        self._version = -1
        self._allowed: NDArray[np.intp] | None = None
        self._forbidden: NDArray[np.intp] | None = None
        self._ceiling = np.empty(0, dtype=np.float32)
        self._own = np.empty(0, dtype=np.float32)
        self._written: NDArray[np.intp] | None = None  # where `_own` is not -inf; None where that is not known
        self._witness = 0  # some id that is allowed

    def masked(
        self, logits: torch.Tensor, row: NDArray[np.int32], version: int, *, in_place: bool
    ) -> torch.Tensor | None:
        """`prepare`, then `apply`, for torch.

        Raises:
            InvalidArgument: the logits are not float32.
            WrongModel: they are too few.
        """
        if logits.dtype != torch.float32:
            raise InvalidArgument(f"the logits are {logits.dtype}, but the sampler of ExLlamaV2 takes float32")
        if len(logits) < self._size:
            raise wrong_model(self._size, f"a model of {len(logits)} logits")
        values: NDArray[np.float32] = logits.numpy()
        self._width = len(values)
        self.prepare(row, version)
        masked = self.apply(values, in_place=in_place)
        return logits if masked is values else None if masked is None else torch.from_numpy(masked)

    def prepare(self, row: NDArray[np.int32], version: int) -> None:
        """Get ready to mask as many logits as the last time with this row; the same version means the same row."""
        width = self._width
        is_as_wide = len(self._own) == width
        if is_as_wide and (version == self._version or np.array_equal(row, self._row)):
            self._version = version
            return
        if not is_as_wide:
            self._own = np.empty(width, dtype=np.float32)
            self._written = None
        self._row[:] = row
        self._version = version
        may = np.zeros(width, dtype=np.bool_)
        bits = bitmask.unpack(row)[:width]
        may[: len(bits)] = bits
        count = int(np.count_nonzero(may))
        self._allowed = np.flatnonzero(may) if count <= _FEW else None
        self._forbidden = np.flatnonzero(~may) if self._allowed is None and width - count <= width // 8 else None
        self._witness = int(may.argmax())
        if self._allowed is None and self._forbidden is None:
            self._limit(row, width)

    def apply(self, logits: NDArray[Any], *, in_place: bool) -> NDArray[np.float32] | None:
        """The logits with -inf for what is not allowed.

        They are in `logits` itself where that may be written and it costs less, otherwise in memory that is used again
        for the next mask. None where no logit that is allowed is finite: the sampler would choose anything, without a
        word.
        """
        own = self._own
        if self._allowed is not None:
            if in_place and self._written is not None:
                own[self._written] = -np.inf
            else:
                own.fill(-np.inf)
            own[self._allowed] = logits[self._allowed]
            self._written = self._allowed
            masked = own
        else:
            masked = logits if in_place else own
            if not in_place:
                own[:] = logits
                self._written = None
            if self._forbidden is not None:
                masked[self._forbidden] = -np.inf
            else:
                np.minimum(masked, self._ceiling[: len(masked)], out=masked)
        # The comparisons are false for NaN too.
        return masked if masked[self._witness] > -np.inf or masked.max() > -np.inf else None

    def _limit(self, row: NDArray[np.int32], width: int) -> None:
        if len(self._ceiling) != max(width, 32 * len(row)):
            self._ceiling = np.full(max(width, 32 * len(row)), -np.inf, dtype=np.float32)
        octets = row.astype("<i4", copy=False).view(np.uint8)
        np.take(_LIMITS, octets, axis=0, out=self._ceiling[: 32 * len(row)].reshape(-1, 8), mode="clip")


class AllowedIds:
    """The sorted ids of a mask, made anew only where the mask has changed."""

    def __init__(self, row: NDArray[np.int32]) -> None:
        self._row = np.zeros_like(row)
        self._ids: list[int] = []
        self._set: set[int] | None = None

    def answer(
        self, row: NDArray[np.int32], end_ids: Sequence[int], width: int | None, *, as_lists: bool
    ) -> tuple[Any, Any]:
        """The ids, and which of them are end ids, as two lists or two sets.

        ExLlamaV2 writes past the logits for an id past `width`, how many there are. Only a filter of another model has
        such ids, and it has failed: it is left an id to end with.
        """
        ends = [token_id for token_id in end_ids if bitmask.get(row, token_id)]
        if ends and width is not None and ends[-1] >= width:
            ends = within(ends, width)
            return (ends, ends) if as_lists else (set(ends), set(ends))
        return (self.as_list(row), ends) if as_lists else (self.as_set(row), set(ends))

    def as_list(self, row: NDArray[np.int32]) -> list[int]:
        """The ids in ascending order: ExLlamaV2 walks through them once, and loses those that are out of order."""
        if not self._ids or not np.array_equal(row, self._row):
            self._ids = bitmask.allowed_ids(row)
            self._row[:] = row
            self._set = None
        return self._ids

    def as_set(self, row: NDArray[np.int32]) -> set[int]:
        """The same as a set."""
        ids = self.as_list(row)
        if self._set is None:
            self._set = set(ids)
        return self._set


def wrong_model(size: int, found: str) -> WrongModel:
    """The error for a filter whose vocabulary has this many ids, and which found another model's."""
    remedy = "create it with the tokenizer and the model of this generator"
    return WrongModel("FormatterFilter", made_for=f"a tokenizer of {size} ids", found=found, remedy=remedy)


def only_these(token_ids: Sequence[int], width: int) -> torch.Tensor:
    """Logits that leave these ids alone."""
    logits = torch.full((width,), -torch.inf)
    logits[within(token_ids, width)] = 0
    return logits


def within(token_ids: Sequence[int], width: int) -> list[int]:
    """Those of the ids that a model of this many logits has; one that it has, if there are none."""
    return [token_id for token_id in token_ids if token_id < width] or [0]
