"""What a set of parses agrees on, as far as captures go.

The marks of a parse are the captures that it opens and closes, in order. Parses that have the same marks up to a
column, and in that column others, part there; they agree on the marks up to there, and on those that their marks in
that column begin with. But where one of them opens, or closes, captures of one name twice in the column where they
part, they agree on nothing in it: so what is agreed does not depend on the order in which parses are put together
(`docs/decisions/agreement-of-parses.md`).
"""

from __future__ import annotations

import sys
from typing import NamedTuple, TypeAlias

__all__ = ["EMPTY", "NO_MARKS", "Marks", "Trail", "Trails", "either", "list_of", "parting"]

#: Later than every column.
NEVER = sys.maxsize

#: Whether a capture opens, and its name.
Symbol: TypeAlias = tuple[bool, str]


class Marks:
    """A list of marks that shares its beginning with others."""

    __slots__ = ("before", "column", "length", "symbol")

    def __init__(self, before: Marks | None, symbol: Symbol, column: int) -> None:
        self.before: Marks = before or self
        self.symbol = symbol
        self.column = column
        self.length: int = 0 if before is None else before.length + 1


class Trail(NamedTuple):
    """What a set of parses agrees on.

    Attributes:
        marks: the marks that they begin with.
        parted: the column in which the parses part, or `NEVER`.
        symbols: the symbols of all of them in that column; None if one occurs twice in some parse.
    """

    marks: Marks
    parted: int
    symbols: frozenset[Symbol] | None


NO_MARKS = Marks(None, (False, ""), -1)
EMPTY = Trail(NO_MARKS, NEVER, frozenset())


class Trails:
    """Trails over one text; equal lists of marks are one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[Marks, Symbol, int], Marks] = {}

    def with_mark(self, trail: Trail, symbol: Symbol, column: int) -> Trail:
        """The parses after a mark in the last column."""
        if trail.parted == NEVER:
            return Trail(self._marks(trail.marks, symbol, column), NEVER, trail.symbols)
        if trail.parted < column:
            return trail
        return _parted(trail.marks, column, _apart(trail.symbols, frozenset((symbol,))))

    def joined(self, first: Trail, second: Trail, column: int) -> Trail:
        """Each of the first parses, which end in a column, followed by each of the second ones, which begin there."""
        if first == EMPTY or first.parted < column:
            return second if first == EMPTY else first
        marks = first.marks if first.parted == column else self._appended(first.marks, second.marks)
        if column in (first.parted, second.parted):
            return _parted(marks, column, _apart(_symbols(first, column), _symbols(second, column)))
        return Trail(marks, second.parted, second.symbols)

    def _appended(self, first: Marks, second: Marks) -> Marks:
        for mark in list_of(second):
            first = self._marks(first, mark.symbol, mark.column)
        return first

    def _marks(self, before: Marks, symbol: Symbol, column: int) -> Marks:
        key = (before, symbol, column)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Marks(before, symbol, column)
        return known


def either(one: Trail, other: Trail) -> Trail:
    """All of these parses."""
    if one == other:
        return one
    shared, column = parting(one.marks, other.marks)
    parted = min(one.parted, other.parted, column)
    here, there = _symbols(one, parted), _symbols(other, parted)
    return _parted(shared, parted, None if here is None or there is None else here | there)


def parting(one: Marks, other: Marks) -> tuple[Marks, int]:
    """The marks that two lists begin with, and the column of the first other one in either."""
    column = NEVER
    while one is not other:
        if one.length >= other.length:
            one, other = other, one
        column, other = min(column, other.column), other.before
    return one, column


def list_of(marks: Marks, after: Marks = NO_MARKS) -> list[Marks]:
    """The marks after those of a list that they begin with, first one first."""
    found: list[Marks] = []
    while marks is not after:
        found.append(marks)
        marks = marks.before
    found.reverse()
    return found


def _parted(marks: Marks, column: int, symbols: frozenset[Symbol] | None) -> Trail:
    while symbols is None and marks.column >= column:
        marks = marks.before
    return Trail(marks, column, symbols)


def _symbols(trail: Trail, column: int) -> frozenset[Symbol] | None:
    """The symbols in a column of parses that do not part before it; None where one occurs twice."""
    if trail.parted == column:
        return trail.symbols
    found: list[Symbol] = []
    marks = trail.marks
    while marks.column >= column:
        if marks.column == column:
            found.append(marks.symbol)
        marks = marks.before
    symbols = frozenset(found)
    return symbols if len(symbols) == len(found) else None


def _apart(one: frozenset[Symbol] | None, other: frozenset[Symbol] | None) -> frozenset[Symbol] | None:
    return None if one is None or other is None or one & other else one | other
