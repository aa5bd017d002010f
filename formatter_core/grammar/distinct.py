"""The values that texts begin with, of which distinct members have different ones (see `Member`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar.nodes import Bytes, Choice, Node, Sequence, Terminal

__all__ = ["MAX_MEMBER_STATES", "Value", "by_value", "split_first", "value_of"]

#: Up to this many states of all `Members` of a grammar are written out.
MAX_MEMBER_STATES = 20_000

#: A JSON string, a number, or any other text unchanged.
Value: TypeAlias = str | Decimal | bytes

_DECIMAL = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_STRING = re.compile(rb'"([^"\\\x00-\x1f]|\\.)*"', re.DOTALL)


def value_of(text: bytes) -> Value:
    """Return the value that a text begins with."""
    if _DECIMAL.fullmatch(text):
        return Decimal(text.decode())
    string = _STRING.match(text)
    if string:
        try:
            found: str = json.loads(string[0])
            found.encode()
        except ValueError:
            return text
        return found
    return text


def by_value(item: Node) -> Iterator[tuple[Value, Node]]:
    """Yield each value of a terminal that lists its texts, with the node of what begins with it.

    Raises:
        LimitExceeded: the terminal does not, so that there may be any number of values.
    """
    first, rest = split_first(item)
    texts: dict[Value, list[Node]] = {}
    for text in _texts(first):
        texts.setdefault(value_of(text.value), []).append(text)
    for value, spellings in texts.items():
        yield value, Sequence((Terminal(Choice(tuple(spellings))), *rest))


def split_first(node: Node) -> tuple[Node, tuple[Node, ...]]:
    """Return the first part of a node, and the rest."""
    if isinstance(node, Sequence) and node.items:
        first, rest = split_first(node.items[0])
        return first, (*rest, *node.items[1:])
    return node, ()


def _texts(node: Node) -> tuple[Bytes, ...]:
    node = node.item if isinstance(node, Terminal) else node
    texts = node.items if isinstance(node, Choice) else (node,)
    listed = tuple(text for text in texts if isinstance(text, Bytes))
    if len(listed) < len(texts):
        remedy = "list the values (enum), or let them repeat"
        raise LimitExceeded(
            "states", MAX_MEMBER_STATES, "a list of distinct values as rules", is_fixed=True, remedy=remedy
        )
    return listed
