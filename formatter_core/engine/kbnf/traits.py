"""A check that a pattern's automaton is surely small and quickly built.

The package makes each pattern deterministic by the subset construction, which cannot be interrupted and is
exponential at worst: two counted repeats in a row that may run at the same time, `[a-z]{1,500}[a-y]{1,500}`, take it
seconds. What decides is whether one place of the pattern is active at a time, so a pattern is *simple* where each
byte says which way to go (as in the one-unambiguous expressions of Brüggemann-Klein and Wood 1998), and small parts
that are not are looked at exactly. Patterns that are not simple become rules, which the package runs as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass

from formatter_core.engine.regular import Automaton
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node
from formatter_core.limits import Limits

__all__ = [
    "EMPTY_TRAITS",
    "NOTHING_TRAITS",
    "NOT_SIMPLE",
    "SUBSTRING",
    "Traits",
    "any_of",
    "examined",
    "literals",
    "one_of",
    "repeated",
    "row",
]

_EXACT = Limits(states=1_000, work=200_000)


@dataclass(frozen=True, slots=True)
class Traits:
    """Sets of bytes as 256-bit masks, never too small.

    Attributes:
        first: what a string may begin with.
        tail: what may follow a string within a longer one.
        nullable: whether the empty string is one.
        simple: whether the automaton has about as many states as the pattern has letters.
    """

    first: int
    tail: int
    nullable: bool
    simple: bool

    @property
    def onward(self) -> int:
        return self.tail | self.first if self.nullable else self.tail


EMPTY_TRAITS = Traits(0, 0, True, True)
_ALL = (1 << 256) - 1
NOTHING_TRAITS = Traits(0, 0, False, True)
#: A substring's automaton is small although many places of its pattern are active at a time.
SUBSTRING = Traits(_ALL, _ALL, True, True)
NOT_SIMPLE = Traits(_ALL, _ALL, True, False)


def one_of(ranges: Iterable[tuple[int, int]]) -> Traits:
    """Return the traits of one character with these lead bytes: no character is a prefix of another."""
    return Traits(_mask(ranges), 0, False, True)


def literals(values: Items[bytes]) -> Traits:
    """Return the traits of any of these byte strings, whose automaton is a trie."""
    known = set(values)
    lengths = sorted(set(map(len, values)))
    first = tail = 0
    for value in known:
        if value:
            first |= 1 << value[0]
        for length in lengths:
            if 0 < length < len(value) and value[:length] in known:
                tail |= 1 << value[length]
    return Traits(first, tail, b"" in known, True)


def row(before: Traits, after: Traits) -> Traits:
    """Return the traits of one pattern after the other."""
    first = before.first | after.first if before.nullable else before.first
    tail = after.tail | before.tail | after.first if after.nullable else after.tail
    simple = before.simple and after.simple and not before.onward & after.first
    return Traits(first, tail, before.nullable and after.nullable, simple)


def any_of(one: Traits, other: Traits) -> Traits:
    """Return the traits of one pattern or the other."""
    return Traits(
        one.first | other.first,
        one.tail | other.tail,
        one.nullable or other.nullable,
        one.simple and other.simple and not one.first & other.first,
    )


def repeated(item: Traits, minimum: int, maximum: int | None) -> Traits:
    if maximum == 0:
        return EMPTY_TRAITS
    if maximum == 1:
        return Traits(item.first, item.tail, item.nullable or minimum == 0, item.simple)
    tail = item.tail if minimum == maximum and not item.nullable else item.tail | item.first
    return Traits(item.first, tail, item.nullable or minimum == 0, item.simple and not item.onward & item.first)


def examined(node: Node) -> Traits:
    """Compute the traits of a small node without references from its automaton."""
    try:
        automaton = Automaton(node, _EXACT)
        first = tail = 0
        for state in range(automaton.count):
            onward = _mask(part for ranges, _ in automaton.transitions(state) for part in ranges)
            first |= onward if state == 0 else 0
            tail |= onward if automaton.accepting(state) else 0
        return Traits(first, tail, automaton.count > 0 and automaton.accepting(0), True)
    except LimitExceeded:
        return NOT_SIMPLE


def _mask(ranges: Iterable[tuple[int, int]]) -> int:
    mask = 0
    for low, high in ranges:
        mask |= (1 << high + 1) - (1 << low)
    return mask
