"""Classes of code points as automata over the bytes of UTF-8 (RFC 3629)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import Optional, TypeAlias

__all__ = ["ByteRange", "Utf8Node", "utf8_node", "utf8_sequences"]

ByteRange: TypeAlias = tuple[int, int]
Utf8Sequence: TypeAlias = tuple[ByteRange, ...]
# Edges of a minimal acyclic automaton, sorted: (low, high, target), where None is the end of the character.
Utf8Node: TypeAlias = tuple[tuple[int, int, Optional["Utf8Node"]], ...]

_LENGTH_BORDERS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


def utf8_sequences(ranges: Iterable[tuple[int, int]]) -> list[Utf8Sequence]:
    """Return the sequences of byte ranges that spell exactly these code points, sorted.

    `ranges` are sorted, disjoint and inclusive, without surrogates. The method is that of Russ Cox's article on
    RE2 ("Regular Expression Matching in the Wild", 2010): cut where the length of the encoding changes, then where a
    continuation byte would not run through all of its 64 values.
    """
    result: list[Utf8Sequence] = []
    stack = list(reversed(list(ranges)))
    while stack:
        low, high = stack.pop()
        cut = _cut(low, high)
        if cut is not None:
            stack.append((cut + 1, high))
            stack.append((low, cut))
        else:
            result.append(tuple(zip(chr(low).encode(), chr(high).encode(), strict=True)))
    return result


@lru_cache(maxsize=1024)
def utf8_node(ranges: tuple[tuple[int, int], ...]) -> Utf8Node:
    """Return the start of the minimal automaton of one character of `ranges`; no edges if there are none."""
    return _node(utf8_sequences(ranges), {})


def _cut(low: int, high: int) -> int | None:
    """Return the last code point of the first part if low–high is not one product of byte ranges."""
    for border in _LENGTH_BORDERS:
        if low <= border < high:
            return border
    if high <= 0x7F:
        return None
    for low_bits in (0x3F, 0xFFF, 0x3FFFF):
        if low & ~low_bits != high & ~low_bits:
            if low & low_bits:
                return low | low_bits
            if high & low_bits != low_bits:
                return (high & ~low_bits) - 1
    return None


def _node(sequences: list[Utf8Sequence], shared: dict[Utf8Node, Utf8Node]) -> Utf8Node:
    edges: list[tuple[int, int, Utf8Node | None]] = []
    # Two first ranges are equal or disjoint: a byte whose continuations are cut has its own range.
    for (low, high), group in groupby(sequences, key=lambda sequence: sequence[0]):
        rests = [sequence[1:] for sequence in group]
        target = _node(rests, shared) if rests[0] else None
        if edges and edges[-1][1] == low - 1 and edges[-1][2] == target:
            edges[-1] = (edges[-1][0], high, target)
        else:
            edges.append((low, high, target))
    node: Utf8Node = tuple(edges)
    return shared.setdefault(node, node)
