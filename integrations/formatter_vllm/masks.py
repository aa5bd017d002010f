"""The masks of one step: all rows in one call into the grammar engine, and one copy to the device of the logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import bitmask, torch_bitmask
from formatter_core.errors import AllowedTokensForbidden
from formatter_vllm.constraints import Constraint

__all__ = ["end_rows", "mask_rows"]

#: The logit of an end that another rule forbids but that has to come; the only finite one of its row.
_FORCED_END = 0.0


def mask_rows(
    logits: torch.Tensor,
    rows: Sequence[Constraint | None],
    vocabulary_size: int,
    drafts: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Set the logits of all tokens that may not come next to -inf, in place.

    Args:
        logits: float (rows, width), any device; wider than the vocabulary is fine.
        rows: the constraint of each row, None where it has none.
        vocabulary_size: how many ids the vocabulary has.
        drafts: the draft ids of a request by its first row; their rows follow it.
    """
    bits = bitmask.allocate(len(rows), max(logits.shape[1], vocabulary_size), fill="all")
    _fill(bits, rows, drafts or {})
    torch_bitmask.apply_inplace(logits, bits)
    _end_where_nothing_is_left(logits, rows, bits)


def _fill(bits: NDArray[np.int32], rows: Sequence[Constraint | None], drafts: Mapping[int, Sequence[int]]) -> None:
    alone = [None if constraint is None or row in drafts else constraint for row, constraint in enumerate(rows)]
    one_by_one = [(row, constraint) for row, constraint in enumerate(alone) if constraint and not constraint.formatter]
    try:
        bitmask.fill_batch([constraint and constraint.formatter for constraint in alone], bits)
    except Exception:  # noqa: BLE001 - found again, and kept by the constraint that it came from
        one_by_one = [(row, constraint) for row, constraint in enumerate(alone) if constraint]
        bits[[row for row, constraint in enumerate(alone) if constraint is None]] = -1
    for row, constraint in one_by_one:
        constraint.fill_bitmask(bits[row])
    for first, ids in drafts.items():
        constraint_of_drafts = rows[first]
        if constraint_of_drafts is not None:
            constraint_of_drafts.fill_drafts(ids, bits[first : first + len(ids) + 1])


def end_rows(logits: torch.Tensor, rows: Sequence[Constraint | None], drafts: Mapping[int, Sequence[int]]) -> None:
    """Leave nothing but their ends to all constrained rows, in place; arguments as in `mask_rows`."""
    for row, constraint in enumerate(rows):
        if constraint is not None:
            for offset in range(len(drafts.get(row, ())) + 1):
                _force_end(logits[row + offset], constraint)


def _end_where_nothing_is_left(
    logits: torch.Tensor, rows: Sequence[Constraint | None], bits: NDArray[np.int32]
) -> None:
    """End the rows of which other rules of the request (`bad_words`, `allowed_token_ids`) have left no token."""
    for row, constraint in enumerate(rows):
        if constraint is None or not constraint.has_competing_rules or bool(torch.isfinite(logits[row]).any()):
            continue
        if not any(bitmask.get(bits[row], token_id) for token_id in constraint.end_ids):
            constraint.fail(AllowedTokensForbidden(constraint.text))
        _force_end(logits[row], constraint)


def _force_end(row: torch.Tensor, constraint: Constraint) -> None:
    row.fill_(-torch.inf)
    row[[token_id for token_id in constraint.end_ids if token_id < len(row)]] = _FORCED_END
