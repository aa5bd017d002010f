"""What both readers build: grammar nodes, and the assertions around them that only a whole pattern can resolve.

A `Tree` without assertions is an ordinary `Node` already. An assertion (an anchor or a look-around) is no set of
strings by itself, so everything above one is kept in the classes below until `_lower.lower` knows the whole pattern.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard, Union

from formatter_core.grammar import EMPTY, NOTHING, Bytes, Capture, Chars, Choice, Node, Repeat, Sequence
from formatter_core.syntax.regex.classes import Ranges

__all__ = [
    "Alternate",
    "Anchor",
    "Concat",
    "Look",
    "Loop",
    "Named",
    "Tree",
    "alternate",
    "capture",
    "char",
    "concat",
    "is_node",
    "loop",
]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start of the text, or its end."""

    end: bool
    position: int


@dataclass(frozen=True, slots=True)
class Look:
    """What follows (`ahead`) or precedes must match the item, or must not (`negated`)."""

    item: Tree
    ahead: bool
    negated: bool
    position: int


@dataclass(frozen=True, slots=True)
class Concat:
    """One after the other."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """One of several."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeat."""

    item: Tree
    minimum: int
    maximum: int | None
    greedy: bool
    position: int


@dataclass(frozen=True, slots=True)
class Named:
    """A capture group."""

    name: str
    item: Tree


Tree: TypeAlias = Union[Node, Anchor, Look, Concat, Alternate, Loop, Named]  # noqa: UP007 (the classes refer to it)

_ASSERTING = (Anchor, Look, Concat, Alternate, Loop, Named)


def is_node(tree: Tree) -> TypeGuard[Node]:
    """Whether the tree holds no assertion."""
    return not isinstance(tree, _ASSERTING)


def char(ranges: Ranges) -> Node:
    """One character of a set."""
    if not ranges:
        return NOTHING
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Bytes(chr(ranges[0][0]).encode())
    return Chars(ranges)


def concat(items: Items[Tree]) -> Tree:
    """The items one after the other; neighbours without assertions become one node, and literals one literal."""
    if len(items) == 1:
        return items[0]
    parts: list[Tree] = []
    nodes: list[Node] = []
    for item in items:
        if not is_node(item):
            if nodes:
                parts.append(_joined(nodes))
                nodes = []
            parts.append(item)
        elif isinstance(item, Bytes) and nodes and isinstance(nodes[-1], Bytes):
            nodes[-1] = Bytes(nodes[-1].value + item.value)
        elif isinstance(item, Sequence):
            nodes.extend(item.items)
        elif item == NOTHING:
            return NOTHING
        else:
            nodes.append(item)
    if not parts:
        return _joined(nodes)
    return Concat((*parts, _joined(nodes)) if nodes else tuple(parts))


def _joined(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))


def alternate(items: Items[Tree]) -> Tree:
    """One of the items, in order of preference."""
    items = [item for item in items if item != NOTHING]
    if len(items) == 1:
        return items[0]
    nodes = [item for item in items if is_node(item)]
    return Choice(tuple(nodes)) if len(nodes) == len(items) else Alternate(tuple(items))


def loop(item: Tree, minimum: int, maximum: int | None, greedy: bool, position: int) -> Tree:
    """The item `minimum` to `maximum` times."""
    if maximum == 0 or item == EMPTY:
        return EMPTY
    if item == NOTHING:
        return NOTHING if minimum else EMPTY
    if isinstance(item, (Anchor, Look)):  # as true once as many times
        return item if minimum else EMPTY
    if is_node(item):
        return item if minimum == maximum == 1 else Repeat(item, minimum, maximum, greedy)
    return Loop(item, minimum, maximum, greedy, position)


def capture(name: str, item: Tree) -> Tree:
    """A capture: a grammar node where the item is one, else a tree."""
    return Capture(name, item) if is_node(item) else Named(name, item)
