"""The decimals that are multiples of a step, as an automaton whose states are computed, not listed.

A decimal is a multiple of `step / 10**places` if its digits, with the point moved `places` to the right, are one of
`step`. Read from the left, what counts is how many digits may still come and which number they must be modulo `step`:
that state is small, and has no table. Where the digits before the point are bounded, it also has how many are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from formatter_core.grammar.nodes import Multiples

__all__ = ["State", "accepts", "moves", "start"]

_POINT, _MINUS, _ZERO = ord("."), ord("-"), ord("0")


class Stage(IntEnum):
    """The part of the number that was read last."""

    START = 0
    SIGN = 1
    ZERO = 2
    WHOLE = 3
    POINT = 4
    FRACTION = 5


class State(NamedTuple):
    """The state after part of a decimal: the next `digits` digits must be, as a number, `wanted` modulo the step.

    After the point these are all digits that count. Before it they are the places after the point; where there are
    none, the fewest digits that make a multiple, so that states with the same future are one state. The zeros that a
    multiple must end with are among them, and `wanted` is the number before these zeros. `left` digits may still be
    written before the point; it is 0 after it, and where any number may.
    """

    stage: Stage
    digits: int
    wanted: int
    left: int = 0


def start(node: Multiples) -> State:
    """Return the state where every decimal begins."""
    return State(Stage.START, max(node.places, 0), 0, node.digits)


def accepts(node: Multiples, state: State) -> bool:
    """Tell whether the number read so far is a multiple."""
    stage, digits, wanted, _ = state
    if stage == Stage.WHOLE:
        return wanted == 0 and digits == max(node.places, 0)
    return wanted == 0 and stage in (Stage.ZERO, Stage.FRACTION)


def moves(node: Multiples, state: State) -> Iterator[tuple[int, State]]:
    """Yield the bytes after which a multiple is still possible, ascending, with the next state of each."""
    stage, digits, wanted, left = state
    if stage == Stage.START:
        yield _MINUS, State(Stage.SIGN, digits, wanted, left)
    if stage in (Stage.ZERO, Stage.WHOLE) and digits == max(node.places, 0) and wanted < 10**digits:
        yield _POINT, State(Stage.POINT, digits, wanted)
    if stage in (Stage.START, Stage.SIGN):
        yield _ZERO, State(Stage.ZERO, digits, wanted)
    for digit in range(10):
        after: State | None = None
        if stage in (Stage.POINT, Stage.FRACTION):
            after = _after_fraction(node, digits, wanted, digit)
        elif stage == Stage.WHOLE or (digit and stage != Stage.ZERO):
            after = _after_whole(node, state, digit)
        if after is not None:
            yield _ZERO + digit, after


def _after_whole(node: Multiples, state: State, digit: int) -> State | None:
    digits, wanted = _whole(node, state.digits, state.wanted, digit)
    if not node.digits:
        return State(Stage.WHOLE, digits, wanted)
    needed = _enough(node.step, wanted, digits)[0] - node.places if node.places > 0 else digits
    return State(Stage.WHOLE, digits, wanted, state.left - 1) if needed < state.left else None


def _whole(node: Multiples, digits: int, wanted: int, digit: int) -> tuple[int, int]:
    if node.places > 0:
        return digits, (10 * wanted - digit * 10**digits) % node.step
    zeros = -node.places
    if digits <= zeros and not digit:
        return max(digits - 1, 0), 0
    fewer = max(digits - 1 - zeros, 0)
    fewer, wanted = _enough(node.step, (wanted - digit * 10**fewer) % node.step, fewer)
    return fewer + zeros, wanted


def _enough(step: int, wanted: int, digits: int) -> tuple[int, int]:
    """Return enough digits, at least `digits`, that can be `wanted` modulo the step, and the number they must be."""
    while wanted >= 10**digits:
        digits, wanted = digits + 1, 10 * wanted % step
    return digits, wanted


def _after_fraction(node: Multiples, digits: int, wanted: int, digit: int) -> State | None:
    if digits == 0:
        return None if digit else State(Stage.FRACTION, 0, 0)
    rest = (wanted - digit * 10 ** (digits - 1)) % node.step
    return State(Stage.FRACTION, digits - 1, rest) if rest < 10 ** (digits - 1) else None
