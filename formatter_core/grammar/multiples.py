"""The decimals that are multiples of a step, as an automaton whose states are computed, not listed.

A decimal is a multiple of `step / 10**places` if its digits, with the point moved `places` to the right, are one of
`step`. Read from the left, what counts is how many digits may still come and which number they must be modulo `step`:
that state is small, and has no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from math import gcd
from typing import NamedTuple

from formatter_core.grammar.nodes import Multiples

__all__ = ["State", "accepts", "moves", "start", "state_count"]

_POINT, _MINUS, _ZERO = ord("."), ord("-"), ord("0")


class Stage(IntEnum):
    """What was read last."""

    START = 0
    SIGN = 1
    ZERO = 2
    WHOLE = 3
    POINT = 4
    FRACTION = 5


class State(NamedTuple):
    """Where a decimal stands: `digits` further digits must be, as a number, `wanted` modulo the step.

    After the point these are all digits that count. Before it they are the places after the point; where there are
    none, the fewest digits that make a multiple, so that states with the same future are one state. The zeros that a
    multiple must end with are among them, and `wanted` is what stands before these.
    """

    stage: Stage
    digits: int
    wanted: int


def start(node: Multiples) -> State:
    """Where every decimal begins."""
    return State(Stage.START, max(node.places, 0), 0)


def accepts(node: Multiples, state: State) -> bool:
    """Whether what was read is a multiple."""
    stage, digits, wanted = state
    if stage == Stage.WHOLE:
        return wanted == 0 and digits == max(node.places, 0)
    return wanted == 0 and stage in (Stage.ZERO, Stage.FRACTION)


def moves(node: Multiples, state: State) -> Iterator[tuple[int, State]]:
    """The bytes that lead on to a multiple, ascending, and where to."""
    stage, digits, wanted = state
    if stage == Stage.START:
        yield _MINUS, State(Stage.SIGN, digits, wanted)
    if stage in (Stage.ZERO, Stage.WHOLE) and digits == max(node.places, 0) and wanted < 10**digits:
        yield _POINT, State(Stage.POINT, digits, wanted)
    if stage in (Stage.START, Stage.SIGN):
        yield _ZERO, State(Stage.ZERO, digits, wanted)
    for digit in range(10):
        after: State | None = None
        if stage in (Stage.POINT, Stage.FRACTION):
            after = _after_fraction(node, digits, wanted, digit)
        elif stage == Stage.WHOLE or (digit and stage != Stage.ZERO):
            after = _after_whole(node, digits, wanted, digit)
        if after is not None:
            yield _ZERO + digit, after


def state_count(node: Multiples, most: int) -> int:
    """About how many states there are, but for those that only zeros lead on from; some number above `most` if more."""
    count, power, digits = 0, 1, 0
    while count <= most:
        count += -(-min(power, node.step) // gcd(power, node.step))
        if digits >= node.places and (node.places > 0 or power >= node.step):
            break
        digits, power = digits + 1, 10 * power
    return count + node.step // gcd(power, node.step) if node.places > 0 else min(count, node.step)


def _after_whole(node: Multiples, digits: int, wanted: int, digit: int) -> State:
    if node.places > 0:
        return State(Stage.WHOLE, digits, (10 * wanted - digit * 10**digits) % node.step)
    zeros = -node.places
    if digits <= zeros and not digit:
        return State(Stage.WHOLE, max(digits - 1, 0), 0)
    fewer = max(digits - 1 - zeros, 0)
    wanted = (wanted - digit * 10**fewer) % node.step
    while wanted >= 10**fewer:
        fewer, wanted = fewer + 1, 10 * wanted % node.step
    return State(Stage.WHOLE, fewer + zeros, wanted)


def _after_fraction(node: Multiples, digits: int, wanted: int, digit: int) -> State | None:
    if digits == 0:
        return None if digit else State(Stage.FRACTION, 0, 0)
    rest = (wanted - digit * 10 ** (digits - 1)) % node.step
    return State(Stage.FRACTION, digits - 1, rest) if rest < 10 ** (digits - 1) else None
