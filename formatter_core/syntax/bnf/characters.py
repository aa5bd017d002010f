"""The automaton of a regular node over characters, made from the one over bytes."""

from __future__ import annotations

from formatter_core.engine.regular import Automaton
from formatter_core.grammar import Chars, Node
from formatter_core.limits import Limits

__all__ = ["CharacterAutomaton"]

#: Lead bytes with how many bytes follow them, and the first code point of the first of them.
_LEADS = ((0x00, 0x7F, 0), (0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3))


class CharacterAutomaton:
    """An automaton over characters: its states are those of the byte automaton between characters. The node must match
    only UTF-8.

    Attributes:
        count: the number of states of the byte automaton; 0 if the language is empty. The first one is the start.
    """

    def __init__(self, node: Node, limits: Limits) -> None:
        self._bytes = Automaton(node, limits)
        self._following: dict[tuple[int, int], dict[int, list[tuple[int, int]]]] = {}
        self.count = self._bytes.count

    def accepting(self, state: int) -> bool:
        """Tell whether the state is accepting."""
        return self._bytes.accepting(state)

    def moves(self, state: int) -> list[tuple[Chars, int]]:
        """Return the transitions out of `state`: characters and the next state."""
        found: dict[int, list[tuple[int, int]]] = {}
        for byte_ranges, target in self._bytes.transitions(state):
            for low, high in byte_ranges:
                for first, last, more in _LEADS:
                    for byte in range(max(low, first), min(high, last) + 1):
                        lead = byte if not more else (byte & (0x3F >> more)) << (6 * more)
                        for end, ranges in self._after(target, more).items():
                            found.setdefault(end, []).extend((lead + a, lead + b) for a, b in ranges)
        return [(Chars.of(ranges), target) for target, ranges in found.items()]

    def _after(self, state: int, more: int) -> dict[int, list[tuple[int, int]]]:
        """Return the states after `more` continuation bytes, with the values of those bytes that lead there."""
        if not more:
            return {state: [(0, 0)]}
        known = self._following.get((state, more))
        if known is not None:
            return known
        found: dict[int, list[tuple[int, int]]] = {}
        for byte_ranges, target in self._bytes.transitions(state):
            below = self._after(target, more - 1)
            for low, high in byte_ranges:
                for byte in range(max(low, 0x80), min(high, 0xBF) + 1):
                    base = (byte & 0x3F) << (6 * (more - 1))
                    for end, ranges in below.items():
                        found.setdefault(end, []).extend((base + a, base + b) for a, b in ranges)
        merged = {end: _joined(ranges) for end, ranges in found.items()}
        self._following[state, more] = merged
        return merged


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged
