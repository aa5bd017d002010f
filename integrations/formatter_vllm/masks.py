"""The masks of one step: one call into the grammar engine, which masks logits in main memory; else one copy to them."""

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

#: The row of each constrained request; if it has drafts, theirs follow it.
Rows = Sequence[tuple[int, Constraint]]
#: The draft ids of a request by its row.
Drafts = Mapping[int, Sequence[int]]
NO_DRAFTS: Drafts = {}


class StepMasks:
    """A mask for logits, whose memory for the bits is reused in every step.

    Args:
        vocabulary_size: the number of ids in the vocabulary.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._width = vocabulary_size
        self._bits = bitmask.allocate(0, vocabulary_size)  # each mask at the place of its logits

    def apply(self, logits: torch.Tensor, rows: Rows, drafts: Drafts = NO_DRAFTS) -> None:
        """Set the logits of all tokens that may not come next to -inf, in place; rows without a format are not touched.

        This never raises: after an error, only end ids are allowed for the affected sequences, which store the cause.

        Args:
            logits: float (rows, width), any device; wider than the vocabulary is fine.
        """
        try:
            count, width = logits.shape
            if len(self._bits) < count or self._width != width:
                self._bits = bitmask.allocate(count, max(width, self._vocabulary_size))
                self._width = width
            step(rows, drafts, self._bits, logits)
            _end_where_nothing_is_left(logits, rows, self._bits)
        except Exception as error:  # noqa: BLE001 - this row must not continue unconstrained, and other rows continue
            for _, constraint in rows:
                constraint.cursor.fail(error)
            end_rows(logits, rows, drafts)


def step(rows: Rows, drafts: Drafts, bits: NDArray[np.int32], logits: torch.Tensor) -> None:
    """Write the masks of all rows, those of drafts included, and put them on the logits."""
    alone = [one for one in rows if one[0] not in drafts] if drafts else rows
    places, in_memory = [row for row, _ in alone], torch_bitmask.in_memory(logits)
    Cursor.step_batch([constraint.cursor for _, constraint in alone], bits, places, in_memory)
    if in_memory is not None:
        places = []
    for row, constraint in rows:
        if row in drafts:
            end = row + len(drafts[row]) + 1
            constraint.cursor.fill_drafts(drafts[row], bits[row:end])
            places += range(row, end)
    if len(places) == len(logits):
        torch_bitmask.apply_inplace(logits, bits[: len(logits)])
    elif places:
        torch_bitmask.apply_inplace(logits, bits[places], places)


def end_rows(logits: torch.Tensor, rows: Rows, drafts: Drafts) -> None:
    """Allow all constrained rows only their end, in place."""
    for row, constraint in rows:
        for offset in range(len(drafts.get(row, ())) + 1):
            _force_end(logits[row + offset], constraint)


def _end_where_nothing_is_left(logits: torch.Tensor, rows: Rows, bits: NDArray[np.int32]) -> None:
    """End the rows that failed, or for which other rules (`bad_words`, `allowed_token_ids`) left no token."""
    for row, constraint in rows:
        cursor = constraint.cursor
        if cursor.has_failed and constraint.failure_id is not None:
            _force_end(logits[row], constraint)
        elif constraint.has_competing_rules and not bool(torch.isfinite(logits[row]).any()):
            if not any(bitmask.get(bits[row], token_id) for token_id in cursor.end_ids):
                cursor.fail(NoTokenLeft(cursor.bytes))
            _force_end(logits[row], constraint)


def _force_end(row: torch.Tensor, constraint: Constraint) -> None:
    row.fill_(-torch.inf)
    cursor = constraint.cursor
    is_marked = cursor.has_failed and constraint.failure_id is not None
    for token_id in (constraint.failure_id,) if is_marked else cursor.end_ids:
        if token_id is not None and token_id < len(row):
            row[token_id] = _FORCED_END
