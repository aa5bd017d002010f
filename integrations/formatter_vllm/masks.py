"""The masks of one step: many rows in one call into the grammar engine, and one copy to the device of the logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import Cursor, bitmask
from formatter_core.errors import NoTokenLeft
from formatter_core.runtime import torch_bitmask
from formatter_vllm.constraints import Constraint

__all__ = ["NO_DRAFTS", "Drafts", "Rows", "StepMasks", "end_rows"]

#: The logit of an end id that another rule forbids although nothing else is left; the only finite one of its row.
_FORCED_END = 0.0

#: Up to this number of requests a call for each costs less than preparing one call for all.
_FEW = 8

#: The row of each constrained request; if it has drafts, theirs follow it.
Rows = Sequence[tuple[int, Constraint]]
#: The draft ids of a request by its row.
Drafts = Mapping[int, Sequence[int]]
NO_DRAFTS: Drafts = {}


class StepMasks:
    """Masks logits, in memory for the bits that every step uses again.

    Args:
        vocabulary_size: how many ids the vocabulary has.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._width = vocabulary_size
        self._bits = bitmask.allocate(0, vocabulary_size)
        self._rows = [*self._bits]  # a state that gets the same array again need not look at it

    def apply(self, logits: torch.Tensor, rows: Rows, drafts: Drafts = NO_DRAFTS) -> None:
        """Set the logits of all tokens that may not come next to -inf, in place; rows without a format are not touched.

        Nothing raises: whatever goes wrong, its sequences are left their end ids, and keep the cause.

        Args:
            logits: float (rows, width), any device; wider than the vocabulary is fine.
        """
        try:
            ordered, places = rows, [row for row, _ in rows]
            if drafts:  # those with drafts come last, so that the masks of the others lie together
                ordered = sorted(rows, key=lambda one: one[0] in drafts)
                places = [row + offset for row, _ in ordered for offset in range(len(drafts.get(row, ())) + 1)]
            count, width = logits.shape
            if len(self._bits) < len(places) or self._width != width:
                self._bits = bitmask.allocate(len(places), max(width, self._vocabulary_size))
                self._rows = [*self._bits]
                self._width = width
            bits = self._bits[: len(places)]
            fill_rows(bits, self._rows, ordered, drafts)
            apply_rows(logits, bits, None if places == list(range(count)) else places)
            _end_where_nothing_is_left(logits, ordered, drafts, bits)
        except Exception as error:  # noqa: BLE001 - no row may go on unconstrained, and the others go on
            for _, constraint in rows:
                constraint.cursor.fail(error)
            end_rows(logits, rows, drafts)


def fill_rows(bits: NDArray[np.int32], bits_by_row: Sequence[NDArray[np.int32]], rows: Rows, drafts: Drafts) -> None:
    """Write the masks of all rows, those of drafts included, one after the other; those with drafts come last."""
    alone = [constraint.cursor for row, constraint in rows if row not in drafts]
    done = len(alone)
    if done <= _FEW:
        for cursor, own_bits in zip(alone, bits_by_row, strict=False):
            cursor.fill_bitmask(own_bits)
    else:
        Cursor.step_batch(alone, bits)
    for row, constraint in rows[done:]:
        count = len(drafts[row]) + 1
        constraint.cursor.fill_drafts(drafts[row], bits[done : done + count])
        done += count


#: Mask the rows of the logits at these places; None for all rows.
apply_rows = torch_bitmask.apply_inplace


def end_rows(logits: torch.Tensor, rows: Rows, drafts: Drafts) -> None:
    """Allow all constrained rows only their end, in place."""
    for row, constraint in rows:
        for offset in range(len(drafts.get(row, ())) + 1):
            _force_end(logits[row + offset], constraint)


def _end_where_nothing_is_left(logits: torch.Tensor, rows: Rows, drafts: Drafts, bits: NDArray[np.int32]) -> None:
    """End the rows that failed, or for which other rules (`bad_words`, `allowed_token_ids`) left no token."""
    place = 0
    for row, constraint in rows:
        cursor = constraint.cursor
        if cursor.has_failed and constraint.failure_id is not None:
            _force_end(logits[row], constraint)
        elif constraint.has_competing_rules and not bool(torch.isfinite(logits[row]).any()):
            if not any(bitmask.get(bits[place], token_id) for token_id in cursor.end_ids):
                cursor.fail(NoTokenLeft(cursor.bytes))
            _force_end(logits[row], constraint)
        place += len(drafts[row]) + 1 if row in drafts else 1


def _force_end(row: torch.Tensor, constraint: Constraint) -> None:
    row.fill_(-torch.inf)
    cursor = constraint.cursor
    is_marked = cursor.has_failed and constraint.failure_id is not None
    for token_id in (constraint.failure_id,) if is_marked else cursor.end_ids:
        if token_id is not None and token_id < len(row):
            row[token_id] = _FORCED_END
