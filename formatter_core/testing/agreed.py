"""The reference of events: what every surviving parse of an unfinished text agrees on, as far as captures go.

The marks of a parse are the captures that it opens and closes, in order. Parses that have the same marks up to a
column, and in that column others, part there; they agree on the marks up to there, and on those that their marks in
that column begin with. But where one of them opens, or closes, captures of one name twice in the column where they
part, they agree on nothing in it: so what is agreed does not depend on the order in which parses are put together
(`docs/decisions/agreement-of-parses.md`).
"""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.testing.chart import Call, Chart, Rules

__all__ = ["Agreement"]

#: Later than every column.
_NEVER = sys.maxsize

#: A capture: True if it opens, its name, and the column.
_Mark: TypeAlias = tuple[bool, str, int]
#: The captures in one column: True for those that open, and their names; None if one occurs twice in some parse.
_Symbols: TypeAlias = "frozenset[tuple[bool, str]] | None"


class _Trail(NamedTuple):
    """The marks that a set of parses agrees on.

    Attributes:
        marks: the marks that all parses begin with.
        parted: the column in which the parses part, or `_NEVER`.
        symbols: the symbols of all parses in that column.
    """

    marks: tuple[_Mark, ...]
    parted: int
    symbols: _Symbols

    def in_column(self, column: int) -> _Symbols:
        """Find the symbols in a column of parses that do not part before it."""
        if self.parted == column:
            return self.symbols
        found = [(opens, name) for opens, name, at in self.marks if at == column]
        return frozenset(found) if len(set(found)) == len(found) else None


class _Trails:
    """An algebra whose values are the marks that parses agree on."""

    empty = _Trail((), _NEVER, frozenset())

    def either(self, one: _Trail, other: _Trail) -> _Trail:
        if one == other:
            return one
        pairs = zip(one.marks, other.marks, strict=False)
        shared = one.marks[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))]
        others = [marks[len(shared)][2] for marks in (one.marks, other.marks) if len(marks) > len(shared)]
        column = min([one.parted, other.parted, *others])
        here, there = one.in_column(column), other.in_column(column)
        return _parted(shared, column, None if here is None or there is None else here | there)

    def joined(self, first: _Trail, second: _Trail, begun: int, met: int, ended: int) -> _Trail:
        if first.parted < met:
            return first
        marks = first.marks if first.parted == met else first.marks + second.marks
        if met in (first.parted, second.parted):
            return _parted(marks, met, _apart(first.in_column(met), second.in_column(met)))
        return _Trail(marks, second.parted, second.symbols)

    def chosen(self, value: _Trail, choice: int) -> _Trail:
        return value

    def marked(self, value: _Trail, opens: bool, name: str, column: int) -> _Trail:
        return self.joined(value, _Trail(((opens, name, column),), _NEVER, frozenset()), 0, column, column)

    def named(self, value: _Trail, rule: str) -> _Trail:
        return value


class Agreement(Chart[_Trail]):
    """A reader that follows a text by a chart whose values are the marks that parses agree on."""

    def __init__(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> None:
        self._trails = _Trails()
        #: The value of the derivations from the beginning of the text to each call.
        self._contexts: dict[Call[_Trail], _Trail] = {}
        super().__init__(Rules.of(grammar, limits), self._trails, limits)

    def agreed(self) -> tuple[list[_Mark], int]:
        """Find the marks that all parses begin with, and the column up to which there are no others."""
        last = self.columns[-1]
        # A terminal that may continue, not only has ended.
        alive = [call for call, state in last.running if self.rules.automaton(call.node).transitions(state)]
        found = [self._contexts[call] for call in (*alive, *(call for call, _ in last.waiting))]
        found += [] if last.complete is None else [last.complete]
        total = found[0]
        for trail in found[1:]:
            total = self._trails.either(total, trail)
        return list(total.marks), min(total.parted, self.length)

    def _close(self) -> None:
        super()._close()
        self._contexts.setdefault(self.root, self._trails.empty)
        column = self.columns[-1]
        changes = True
        while changes:  # calls may call one another
            changes = False
            for call in column.calls.values():
                for (around, _), trail in call.callers.items():
                    if around not in self._contexts:
                        continue
                    new = self._trails.joined(self._contexts[around], trail, 0, around.column, call.column)
                    known = self._contexts.get(call)
                    both = new if known is None else self._trails.either(known, new)
                    changes |= both != known
                    self._contexts[call] = both


def _parted(marks: tuple[_Mark, ...], column: int, symbols: _Symbols) -> _Trail:
    kept = marks if symbols is not None else tuple(mark for mark in marks if mark[2] < column)
    return _Trail(kept, column, symbols)


def _apart(one: _Symbols, other: _Symbols) -> _Symbols:
    return None if one is None or other is None or one & other else one | other
