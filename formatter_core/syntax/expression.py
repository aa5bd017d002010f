"""A builder for readers of grammar texts: alternatives of sequences, in groups of any depth."""

from __future__ import annotations

from dataclasses import dataclass, field

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import EMPTY, Choice, Intersection, Node, Repeat, Sequence
from formatter_core.limits import Limits
from formatter_core.syntax.source import Source

__all__ = ["Expression"]


@dataclass(slots=True)
class _Group:
    opening: int
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    conjuncts: list[Node] = field(default_factory=list)


class Expression:
    """An expression that is read from the left, iteratively: its own stack replaces recursion."""

    def __init__(self, source: Source, limits: Limits, offset: int) -> None:
        self._source = source
        self._limits = limits
        self._groups = [_Group(offset)]

    @property
    def is_nested(self) -> bool:
        """Tell whether a group is open."""
        return len(self._groups) > 1

    @property
    def is_blank(self) -> bool:
        """Tell whether the current alternative is still empty."""
        return not self._groups[-1].items

    def add(self, node: Node) -> None:
        """Add an item to the current sequence."""
        self._groups[-1].items.append(node)

    def pop(self) -> Node:
        """Take the last item back."""
        return self._groups[-1].items.pop()

    def alternative(self) -> None:
        """End the current sequence and begin another alternative."""
        group = self._groups[-1]
        node = _sequence(group.items)
        group.alternatives.append(Intersection((*group.conjuncts, node)) if group.conjuncts else node)
        group.items, group.conjuncts = [], []

    def conjunction(self) -> None:
        """End the current sequence and begin another that must match the same text."""
        group = self._groups[-1]
        group.conjuncts.append(_sequence(group.items))
        group.items = []

    def repeat(self, minimum: int, maximum: int | None) -> None:
        """Repeat the last item `minimum` to `maximum` times."""
        item = self.pop()
        self.add(EMPTY if maximum == 0 or item == EMPTY else Repeat(item, minimum, maximum))

    def open(self, offset: int) -> None:
        """Begin a group.

        Raises:
            LimitExceeded: groups nested too deep.
        """
        if len(self._groups) >= self._limits.depth:
            raise LimitExceeded("depth", self._limits.depth, f"the group at {self._source.where(offset)}")
        self._groups.append(_Group(offset))

    def close(self) -> None:
        """End the innermost group, which becomes an item of the sequence around it."""
        node = self._end()
        self.add(node)

    def finish(self) -> Node:
        """Return the whole expression.

        Raises:
            InvalidGrammar: a group is open.
        """
        if self.is_nested:
            raise self.unclosed()
        return self._end()

    def unclosed(self) -> InvalidGrammar:
        """Make the error for a group that is never closed."""
        return self._source.fault(
            self._groups[-1].opening, "this group is never closed; write the closing bracket after it"
        )

    def _end(self) -> Node:
        self.alternative()
        alternatives = self._groups.pop().alternatives
        return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Sequence(tuple(items))
