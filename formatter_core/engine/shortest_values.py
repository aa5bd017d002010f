"""Distinct members as ordinary ones, one for each of the shortest values: as many as a shortest text may need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from formatter_core.engine.regular import shortest_texts
from formatter_core.grammar import (
    Bytes,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Member,
    Members,
    Node,
    Repeat,
    Sequence,
    Terminal,
    Way,
    map_children,
)
from formatter_core.grammar.distinct import Value, split_first, value_of
from formatter_core.limits import Limits

__all__ = ["without_distinct"]

#: The number of texts that are requested before the values that they begin with are excluded.
_AT_ONCE = 100
_EVERYTHING = Complement(Choice(()))


def without_distinct(node: Node, limits: Limits) -> Node:
    """Return a rule without distinct members whose shortest text has as many bytes; the text may be another one.

    Raises:
        LimitExceeded: a terminal is past a limit.
    """
    if isinstance(node, Terminal):
        return node
    node = map_children(node, lambda child: without_distinct(child, limits))
    if not isinstance(node, Members) or not any(member.distinct for member in node.members):
        return node
    if not all(member.repeated for member in node.members if member.distinct):
        return node  # then their values have to be listed
    # A shortest text has no more members than must come and one for each condition: if one of them had none of so many
    # shortest values of its way, one of these would be free for it.
    most = max(node.minimum, 1) + node.conditions
    most = most if node.maximum is None else min(most, node.maximum)
    ways = [way for member in node.members if member.distinct for way in member.ways]
    members = [member for member in node.members if not member.distinct]
    if most == 1:
        members += [Member(tuple(ways), repeated=True)] if ways else []
    else:
        members += _values(ways, most, limits)
    return replace(node, members=tuple(members), ordered=True)


def _values(ways: list[Way], most: int, limits: Limits) -> Iterator[Member]:
    """Return the values that the ways begin with. Values with the same, equally long ways count as the same member.

    Where these are all as long as the last value of their way, there are enough of them: a way whose value is taken has
    another one left that is no longer.
    """
    found: dict[Value, dict[int, bytes]] = {}
    rests, last = [], []
    for index, way in enumerate(ways):
        first, rest = split_first(way.item)
        rests.append(rest)
        texts = dict(islice(_shortest_values(first, limits), most))
        last.append(len(list(texts.values())[-1]) if len(texts) == most else -1)
        for value, text in texts.items():
            found.setdefault(value, {})[index] = text
    alike: dict[tuple[tuple[int, int], ...], list[dict[int, bytes]]] = {}
    for by_way in found.values():
        alike.setdefault(tuple((index, len(text)) for index, text in by_way.items()), []).append(by_way)
    for lengths, group in alike.items():
        written = [
            Way(Sequence((Terminal(Bytes(text)), *rests[index])), ways[index].meets) for index, text in group[0].items()
        ]
        is_enough = all(length == last[index] for index, length in lengths)
        yield from [Member(tuple(written), repeated=is_enough)] * (1 if is_enough else len(group))


def _shortest_values(node: Node, limits: Limits) -> Iterator[tuple[Value, bytes]]:
    """Yield the values that a terminal begins with, each with one of its shortest texts, the shortest first."""
    node = node.item if isinstance(node, Terminal) else node
    seen: list[Node] = []
    known: set[Value] = set()
    while True:
        left = Intersection((node, Complement(Choice(tuple(seen))))) if seen else node
        before = len(known)
        for text in shortest_texts(left, limits, _AT_ONCE):
            value = value_of(text)
            if value not in known:
                known.add(value)
                seen.append(_spellings(value))
                yield value, text
        if len(known) == before:
            return


def _spellings(value: Value) -> Node:
    """Yield every text that begins with a value."""
    if isinstance(value, str):
        return Sequence((Bytes(b'"'), JsonText(value), Bytes(b'"'), _EVERYTHING))
    if isinstance(value, bytes):
        return Bytes(value)
    digits = f"{abs(value):f}"
    whole, _, fraction = digits.partition(".")
    point, zeros = Bytes(f".{fraction.rstrip('0')}".encode()), Repeat(Bytes(b"0"), 0 if fraction.strip("0") else 1)
    rest: Node = Sequence((point, zeros))
    signs = [Bytes(b"-")] * (value <= 0) + [Bytes(b"")] * (value >= 0)
    rest = rest if fraction.strip("0") else Choice((Bytes(b""), rest))
    return Sequence((Choice(tuple(signs)), Bytes(whole.encode()), rest))
