"""The masks of one step: all rows in one call into the grammar engine, and one copy to the device of the logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import NoTokenLeft
from formatter_core.runtime import torch_bitmask
from formatter_vllm.constraints import Constraint

__all__ = ["StepMasks", "end_rows"]

#: The logit of an end that another rule forbids but that has to come; the only finite one of its row.
_FORCED_END = 0.0

#: The row of each constrained request; where it has drafts, theirs follow it.
Rows = Sequence[tuple[int, Constraint]]
#: The draft ids of a request by its row.
Drafts = Mapping[int, Sequence[int]]


class StepMasks:
    """Masks logits, in memory for the bits that every step uses again.

    Args:
        vocabulary_size: how many ids the vocabulary has.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._bits = bitmask.allocate(0, vocabulary_size)

    def apply(self, logits: torch.Tensor, rows: Rows, drafts: Drafts) -> None:
        """Set the logits of all tokens that may not come next to -inf, in place; rows without a format are not touched.

        Args:
            logits: float (rows, width), any device; wider than the vocabulary is fine.
        """
        ordered, places = rows, [row for row, _ in rows]
        if drafts:  # those with drafts come last, so that the masks of the others lie together
            ordered = sorted(rows, key=lambda one: one[0] in drafts)
            places = [row + offset for row, _ in ordered for offset in range(len(drafts.get(row, ())) + 1)]
        bits = self._rows(len(places), max(logits.shape[1], self._vocabulary_size))
        fill_rows(bits, ordered, drafts)
        apply_rows(logits, bits, places)
        _end_where_nothing_is_left(logits, ordered, drafts, bits)

    def _rows(self, count: int, size: int) -> NDArray[np.int32]:
        if len(self._bits) < count or self._bits.shape[1] != bitmask.words(size):
            self._bits = bitmask.allocate(count, size)
        return self._bits[:count]


def fill_rows(bits: NDArray[np.int32], rows: Rows, drafts: Drafts) -> None:
    """Write the masks of all rows, those of drafts included, one after the other; those with drafts come last."""
    alone = [constraint for row, constraint in rows if row not in drafts]
    done = len(alone)
    if alone:
        Constraint.fill_together(alone, bits[:done])
    for row, constraint in rows[done:]:
        count = len(drafts[row]) + 1
        constraint.fill_drafts(drafts[row], bits[done : done + count])
        done += count


def apply_rows(logits: torch.Tensor, bits: NDArray[np.int32], places: list[int]) -> None:
    """Mask the rows of the logits at these places."""
    torch_bitmask.apply_inplace(logits, bits, None if places == list(range(len(logits))) else places)


def end_rows(logits: torch.Tensor, rows: Rows, drafts: Drafts) -> None:
    """Leave nothing but their ends to all constrained rows, in place."""
    for row, constraint in rows:
        for offset in range(len(drafts.get(row, ())) + 1):
            _force_end(logits[row + offset], constraint)


def _end_where_nothing_is_left(logits: torch.Tensor, rows: Rows, drafts: Drafts, bits: NDArray[np.int32]) -> None:
    """End the rows of which other rules of the request (`bad_words`, `allowed_token_ids`) have left no token."""
    place = 0
    for row, constraint in rows:
        if constraint.has_competing_rules and not bool(torch.isfinite(logits[row]).any()):
            if not any(bitmask.get(bits[place], token_id) for token_id in constraint.end_ids):
                constraint.fail(NoTokenLeft(constraint.text))
            _force_end(logits[row], constraint)
        place += len(drafts[row]) + 1 if row in drafts else 1


def _force_end(row: torch.Tensor, constraint: Constraint) -> None:
    row.fill_(-torch.inf)
    row[[token_id for token_id in constraint.end_ids if token_id < len(row)]] = _FORCED_END
