"""The rules of a grammar under construction."""

from __future__ import annotations

from collections.abc import Iterable

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import NOTHING, Choice, Node, Reference, Sequence
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.schema.load import Loader
from formatter_core.schema.shapes import Goal
from formatter_core.schema.tokens import ANY_RULE

__all__ = ["Rules", "any_of", "in_order"]


class Rules:
    """Rules by name, and the goals that still have to be lowered."""

    def __init__(self, limits: Limits, loader: Loader) -> None:
        self.rules: dict[str, Node] = {}
        self.pending: list[tuple[Goal, str]] = []
        self._limits = limits
        self._loader = loader
        self._goals: dict[Goal, Reference] = {}
        self.uses_any = False
        self._nodes = 0

    def goal(self, goal: Goal) -> Reference:
        """A reference to the rule of a goal."""
        if not goal:
            self.uses_any = True
            return Reference(ANY_RULE)
        known = self._goals.get(goal)
        if known is None and len(goal) == 1:
            resolved = (self._loader.resolved(goal[0]),)
            if resolved != goal:
                known = self._goals[goal] = self.goal(resolved)
        if known is None:
            give_way()
            name = self.reserve(self._title(goal))
            known = self._goals[goal] = Reference(name)
            self.pending.append((goal, name))
        return known

    def _title(self, goal: Goal) -> str:
        shown = [self._pointer(literal) for literal in goal[:3]] + ["…"] * (len(goal) > 3)
        return " and ".join(shown)

    def _pointer(self, literal: int) -> str:
        pointer = self._loader.location(literal).pointer
        shown = pointer if "#" in pointer or pointer.startswith("=") else "#" + pointer
        return shown if literal > 0 else "not " + shown

    def reserve(self, wanted: str) -> str:
        """A name that no other rule has, to be defined later."""
        name, count = wanted, 1
        while name in self.rules:
            count += 1
            name = f"{wanted} ({count})"
        self.rules[name] = NOTHING
        return name

    def define(self, name: str, body: Node) -> None:
        """Give a reserved name its rule."""
        self._nodes += len(body.items) if isinstance(body, Choice) else 1
        if self._nodes > self._limits.nodes:
            raise LimitExceeded("nodes", self._limits.nodes, "the schema's grammar")
        self.rules[name] = body

    def add(self, wanted: str, body: Node) -> Reference:
        """A new rule."""
        name = self.reserve(wanted)
        self.define(name, body)
        return Reference(name)

    def shared(self, wanted: str, body: Node) -> Node:
        """`body` to be used several times: itself if small, else a rule."""
        return self.add(wanted, body) if isinstance(body, (Sequence, Choice)) else body


def in_order(*items: Node) -> Node:
    """The items one after the other, in one flat sequence."""
    flat: list[Node] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Sequence) else (item,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def any_of(items: Iterable[Node]) -> Node:
    """One of the items."""
    options: list[Node] = []
    for item in items:
        options.extend(item.items if isinstance(item, Choice) else (item,))
    return options[0] if len(options) == 1 else Choice(tuple(options))
