"""The order in which a terminal prefers its ends: what a backtracking matcher would try first.

A terminal's inner choices count as if they were written out in the rule. They are followed for all ends at once by
a list of threads in order of preference (Pike's matcher; Cox, "Regular Expression Matching: the Virtual Machine
Approach", 2009), where a thread is an ordered partial derivative of the terminal. A thread that reaches a place where
a better one is already is dropped: for every end the better one comes first.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Bytes, Chars, Choice, Node, Repeat, Sequence, Terminal
from formatter_core.grammar.automaton import Automaton
from formatter_core.grammar.utf8 import Utf8Node, utf8_node
from formatter_core.limits import Limits

__all__ = ["TerminalOrder"]

# What a term may do, in order of preference: continue by a byte of a range, or (None) end.
Way: TypeAlias = "tuple[int, int, int] | None"

_DONE = 0
_EMPTY, _LITERAL, _CHARACTER, _CAT, _ALT, _REPEAT, _ATOM = range(7)


class TerminalOrder:
    """The preferences of one terminal."""

    def __init__(self, node: Node, limits: Limits) -> None:
        self._limits = limits
        self._work = 0
        self._keys: list[tuple[Any, ...]] = [(_EMPTY,)]
        self._index: dict[tuple[Any, ...], int] = {}
        self._ways: dict[int, list[Way]] = {_DONE: [None]}
        self._atoms: list[Automaton] = []
        self._root = self._build(node)

    def ends(self, steps: Items[int], start: int) -> list[int]:
        """The ends of all matches that begin at `start`, the preferred one first.

        `steps` are bytes; a negative one is a token, which no terminal matches.
        """
        self._work = 0
        # A linked list in order of preference of ends and of places where threads will put theirs (None).
        ends: list[int | None] = [None]
        after: list[int] = [-1]

        def insert(place: int, end: int | None) -> int:
            ends.append(end)
            after.append(after[place])
            after[place] = len(ends) - 1
            return after[place]

        threads = [(self._root, 0)]
        position = start
        while threads:
            byte = steps[position] if position < len(steps) else -1
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            ended = False
            for term, place in threads:
                ways = self._ways_of(term)
                self._spend(len(ways))
                for way in ways:
                    if way is None:
                        if not ended:
                            ended = True
                            place = insert(place, position)
                    elif way[0] <= byte <= way[1] and way[2] not in seen:
                        seen.add(way[2])
                        place = insert(place, None)
                        following.append((way[2], place))
            threads = following
            position += 1
        result: list[int] = []
        place = 0
        while place >= 0:
            end = ends[place]
            if end is not None:
                result.append(end)
            place = after[place]
        return result

    # --- terms -------------------------------------------------------------------------------------------------

    def _build(self, node: Node) -> int:
        if isinstance(node, Bytes):
            return self._literal(node.value, 0)
        if isinstance(node, Chars):
            return self._intern((_CHARACTER, utf8_node(node.ranges)))
        if isinstance(node, Sequence):
            result = _DONE
            for item in reversed(node.items):
                result = self._cat(self._build(item), result)
            return result
        if isinstance(node, Choice):
            return self._intern((_ALT, tuple(self._build(item) for item in node.items)))
        if isinstance(node, Repeat):
            return self._repeat(self._build(node.item), node.minimum, node.maximum, node.greedy)
        if isinstance(node, Terminal):
            return self._build(node.item)
        self._atoms.append(Automaton(node, self._limits))
        return self._intern((_ATOM, len(self._atoms) - 1, self._atoms[-1].start))

    def _intern(self, key: tuple[Any, ...]) -> int:
        term = self._index.get(key)
        if term is None:
            term = self._index[key] = len(self._keys)
            self._keys.append(key)
        return term

    def _literal(self, value: bytes, offset: int) -> int:
        return _DONE if offset == len(value) else self._intern((_LITERAL, value, offset))

    def _cat(self, head: int, tail: int) -> int:
        return tail if head == _DONE else head if tail == _DONE else self._intern((_CAT, head, tail))

    def _repeat(self, item: int, minimum: int, maximum: int | None, greedy: bool) -> int:
        return _DONE if maximum == 0 else self._intern((_REPEAT, item, minimum, maximum, greedy))

    # --- ordered derivatives -----------------------------------------------------------------------------------

    def _ways_of(self, term: int) -> list[Way]:
        known = self._ways.get(term)
        if known is None:
            known = self._ways[term] = self._make_ways(term)
            self._spend(len(known))
        return known

    def _make_ways(self, term: int) -> list[Way]:
        key = self._keys[term]
        if key[0] == _LITERAL:
            byte = key[1][key[2]]
            return [(byte, byte, self._literal(key[1], key[2] + 1))]
        if key[0] == _CHARACTER:
            node: Utf8Node = key[1]
            return [
                (low, high, _DONE if target is None else self._intern((_CHARACTER, target)))
                for low, high, target in node
            ]
        if key[0] == _ATOM:
            return self._atom_ways(key[1], key[2])
        if key[0] == _ALT:
            return _once(way for item in key[1] for way in self._ways_of(item))
        if key[0] == _CAT:
            return self._cat_ways(term)
        return self._repeat_ways(*key[1:])

    def _atom_ways(self, number: int, state: int) -> list[Way]:
        automaton = self._atoms[number]
        ways: list[Way] = [
            (low, high, self._intern((_ATOM, number, target)))
            for ranges, target in automaton.transitions(state)
            for low, high in ranges
        ]
        return [*ways, None] if automaton.accepting(state) else ways

    def _cat_ways(self, term: int) -> list[Way]:
        # From the last part backwards, not by recursion: a sequence may have very many items.
        chain = [term]
        while self._keys[term][0] == _CAT and term not in self._ways and None in self._ways_of(self._keys[term][1]):
            term = self._keys[term][2]
            chain.append(term)
        result: list[Way] = []
        for position, part in enumerate(reversed(chain)):
            key = self._keys[part]
            if part in self._ways or key[0] != _CAT:
                result = self._ways_of(part)
            else:
                result = self._followed(self._ways_of(key[1]), key[2], result if position else [])
                self._ways[part] = result
        return result

    def _repeat_ways(self, item: int, minimum: int, maximum: int | None, greedy: bool) -> list[Way]:
        ways = self._ways_of(item)
        least = minimum if None not in ways else 0
        # Rounds that must be and may be empty let the next round begin; so, again, from the last one backwards.
        result: list[Way] = []
        for count in range(least, minimum + 1):
            left = None if maximum is None else maximum - minimum + count
            rest = self._repeat(item, max(0, count - 1), None if left is None else left - 1, greedy)
            if left == 0:
                result = [None]
            elif count > 0:
                result = self._followed(ways, rest, result)
            else:
                rounds = [way for way in self._followed(ways, rest, []) if way is not None]
                result = [*rounds, None] if greedy else [None, *rounds]
            self._ways[self._repeat(item, count, left, greedy)] = result
        return result

    def _followed(self, ways: list[Way], tail: int, tail_ways: list[Way]) -> list[Way]:
        """The ways of a part with `tail` after it, whose own ways take the place of the part's end."""
        result: list[Way] = []
        for way in ways:
            if way is None:
                result.extend(tail_ways)
            else:
                result.append((way[0], way[1], self._cat(way[2], tail)))
        self._spend(len(result))
        return _once(result)

    def _spend(self, steps: int) -> None:
        self._work += steps
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "the order of a terminal's matches")


def _once(ways: Any) -> list[Way]:
    """The ways without those that stand further ahead already."""
    return list(dict.fromkeys(ways))
