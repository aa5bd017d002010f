"""A step of many sequences in one call into the grammar engine."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.protocol import MaskStatus
from formatter_core.engine.rows import check_rows
from formatter_core.errors import ConcurrentUse, FormatterError, InvalidArgument
from formatter_core.errors.arguments import not_a_token_id, shown
from formatter_core.runtime.sequence_state import SequenceState

__all__ = ["ONE_THREAD", "checked_row_indices", "step_batch"]

# Text may follow, and nothing else is to be said. A name is read faster than an attribute.
_TEXT_ONLY = MaskStatus.HAS_TOKENS | MaskStatus.ACCEPTED

ONE_THREAD = "a formatter is one thread's at a time; give each thread a fork of its own"


def step_batch(
    states: Sequence[SequenceState],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    row_indices: Sequence[int] | None = None,
) -> dict[int, Exception]:
    """See `Formatter.step_batch`."""
    count = len(states)
    check_rows(rows, count)
    rows_of = range(count) if row_indices is None else checked_row_indices(row_indices, count, rows)
    if not count or len(token_ids) != count:
        raise InvalidArgument(
            f"found {count} formatters and {len(token_ids)} token ids; give equal numbers of each, at least one"
        )
    first = states[0]
    vocabulary, kind, size, words = first.compiled.vocabulary, type(first.engine), first.size, first.words
    fits = rows.shape[1] >= words
    faults: dict[int, Exception] = {}
    held: list[SequenceState] = []
    together, engines, tokens, targets = [], [], [], []
    try:
        for number, (state, token_id, row_index) in enumerate(zip(states, token_ids, rows_of, strict=True)):
            if not state.busy.acquire(False):
                faults[number] = ConcurrentUse(ONE_THREAD)
                continue
            held.append(state)
            if token_id is not None:
                try:
                    token_id = index(token_id)
                except TypeError:
                    faults[number] = not_a_token_id(token_id)
                    continue
            engine = state.engine
            if (
                fits
                and not state.transcript.ends
                and (token_id is None or (0 <= token_id < size and token_id not in state.end_ids))
                and type(engine) is kind
                and state.compiled.vocabulary is vocabulary
            ):
                together.append(number)
                engines.append(engine)
                tokens.append(token_id)
                targets.append(row_index)
                continue
            try:
                if token_id is not None:
                    state.accept(token_id)
                state.fill(rows[row_index])
            except Exception as error:  # noqa: BLE001 - it belongs to one sequence, and the others go on
                faults[number] = error
        if together:
            text = rows
            if rows.shape[1] > words:
                rows[targets, words:] = 0
                text = rows[:, :words]
            answers = first.compiled.engine_grammar.step_batch(engines, tokens, text, targets)
            for number, token_id, row_index, status in zip(together, tokens, targets, answers, strict=True):
                state = states[number]
                if isinstance(status, Exception):
                    faults[number] = status
                    continue
                if token_id is not None:
                    if not status:
                        faults[number] = state.rejected(token_id)
                        continue
                    state.transcript.steps.append(token_id)
                if status | MaskStatus.ACCEPTED != _TEXT_ONLY or state.own_ends:
                    try:
                        state.add_ends(text[row_index], status)
                    except FormatterError as error:
                        faults[number] = error
    finally:
        for state in held:
            state.busy.release()
    for number in faults:
        rows[rows_of[number]] = 0
    return faults


def checked_row_indices(row_indices: Sequence[int], count: int, rows: NDArray[np.int32]) -> Sequence[int]:
    """The indices of `count` rows.

    Raises:
        InvalidArgument: they are something else, or not as many.
    """
    argument = "row_indices"
    try:
        rows_of = list(map(index, row_indices))
    except TypeError as error:
        raise InvalidArgument(f"{argument} is {shown(row_indices)}; give row indices", argument=argument) from error
    if len(rows_of) != count or (rows_of and not 0 <= min(rows_of) <= max(rows_of) < len(rows)):
        reason = f"{argument} is {shown(row_indices)}; give numbers of {count} of the {len(rows)} rows"
        raise InvalidArgument(reason, argument=argument)
    return rows_of
