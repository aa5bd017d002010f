"""Queries about grammar nodes without assertions, and helpers that build simple ones.

Every function recurses over one pattern's tree, whose height the readers keep within `Limits.depth`.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

from formatter_core.grammar import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Intersection,
    Node,
    Repeat,
    Sequence,
    nullable,
)
from formatter_core.syntax.regex import classes
from formatter_core.syntax.regex.classes import Ranges
from formatter_core.syntax.regex.tree import char

__all__ = ["both", "choice", "empty_part", "ending_in", "first_characters", "fixed_length", "sequence"]


def sequence(*items: Node) -> Node:
    """The items one after the other, as flat as can be."""
    flat: list[Node] = []
    for item in items:
        if item == NOTHING:
            return NOTHING
        for part in item.items if isinstance(item, Sequence) else (item,):
            if isinstance(part, Bytes) and flat and isinstance(flat[-1], Bytes):
                flat[-1] = Bytes(flat[-1].value + part.value)
            else:
                flat.append(part)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def choice(items: Items[Node]) -> Node:
    """One of the items, in order."""
    possible = [item for item in items if item != NOTHING]
    return possible[0] if len(possible) == 1 else Choice(tuple(possible))


def both(left: Node, right: Node) -> Node:
    """The intersection; `left` must match only well-formed UTF-8."""
    if right == ANY_TEXT:
        return left
    if NOTHING in (left, right) or right == Complement(ANY_TEXT):
        return NOTHING
    return Intersection((*(left.items if isinstance(left, Intersection) else (left,)), right))


def empty_part(node: Node) -> Node:
    """The part of the node that matches the empty string, with its captures."""
    if not nullable(node):
        return NOTHING
    if isinstance(node, Capture):
        return Capture(node.name, empty_part(node.item))
    if isinstance(node, Sequence):
        return sequence(*(empty_part(item) for item in node.items))
    if isinstance(node, Choice):
        return next(part for part in map(empty_part, node.items) if part != NOTHING)
    if isinstance(node, Repeat):
        part = empty_part(node.item)
        if node.minimum == 0:
            return EMPTY if part in (EMPTY, NOTHING) or not node.greedy else choice([part, EMPTY])
        return EMPTY if part == EMPTY else Repeat(part, node.minimum, node.minimum, node.greedy)
    return EMPTY


def ending_in(node: Node, characters: Ranges) -> Node:
    """The strings of the node whose last character is one of these."""
    if not characters:
        return NOTHING
    if isinstance(node, Bytes):
        last = ord(node.value.decode()[-1]) if node.value else -1
        return node if classes.intersection(characters, ((last, last),)) else NOTHING
    if isinstance(node, Chars):
        return char(classes.intersection(node.ranges, characters))
    if isinstance(node, Choice):
        return choice([ending_in(item, characters) for item in node.items])
    if isinstance(node, Capture):
        inner = ending_in(node.item, characters)
        return NOTHING if inner == NOTHING else Capture(node.name, inner)
    if isinstance(node, Repeat):
        maximum = None if node.maximum is None else node.maximum - 1
        earlier = Repeat(node.item, max(node.minimum - 1, 0), maximum, node.greedy)
        return sequence(EMPTY if maximum == 0 else earlier, ending_in(node.item, characters))
    if isinstance(node, Sequence):
        found: list[Node] = []
        after: Node = EMPTY
        for at in range(len(node.items) - 1, -1, -1):
            found.append(sequence(*node.items[:at], ending_in(node.items[at], characters), after))
            if not nullable(node.items[at]):
                break
            after = sequence(empty_part(node.items[at]), after)
        return choice(found)
    return NOTHING


def fixed_length(node: Node) -> int | None:
    """The number of characters of every string of the node, or None if they differ."""
    if isinstance(node, Bytes):
        return len(node.value.decode())
    if isinstance(node, Chars):
        return 1
    if isinstance(node, Sequence):
        lengths = [fixed_length(item) for item in node.items]
        known = [length for length in lengths if length is not None]
        return sum(known) if len(known) == len(lengths) else None
    if isinstance(node, Choice):
        first = fixed_length(node.items[0]) if node.items else 0
        return first if all(fixed_length(item) == first for item in node.items) else None
    if isinstance(node, Repeat) and node.minimum == node.maximum:
        length = fixed_length(node.item)
        return None if length is None else length * node.minimum
    return fixed_length(node.items[0]) if isinstance(node, Intersection) else None


def first_characters(node: Node) -> Ranges:
    """A set that holds the first character of every string of the node."""
    if isinstance(node, Bytes):
        return classes.single(ord(node.value.decode()[0])) if node.value else classes.NONE
    if isinstance(node, Chars):
        return node.ranges
    if isinstance(node, Choice):
        return classes.union(*(first_characters(item) for item in node.items))
    if isinstance(node, (Repeat, Capture)):
        return first_characters(node.item)
    if isinstance(node, Intersection):
        return first_characters(node.items[0])
    if isinstance(node, Sequence):
        found: list[Ranges] = []
        for item in node.items:
            found.append(first_characters(item))
            if not nullable(item):
                break
        return classes.union(*found)
    return classes.ALL
