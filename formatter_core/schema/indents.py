"""How far lines are indented: by the depth that each rule may stand at, under recursion by the most there is.

A rule that stands at several depths is indented as at the deepest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from formatter_core.grammar import Choice, Members, Node, Reference, Repeat, Sequence, Terminal, Way
from formatter_core.limits.turns import give_way
from formatter_core.schema.tokens import LEVELS, Tokens

__all__ = ["Depths", "indented"]

_OPEN, _CLOSE = ("open_array", "open_object"), ("close_array", "close_object")


class Depths:
    """The depths that rules stand at: 0 for that of the root value, at most `LEVELS`. Those of nothing known are 0."""

    def __init__(self, rules: Mapping[str, Node], tokens: Tokens) -> None:
        self._kinds = tokens.kinds
        self._uses = {
            name: list(self._uses_of(body, 0)) for name, body in rules.items() if name not in tokens.any_rules
        }
        self.known: dict[str, int] = {}

    def put(self, name: str, depth: int) -> None:
        """A rule stands at this depth, and what it uses accordingly."""
        pending = [(name, depth)]
        while pending:
            name, depth = pending.pop()
            if self.known.get(name, -1) < depth:
                self.known[name] = depth
                give_way()
                pending += [(used, min(depth + more, LEVELS)) for used, more in self._uses.get(name, ())]

    def _uses_of(self, node: Node, depth: int) -> Iterator[tuple[str, int]]:
        if isinstance(node, Reference):
            yield node.name, depth
        elif isinstance(node, Sequence):
            for item in node.items:
                if isinstance(item, Terminal):
                    depth += _step(self._kinds.get(id(item)))
                else:
                    yield from self._uses_of(item, depth)
        elif isinstance(node, Choice):
            for item in node.items:
                yield from self._uses_of(item, depth)
        elif isinstance(node, Repeat):
            yield from self._uses_of(node.item, depth)
        elif isinstance(node, Members):
            for member in node.members:
                for way in member.ways:
                    yield from self._uses_of(way.item, depth)


def indented(rules: Mapping[str, Node], depths: Mapping[str, int], tokens: Tokens) -> dict[str, Node]:
    """The rules with the tokens for their depths."""
    return {
        name: body if name in tokens.any_rules else _placed(body, depths.get(name, 0), tokens)
        for name, body in rules.items()
    }


def _placed(node: Node, depth: int, tokens: Tokens) -> Node:
    if isinstance(node, Terminal):
        kind = tokens.kinds.get(id(node))
        if kind is None:
            return node
        level = depth - (kind == "comma" or kind in _CLOSE)
        return tokens.at(min(max(level, 0), LEVELS - 1), kind)
    if isinstance(node, Sequence):
        items: list[Node] = []
        for item in node.items:
            items.append(_placed(item, depth, tokens))
            if isinstance(item, Terminal):
                depth += _step(tokens.kinds.get(id(item)))
        return Sequence(tuple(items))
    if isinstance(node, Choice):
        return Choice(tuple(_placed(item, depth, tokens) for item in node.items))
    if isinstance(node, Repeat):
        return replace(node, item=_placed(node.item, depth, tokens))
    if isinstance(node, Members):
        members = tuple(
            replace(member, ways=tuple(Way(_placed(way.item, depth, tokens), way.meets) for way in member.ways))
            for member in node.members
        )
        return replace(node, members=members, separator=_placed(node.separator, depth, tokens))
    return node


def _step(kind: str | None) -> int:
    return (kind in _OPEN) - (kind in _CLOSE)
