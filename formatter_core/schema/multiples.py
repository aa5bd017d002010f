"""Multiples that do not show in a number's last digits: a machine over remainders, as left-recursive rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Chars, Node, Reference
from formatter_core.grammar.automaton import DEAD, Automaton
from formatter_core.limits import Limits
from formatter_core.schema.rules import Rules, any_of, in_order

__all__ = ["MOST_STATES", "lower_multiples"]

MOST_STATES = 4096
_POINT, _MINUS, _ZERO = ord("."), ord("-"), ord("0")
_Remainder: TypeAlias = tuple[int, int] | None


@dataclass(frozen=True)
class _Divisor:
    """Tells whether a plain decimal is a multiple of a step, from the left.

    A state is the remainder of the digits so far and the number of places after the point, -1 before it; None when no
    further digit can make a multiple of it.
    """

    whole: int
    places: int

    def after(self, state: _Remainder, byte: int) -> _Remainder:
        if state is None or byte == _MINUS:
            return state
        remainder, places = state
        if byte == _POINT:
            return remainder, 0
        digit = byte - _ZERO
        if places == self.places:
            return None if digit else state
        return (10 * remainder + digit) % self.whole, places if places < 0 else places + 1

    def divides(self, state: _Remainder) -> bool:
        if state is None:
            return False
        remainder, places = state
        return bool(remainder * 10 ** (self.places - max(places, 0)) % self.whole == 0)


def lower_multiples(
    rules: Rules, node: Node, wanted: Sequence[Fraction], unwanted: Sequence[Fraction], title: str, limits: Limits
) -> Node | None:
    """The plain decimals that `node` spells which are multiples of all `wanted` and of no `unwanted` step.

    None where that needs more than `MOST_STATES` states.
    """
    automaton = Automaton(node, limits)
    divisors = [_divisor(step) for step in (*wanted, *unwanted)]
    first: tuple[int, tuple[_Remainder, ...]] = (automaton.start, tuple((0, -1) for _ in divisors))
    names = {first: ""}
    arriving: dict[tuple[int, tuple[_Remainder, ...]], dict[str, list[int]]] = {first: {}}
    queue = [first]
    moves = cache(automaton.transitions)
    for state in queue:
        for ranges, target in moves(state[0]):
            for byte in (byte for low, high in ranges for byte in range(low, high + 1)):
                after = (target, tuple(map(_Divisor.after, divisors, state[1], [byte] * len(divisors))))
                if target == DEAD or None in after[1][: len(wanted)]:
                    continue
                if after not in arriving:
                    if len(queue) == MOST_STATES:
                        return None
                    arriving[after] = {}
                    names[after] = rules.reserve(f"{title}: digits, state {len(queue)}")
                    queue.append(after)
                arriving[after].setdefault(names[state], []).append(byte)
    if sum(map(len, arriving.values())) > limits.nodes:  # found out below too, but only when most of them are made
        raise LimitExceeded("nodes", limits.nodes, "the schema's grammar")
    accepted: list[Node] = []
    for state, incoming in arriving.items():
        if state == first:
            continue
        options = [
            in_order(*([Reference(name)] if name else []), Chars.of((byte, byte) for byte in found))
            for name, found in incoming.items()
        ]
        rules.define(names[state], any_of(options))
        divided = [divisor.divides(remainder) for divisor, remainder in zip(divisors, state[1], strict=True)]
        if automaton.accepting(state[0]) and divided == [True] * len(wanted) + [False] * len(unwanted):
            accepted.append(Reference(names[state]))
    return any_of(accepted)


def _divisor(step: Fraction) -> _Divisor:
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
    return _Divisor(int(step * 10**places), places)
