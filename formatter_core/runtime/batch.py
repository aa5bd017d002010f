"""A step of many sequences in one call into the grammar engine."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.protocol import MAY_END, MAY_GO_ON
from formatter_core.errors import ConcurrentUse, FormatterError, InvalidArgument
from formatter_core.runtime import bitmask
from formatter_core.support.arguments import not_a_token_id, shown

if TYPE_CHECKING:
    from formatter_core.runtime.formatter import Formatter

__all__ = ["ONE_THREAD", "step_together"]

ONE_THREAD = "a formatter is one thread's at a time; give each thread a fork of its own"


def step_together(
    formatters: Sequence[Formatter],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    places: Sequence[int] | None = None,
) -> dict[int, Exception]:
    """What `Formatter.step_together` promises."""
    count = len(formatters)
    bitmask.check_rows(rows, count)
    rows_of = range(count) if places is None else _checked_places(places, len(rows))
    given = len(token_ids)
    if not count or given != count or len(rows_of) != count:
        raise InvalidArgument(
            f"found {count} formatters, {given} token ids and {len(rows_of)} places; give as many of each, at least one"
        )
    faults: dict[int, Exception] = {}
    held: list[Formatter] = []
    try:
        _step_all(formatters, token_ids, rows, rows_of, held, faults)
    finally:
        for formatter in held:
            formatter._busy.release()
    for number in faults:
        rows[rows_of[number]] = 0
    return faults


def _checked_places(places: Sequence[int], count: int) -> Sequence[int]:
    try:
        rows_of = list(map(index, places))
    except TypeError as error:
        raise InvalidArgument(f"places is {shown(places)}; give row numbers", argument="places") from error
    if rows_of and not 0 <= min(rows_of) <= max(rows_of) < count:
        raise InvalidArgument(f"places is {shown(places)}; give numbers of the {count} rows", argument="places")
    return rows_of


def _step_all(
    formatters: Sequence[Formatter],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    places: Sequence[int],
    held: list[Formatter],
    faults: dict[int, Exception],
) -> None:
    """Step all that can be held: one by one those that are not like the first, the others at once."""
    first = formatters[0]
    vocabulary, kind, size, words = first.compiled.vocabulary, type(first._state), first._size, first._words
    fits = rows.shape[1] >= words
    together, states, tokens, there = [], [], [], []
    for number, (formatter, token_id, place) in enumerate(zip(formatters, token_ids, places, strict=True)):
        if not formatter._busy.acquire(False):
            faults[number] = ConcurrentUse(ONE_THREAD)
            continue
        held.append(formatter)
        if token_id is not None:
            try:
                token_id = index(token_id)
            except TypeError:
                faults[number] = not_a_token_id(token_id)
                continue
        state = formatter._state
        if (
            fits
            and not formatter._transcript.ends
            and (token_id is None or (0 <= token_id < size and token_id not in formatter.end_ids))
            and type(state) is kind
            and formatter.compiled.vocabulary is vocabulary
        ):
            together.append(number)
            states.append(state)
            tokens.append(token_id)
            there.append(place)
            continue
        try:
            if token_id is not None:
                formatter._accept(token_id)
            formatter._fill(rows[place])
        except Exception as error:  # noqa: BLE001 - it belongs to one formatter, and the others go on
            faults[number] = error
    if not together:
        return
    if rows.shape[1] > words:
        rows[there, words:] = 0
        rows = rows[:, :words]
    answers = first.compiled.engine_grammar.step_batch(states, tokens, rows, there)
    for number, token_id, place, told in zip(together, tokens, there, answers, strict=True):
        formatter = formatters[number]
        if isinstance(told, Exception):
            faults[number] = told
            continue
        if token_id is not None:
            if not told:
                faults[number] = formatter._rejected(token_id)
                continue
            formatter._transcript.steps.append(token_id)
        if told & MAY_END or formatter._own_ends or not told & MAY_GO_ON:
            try:
                formatter._add_ends(rows[place], told)
            except FormatterError as error:
                faults[number] = error
