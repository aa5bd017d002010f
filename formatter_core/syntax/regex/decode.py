"""Nodes out of the bytes that the library writes for a pattern: `regular/regex/encode.rs` says what these are."""

from __future__ import annotations

from functools import lru_cache

from formatter_core.grammar import (
    ANY_CHAR,
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
)
from formatter_core.grammar.operations import (
    AGAIN,
    BYTES,
    CHOICE,
    COMPLEMENT,
    INTERSECTION,
    REPEAT,
    SEQUENCE,
    read_number,
)

__all__ = ["read_nodes"]

#: The operations that only patterns have; the others are those of programs.
_CLASS, _ANY_TEXT, _NAMED, _ANY_CHAR, _CLASS_AGAIN = range(0x40, 0x45)


def read_nodes(data: bytes) -> Node:
    """Read the one node that the operations make. Where the library shares a node, there is one object."""
    stack: list[Node] = []
    made: list[Node] = []
    sets: list[tuple[tuple[int, int], ...]] = []
    at = 0
    while at < len(data):
        operation = data[at]
        at += 1
        node: Node
        if operation == _ANY_TEXT:
            node = ANY_TEXT
        elif operation == _ANY_CHAR:
            node = ANY_CHAR
        elif operation == COMPLEMENT:
            node = Complement(stack.pop())
        else:
            count = data[at]
            at += 1
            if count >= 0x80:
                count, at = read_number(data, at - 1)
            if operation == BYTES:
                node = Bytes(data[at : at + count])
                at += count
            elif operation == _CLASS:
                sets.append(_ranges(data[at : at + count]))
                node = Chars(sets[-1])
                at += count
            elif operation == _CLASS_AGAIN:
                node = Chars(sets[count])
            elif operation == SEQUENCE:
                node = Sequence(tuple(stack[-count:])) if count else EMPTY
                del stack[len(stack) - count :]
            elif operation == CHOICE:
                node = Choice(tuple(stack[-count:])) if count else NOTHING
                del stack[len(stack) - count :]
            elif operation == AGAIN:
                stack.append(made[count])
                continue
            elif operation == INTERSECTION:
                node = Intersection(tuple(stack[-count:]))
                del stack[len(stack) - count :]
            elif operation == _NAMED:
                node = Capture(data[at : at + count].decode(), stack.pop())
                at += count
            else:
                most, at = read_number(data, at)
                node = Repeat(stack.pop(), count, most - 1 if most else None, operation == REPEAT)
        stack.append(node)
        made.append(node)
    return stack[0]


@lru_cache(maxsize=256)
def _ranges(data: bytes) -> tuple[tuple[int, int], ...]:
    bounds = []
    at = 0
    while at < len(data):
        bound, at = read_number(data, at)
        bounds.append(bound)
    return tuple(zip(bounds[::2], bounds[1::2], strict=True))
