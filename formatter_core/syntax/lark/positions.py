"""Positions of lexemes in rules: which can begin at the same place of a text, and which can follow another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

from formatter_core.grammar import Capture, Choice, Node, Reference, Region, Repeat, Sequence, nullable

__all__ = ["Position", "Positions"]


class Position(NamedTuple):
    """A lexeme in the body of a rule: the `number`-th one from the left."""

    rule: str
    number: int
    node: Node


class _Part(NamedTuple):
    """The positions that a part of a rule can begin and end with, and whether it can have none."""

    is_free: bool
    first: frozenset[Position]
    last: frozenset[Position]


_NOTHING = _Part(False, frozenset(), frozenset())
_FREE = _Part(True, frozenset(), frozenset())


class Positions:
    """The positions of a grammar, regardless of context: callers of a rule are not distinguished, so the result may
    contain positions that cannot follow.

    Args:
        rules: the rules; a name that is not a rule of these is a lexeme.
        start: the start rule.
    """

    def __init__(self, rules: Mapping[str, Node], start: str) -> None:
        self._parts = dict.fromkeys(rules, _NOTHING)
        self._follow: dict[Position, set[Position]] = {}
        self._start = start
        self._changed = True
        while self._changed:
            self._changed = False
            for name, body in rules.items():
                part = self._part(body, name, iter(range(1 << 62)))
                self._changed |= part != self._parts[name]
                self._parts[name] = part

    def after(self, position: Position) -> Set[Position]:
        """Return the positions that can come directly after one."""
        return self._follow.get(position, frozenset())

    def together(self, share: Callable[[Node, Node], bool]) -> dict[Position, set[Position]]:
        """Return, for each position, the positions that may begin at the same place of some text.

        Args:
            share: whether two lexemes have a text in common.
        """
        found: dict[Position, set[Position]] = {}
        waiting: list[tuple[Position, Position]] = []

        def add(some: Set[Position], others: Set[Position]) -> None:
            for one in some:
                known = found.setdefault(one, set())
                new = others - known
                known |= new
                waiting.extend((one, other) for other in new)

        first = self._parts[self._start].first
        add(first, first)
        while waiting:
            one, other = waiting.pop()
            if one == other or share(one.node, other.node):
                add(self.after(one), self.after(other))
                add(self.after(other), self.after(one))
        return found

    def _part(self, node: Node, rule: str, numbers: Iterator[int]) -> _Part:
        if isinstance(node, Reference) and node.name in self._parts:
            return self._parts[node.name]
        if isinstance(node, (Capture, Region)):
            return self._part(node.item, rule, numbers)
        if isinstance(node, Choice):
            parts = [self._part(item, rule, numbers) for item in node.items]
            first = frozenset().union(*(part.first for part in parts))
            last = frozenset().union(*(part.last for part in parts))
            return _Part(any(part.is_free for part in parts), first, last)
        if isinstance(node, Repeat):
            part = self._part(node.item, rule, numbers)
            if node.maximum != 1:
                self._follows(part.last, part.first)
            return _Part(part.is_free or not node.minimum, part.first, part.last)
        if isinstance(node, Sequence):
            whole = _FREE
            for item in node.items:
                whole = self._joined(whole, self._part(item, rule, numbers))
            return whole
        only = frozenset((Position(rule, next(numbers), node),))
        return _Part(nullable(node), only, only)

    def _joined(self, before: _Part, after: _Part) -> _Part:
        self._follows(before.last, after.first)
        first = before.first | after.first if before.is_free else before.first
        last = before.last | after.last if after.is_free else after.last
        return _Part(before.is_free and after.is_free, first, last)

    def _follows(self, before: Set[Position], after: Set[Position]) -> None:
        for position in before:
            known = self._follow.setdefault(position, set())
            self._changed |= not after <= known
            known |= after
