"""Automata as patterns or rules: for `Intersection`, `Complement` and `Shortest`, which the package does not have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from heapq import heapify, heappop, heappush

from formatter_core.engine.kbnf.graph import components
from formatter_core.engine.kbnf.productions import ENGINE, Literal, Production, Productions, Regex, Symbol
from formatter_core.engine.kbnf.regular import byte_class, letters
from formatter_core.engine.regular import Automaton, ByteRanges
from formatter_core.errors import LimitExceeded, UnsupportedByEngine
from formatter_core.grammar import Node
from formatter_core.limits import Limits

__all__ = ["automaton_of", "left_linear", "pattern_of"]

#: From one state to another by one byte out of these ranges.
_Steps = list[tuple[int, ByteRanges, int]]

#: The maximum number of states of an automaton that becomes rules. All its transitions are in the Earley set where it
#: begins, and every token is tried against that set.
_RULE_STATES = 4_000
#: The maximum number of states of an automaton that is built.
_AUTOMATON_STATES = 10_000
_START = 0
#: Automata with more states on cycles, and those whose patterns grow longer, are not turned into patterns. Where few
#: states are on cycles, a trie of words that are left out for example, the pattern is long but simple.
_CYCLIC_STATES = 64
_MAX_PATTERN_LENGTH = 300_000


def automaton_of(node: Node, limits: Limits) -> Automaton:
    """Make the automaton of a node.

    Raises:
        UnsupportedByEngine: it has more states than the package copes with.
        LimitExceeded: it is past one of `limits`.
    """
    try:
        return Automaton(node, replace(limits, states=min(limits.states, _AUTOMATON_STATES)))
    except LimitExceeded as error:
        if error.limit != "states" or limits.states <= _AUTOMATON_STATES:
            raise
        raise _too_many_states(_AUTOMATON_STATES, node) from error


def _too_many_states(count: int, node: Node) -> UnsupportedByEngine:
    reason = f"its automaton has {count} states or more, but the package copes with only {_RULE_STATES}"
    return UnsupportedByEngine(reason, engine=ENGINE, node=f"a {type(node).__name__}")


def _steps_of(automaton: Automaton) -> _Steps:
    return [
        (state, ranges, target) for state in range(automaton.count) for ranges, target in automaton.transitions(state)
    ]


def pattern_of(automaton: Automaton) -> str | None:
    """Return a pattern of the non-empty strings; None if it would be long or slow."""
    steps, count = _steps_of(automaton), automaton.count
    if not _few_on_cycles(steps, count):
        return None
    edges = _Edges()
    begin, end = count, count + 1
    for source, ranges, target in steps:
        edges.add(source, target, byte_class(ranges))
        if source == _START:
            edges.add(begin, target, byte_class(ranges))
    for state in range(count):
        if automaton.accepting(state):
            edges.add(state, end, "")
    waiting = [(edges.detour(state), state) for state in range(count)]
    heapify(waiting)
    while waiting:
        expected, state = heappop(waiting)
        actual = edges.detour(state)
        if actual > expected:
            heappush(waiting, (actual, state))
            continue
        if edges.length + actual > _MAX_PATTERN_LENGTH:
            return None
        edges.leave_out(state)
    return edges.out.get(begin, {}).get(end)


def left_linear(automaton: Automaton, node: Node, productions: Productions) -> list[Production]:
    """Make rules in which each state derives the non-empty strings that lead to it; return those of accepted ones."""
    if automaton.count > _RULE_STATES:
        raise _too_many_states(automaton.count, node)
    reached = [productions.fresh() for _ in range(automaton.count)]
    ends: list[Production] = []
    for state, ranges, target in _steps_of(automaton):
        step = _one_byte(ranges)
        ways: list[Production] = [(reached[state], step)]
        if state == _START:
            ways.append((step,))
        for way in ways:
            productions.add(reached[target], way)
        if automaton.accepting(target):
            ends.extend(ways)
    return ends


def _one_byte(ranges: tuple[tuple[int, int], ...]) -> Symbol:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Literal(letters(bytes([ranges[0][0]])))
    return Regex(byte_class(ranges))


def _few_on_cycles(steps: _Steps, count: int) -> bool:
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, _, target in steps:
        targets[source].append(target)
    sizes = Counter(components(targets))
    return sum(size for size in sizes.values() if size > 1) <= _CYCLIC_STATES


class _Edges:
    """Patterns that lead from state to state; states are left out one by one (Brzozowski & McCluskey 1963)."""

    def __init__(self) -> None:
        self.out: dict[int, dict[int, str]] = {}
        self.into: dict[int, dict[int, str]] = {}
        self.length = 0

    def add(self, source: int, target: int, pattern: str) -> None:
        known = self.out.setdefault(source, {}).get(target)
        both = pattern if known is None else f"{known}|{pattern}"
        self.length += len(both) - len(known or "")
        self.out[source][target] = self.into.setdefault(target, {})[source] = both

    def detour(self, state: int) -> int:
        """Estimate how much longer all patterns together become without the state (Delgado & Morais 2004)."""
        into = [len(text) for source, text in self.into.get(state, {}).items() if source != state]
        out = [len(text) for target, text in self.out.get(state, {}).items() if target != state]
        loop = len(self.out.get(state, {}).get(state, ""))
        return (len(out) - 1) * sum(into) + (len(into) - 1) * sum(out) + len(into) * len(out) * loop

    def leave_out(self, state: int) -> None:
        """Join each way into the state with each way out of it."""
        into = self.into.pop(state, {})
        out = self.out.pop(state, {})
        loop = out.pop(state, None)
        into.pop(state, None)
        around = "" if loop is None else f"(?:{loop})*"
        self.length -= len(loop or "") + sum(map(len, into.values())) + sum(map(len, out.values()))
        for source in into:
            del self.out[source][state]
        for target in out:
            del self.into[target][state]
        for source, first in into.items():
            for target, second in out.items():
                self.add(source, target, f"{_group(first)}{around}{_group(second)}")


def _group(pattern: str) -> str:
    return f"(?:{pattern})" if "|" in pattern else pattern
