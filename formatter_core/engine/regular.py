"""Asks the native library about regular nodes: what they match, how much, and by which automaton."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TypeAlias

from formatter_core.engine.native_calls import LibraryBytes
from formatter_core.engine.native_library import bounds_of, check, load
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node, Terminal
from formatter_core.grammar.operations import read_number
from formatter_core.grammar.program import write
from formatter_core.grammar.utf8 import ByteRange
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["Automaton", "ByteRanges", "count_texts", "decide_empty", "shortest_texts"]

ByteRanges: TypeAlias = tuple[ByteRange, ...]


class Automaton:
    """The deterministic automaton of a regular node over bytes; some string is accepted from every state of it.

    Args:
        node: any node that may be in a `Terminal`.
        limits: `states` bounds the states, `work` the steps of making them.

    Attributes:
        count: the number of states, which are numbered from 0; none if nothing is matched. The first one is the start.

    Raises:
        LimitExceeded: the node exceeds a limit.
    """

    def __init__(self, node: Node, limits: Limits = DEFAULT_LIMITS) -> None:
        table = _table(node, limits, 0)
        self._accepting: list[bool] = []
        self._transitions: list[list[tuple[ByteRanges, int]]] = []
        at = 0
        while at < len(table):
            accepts, at = read_number(table, at)
            moves, at = read_number(table, at)
            ranges: dict[int, list[ByteRange]] = {}
            for _ in range(moves):
                low, at = read_number(table, at)
                high, at = read_number(table, at)
                target, at = read_number(table, at)
                ranges.setdefault(target, []).append((low, high))
            self._accepting.append(bool(accepts))
            self._transitions.append([(tuple(found), target) for target, found in ranges.items()])
        self.count = len(self._accepting)

    def accepting(self, state: int) -> bool:
        """Tell whether what led to a state is matched."""
        return self._accepting[state]

    def transitions(self, state: int) -> list[tuple[ByteRanges, int]]:
        """List what leads out of a state: sorted, inclusive ranges of bytes, and the state after them."""
        return self._transitions[state]


def shortest_texts(node: Node, limits: Limits, most: int) -> Iterator[bytes]:
    """Give the strings of the fewest bytes that a regular node matches, in byte order, at most `most` of them.

    Raises:
        LimitExceeded: the node exceeds a limit.
    """
    found = _table(node, limits, most)
    at = 0
    while at < len(found):
        length, at = read_number(found, at)
        yield found[at : at + length]
        at += length


def _table(node: Node, limits: Limits, most: int) -> bytes:
    found = LibraryBytes()
    program, bounds = _program(node, limits), bounds_of(limits)
    check(load().fcn_regular_table(program, len(program), bounds, most, ctypes.byref(found)), limits)
    return found.copied()


def decide_empty(node: Node, limits: Limits) -> tuple[bool, int]:
    """Tell whether a regular node is known to match nothing, and how many elementary steps it took to find out.

    It is not known if `limits` do not suffice.
    """
    steps = ctypes.c_uint64()
    try:
        return _count(node, limits, 1, steps) == 0, steps.value
    except LimitExceeded:
        return False, steps.value


def count_texts(node: Node, limits: Limits, most: int) -> tuple[int, int]:
    """Count the texts that a regular node matches, at most `most`, and the elementary steps that this took.

    Raises:
        LimitExceeded: `limits` do not suffice.
    """
    steps = ctypes.c_uint64()
    return _count(node, limits, most, steps), steps.value


def _count(node: Node, limits: Limits, most: int, steps: ctypes.c_uint64) -> int:
    program = _program(node, limits)
    bounds = bounds_of(limits)
    return check(load().fcn_regular_count(program, len(program), bounds, most, ctypes.byref(steps)), limits)


def _program(node: Node, limits: Limits) -> bytes:
    return write({"": node if isinstance(node, Terminal) else Terminal(node)}, "", limits).data
