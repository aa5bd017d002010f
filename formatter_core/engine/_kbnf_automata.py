"""Automata as patterns: for `Intersection`, `Complement` and `Shortest`, which the package's patterns lack."""

from __future__ import annotations

from formatter_core.automaton import DEAD, Automaton, ByteRanges
from formatter_core.engine._kbnf_regular import byte_class

__all__ = ["Steps", "pattern_of", "steps_of"]

#: From one state to another by one byte out of these ranges.
Steps = list[tuple[int, ByteRanges, int]]

#: Larger automata, and longer patterns on the way, are not turned into patterns.
_PATTERN_STATES = 64
_PATTERN_LENGTH = 6_000


def steps_of(automaton: Automaton, count: int) -> Steps:
    """All steps between live states, of which there are fewer than `count`."""
    return [
        (state, ranges, target)
        for state in range(count)
        if state != DEAD
        for ranges, target in automaton.transitions(state)
    ]


def pattern_of(automaton: Automaton, steps: Steps, count: int) -> str | None:
    """A pattern of the non-empty strings, by leaving out one state after another (Brzozowski & McCluskey 1963).

    None where it would be long. The state on the shortest detours goes first (Delgado & Morais 2004).
    """
    if count > _PATTERN_STATES:
        return None
    begin, end = count, count + 1
    edges: dict[tuple[int, int], str] = {}

    def add(source: int, target: int, pattern: str) -> None:
        known = edges.get((source, target))
        edges[source, target] = pattern if known is None else f"{known}|{pattern}"

    for source, ranges, target in steps:
        add(source, target, byte_class(ranges))
        if source == automaton.start:
            add(begin, target, byte_class(ranges))
    for state in range(1, count):
        if automaton.accepting(state):
            add(state, end, "")
    left = set(range(1, count))
    while left:
        state = min(left, key=lambda candidate: _detour(edges, candidate))
        left.remove(state)
        loop = edges.pop((state, state), None)
        around = "" if loop is None else f"(?:{loop})*"
        into = [(source, edges.pop((source, target))) for source, target in list(edges) if target == state]
        out = [(target, edges.pop((source, target))) for source, target in list(edges) if source == state]
        for source, first in into:
            for target, second in out:
                add(source, target, f"{_group(first)}{around}{_group(second)}")
        if sum(map(len, edges.values())) > _PATTERN_LENGTH:
            return None
    return edges.get((begin, end))


def _detour(edges: dict[tuple[int, int], str], state: int) -> int:
    """About how much longer all patterns together become without the state."""
    into = [len(text) for (source, target), text in edges.items() if target == state != source]
    out = [len(text) for (source, target), text in edges.items() if source == state != target]
    loop = len(edges.get((state, state), ""))
    return len(out) * sum(into) + len(into) * sum(out) + len(into) * len(out) * loop - sum(into) - sum(out)


def _group(pattern: str) -> str:
    return f"(?:{pattern})" if "|" in pattern else pattern
