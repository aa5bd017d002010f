"""Step many sequences in one call to the grammar engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.protocol import MaskStatus
from formatter_core.engine.rows import apply_at, check_logits, check_rows, lie_plainly
from formatter_core.errors import ConcurrentUse, FormatterError, InvalidArgument
from formatter_core.errors.arguments import not_a_token_id, shown
from formatter_core.runtime.sequence_state import ONE_THREAD, SequenceState

__all__ = ["checked_places", "step_batch"]

# Text may follow, and nothing else is to be reported. A module-level name is read faster than an attribute.
_TEXT_ONLY = MaskStatus.HAS_TOKENS | MaskStatus.ACCEPTED
_MASKED_TEXT = _TEXT_ONLY | MaskStatus.APPLIED


def step_batch(
    states: Sequence[SequenceState],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    places: Sequence[int],
    logits: NDArray[Any] | None = None,
) -> dict[int, Exception]:
    """Step sequences as `Formatter.step_batch` does; logits (rows, width) get the mask of the same row.

    The logits of formatters that failed are not changed. `checked_places` has checked the arguments.
    """
    count, first = len(states), states[0]
    vocabulary, kind, size, words = first.vocabulary, type(first.engine), first.size, first.words
    fits = rows.shape[1] >= words
    faults: dict[int, Exception] = {}
    unmasked: list[int] = []  # the rows of logits whose mask Python completed
    numbers: Sequence[int] = range(count)
    together, tokens, targets = states, token_ids, places
    busy: list[int] = []
    taken: list[list[None]] = []
    give_back = map(list.append, taken, repeat(None))
    begun = -1
    try:
        for begun, state in enumerate(states):
            try:
                state.idle.pop()
            except IndexError:
                busy.append(begun)
            else:
                taken.append(state.idle)
        goes_along = [
            fits
            and not state.transcript.ends
            and (token_id is None or (type(token_id) is int and 0 <= token_id < size and token_id not in state.end_ids))
            and type(state.engine) is kind
            and state.vocabulary is vocabulary
            for state, token_id in zip(states, token_ids, strict=True)
        ]
        for number in busy:
            goes_along[number] = False
        if not all(goes_along):
            for number in (number for number in numbers if not goes_along[number]):
                try:
                    _step_alone(states[number], number in busy, token_ids[number], rows[places[number]])
                    unmasked.append(places[number])
                except Exception as error:  # noqa: BLE001 - it belongs to one sequence, and the others continue
                    faults[number] = error
            numbers = [number for number in numbers if goes_along[number]]
            together = [states[number] for number in numbers]
            tokens, targets = [token_ids[number] for number in numbers], [places[number] for number in numbers]
        if together:
            text = rows
            if rows.shape[1] > words:
                rows[targets, words:] = 0
                text = rows[:, :words]
            engines = [state.engine for state in together]
            is_whole = logits is not None and lie_plainly(logits) and True not in [state.own_ends for state in together]
            answers = first.compiled.engine_grammar.step_batch(
                engines, tokens, text, targets, logits if is_whole else None
            )
            for number, state, token_id, row_index, status in zip(
                numbers, together, tokens, targets, answers, strict=True
            ):
                if status == _MASKED_TEXT and token_id is not None:
                    state.transcript.steps.append(token_id)
                    continue
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
                        continue
                if not status & MaskStatus.APPLIED:
                    unmasked.append(row_index)
        if logits is not None and unmasked:
            apply_at(logits, rows, unmasked)
    except BaseException as error:
        if begun == len(taken) + len(busy):  # as in `SequenceState.was_not_taken`
            taken.append(states[begun].idle)
        for number, state in enumerate(states[: begun + 1]):
            if number not in busy:
                state.agree_again(error)
        raise
    finally:
        any(give_back)  # one call, so that a signal's handler cannot end it half-way
    for number in faults:
        rows[places[number]] = 0
    return faults


def _step_alone(state: SequenceState, is_busy: bool, token_id: int | None, row: NDArray[np.int32]) -> None:
    """Do a step outside the batch: its token ends or follows the end, is None, or belongs to another vocabulary."""
    if is_busy:
        raise ConcurrentUse(ONE_THREAD)
    if token_id is not None:
        try:
            token_id = index(token_id)
        except TypeError as error:
            raise not_a_token_id(token_id) from error
        state.accept(token_id)
    state.fill(row)


def checked_places(
    rows: NDArray[np.int32], row_indices: Sequence[int] | None, count: int, logits: NDArray[Any] | None = None
) -> Sequence[int]:
    """Return the rows of `count` sequences, checked to be writable; by default the first ones. Logits have these rows,
    too.

    Raises:
        InvalidBitmask: the rows or logits have the wrong type or shape.
        InvalidArgument: the row indices are not indices of rows, or their number is wrong.
    """
    check_rows(rows, count)
    if logits is not None:
        check_logits(logits, count)
    if row_indices is None:
        return range(count)
    argument = "row_indices"
    try:
        rows_of = list(map(index, row_indices))
    except TypeError as error:
        raise InvalidArgument(f"{argument} is {shown(row_indices)}; give row indices", argument=argument) from error
    height = len(rows) if logits is None else min(len(rows), len(logits))
    if len(rows_of) != count or (rows_of and not 0 <= min(rows_of) <= max(rows_of) < height):
        reason = f"{argument} is {shown(row_indices)}; give {count} of the row indices 0 to {height - 1}"
        raise InvalidArgument(reason, argument=argument)
    return rows_of
