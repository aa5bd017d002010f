"""Regular expressions over bytes as hash-consed terms.

Terms are made by constructors that know enough laws (Owens, Reppy & Turon 2009) for every term to have finitely many
different derivatives; a product over a choice is spread out, so that terms are sets of partial derivatives (Antimirov
1996).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Multiples
from formatter_core.grammar.utf8 import Utf8Node
from formatter_core.limits import Limits
from formatter_core.testing import multiples
from formatter_core.testing.suffix_automaton import SuffixAutomaton

__all__ = [
    "ALT",
    "AND",
    "CAT",
    "CHARACTER",
    "EMPTY_STRING",
    "EVERYTHING",
    "LITERAL",
    "MULTIPLES",
    "NOT",
    "NULL",
    "REPEAT",
    "SHORTEST",
    "SUBSTRING",
    "UNKNOWN",
    "TermTable",
]

NULL, EMPTY_STRING, EVERYTHING = 0, 1, 2

LITERAL, CHARACTER, SUBSTRING, MULTIPLES, CAT, ALT, REPEAT, AND, NOT, SHORTEST, _CONSTANT = range(11)
UNKNOWN = -1
# Literals are compared by their rest only when that is short: equal ends share states, long ones are never copied.
_SHARED_LITERAL = 64
# One step here takes a few microseconds, a step of `Limits.work` well under one.
_COST = 4
# Terms that no state is made of: parts, and products looked through for emptiness.
_TERMS_PER_STATE = 4


class TermTable:
    """The terms of one automaton, as small integers. Intersection, complement and shortest are `derivatives.Terms`'.

    Attributes:
        nullable: by term, whether the empty string is in its language.
        minimum: by term, the length in bytes of its shortest string, or -1 where only a search could tell.
        work: elementary steps so far, bounded by `Limits.work`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._keys: list[tuple[Any, ...]] = []
        self._index: dict[tuple[Any, ...], int] = {}
        self.nullable: list[bool] = []
        self.minimum: list[int] = []
        self._substrings: dict[str, SuffixAutomaton] = {}
        self.work = 0
        self._intern((_CONSTANT, "nothing"), False, UNKNOWN)
        self._intern((_CONSTANT, "empty"), True, 0)
        self._intern((_CONSTANT, "everything"), True, 0)

    def _intern(self, key: tuple[Any, ...], nullable: bool, minimum: int) -> int:
        term = self._index.get(key)
        if term is None:
            term = len(self._keys)
            if term > _TERMS_PER_STATE * self._limits.states:
                raise LimitExceeded("states", self._limits.states, "a terminal")
            self._index[key] = term
            self._keys.append(key)
            self.nullable.append(nullable)
            self.minimum.append(minimum)
        return term

    def _literal(self, value: bytes, offset: int) -> int:
        rest = len(value) - offset
        if rest == 0:
            return EMPTY_STRING
        if offset and rest <= _SHARED_LITERAL:
            value, offset = value[offset:], 0
        return self._intern((LITERAL, value, offset), False, rest)

    def _character(self, node: Utf8Node) -> int:
        return self._intern((CHARACTER, node), False, _utf8_minimum(node)) if node else NULL

    def _substring(self, text: str, state: int, prefix: bytes) -> int:
        automaton = self._substrings.get(text)
        if automaton is None:
            self._spend(len(text))
            automaton = self._substrings[text] = SuffixAutomaton(text)
        if not automaton.next[state]:
            return EMPTY_STRING
        missing = _utf8_length(prefix[0]) - len(prefix) if prefix else 0
        return self._intern((SUBSTRING, text, state, prefix), not prefix, missing)

    def _multiples(self, node: Multiples, state: multiples.State) -> int:
        nullable = multiples.accepts(node, state)
        return self._intern((MULTIPLES, node, state), nullable, 0 if nullable else UNKNOWN)

    def _cat(self, head: int, tail: int) -> int:
        if NULL in (head, tail):
            return NULL
        if head == EMPTY_STRING:
            return tail
        if tail == EMPTY_STRING or (head == EVERYTHING and self.nullable[tail]):
            return head
        key = self._keys[head]
        if key[0] == ALT:
            return self._alt([self._cat(item, tail) for item in key[1]])
        nullable = self.nullable[head] and self.nullable[tail]
        minimum = UNKNOWN
        if UNKNOWN not in (self.minimum[head], self.minimum[tail]):
            minimum = self.minimum[head] + self.minimum[tail]
        return self._intern((CAT, head, tail), nullable, minimum)

    def _alt(self, items: Iterable[int]) -> int:
        found: set[int] = set()
        for item in items:
            self._spend(1)
            key = self._keys[item]
            if key[0] == ALT:
                found.update(key[1])
            elif item != NULL:
                found.add(item)
        if EVERYTHING in found:
            return EVERYTHING
        found = self._with_merged_repeats(found)
        if EMPTY_STRING in found and any(self.nullable[item] for item in found if item != EMPTY_STRING):
            found.discard(EMPTY_STRING)
        if len(found) < 2:
            return found.pop() if found else NULL
        minima = [self.minimum[item] for item in found]
        nullable = any(self.nullable[item] for item in found)
        minimum = 0 if nullable else UNKNOWN if UNKNOWN in minima else min(minima)
        return self._intern((ALT, tuple(sorted(found))), nullable, minimum)

    def _with_merged_repeats(self, items: set[int]) -> set[int]:
        """Join `r{2,5} x` and `r{3,6} x` to `r{2,6} x`: without it, counting makes sets of all counts."""
        groups: dict[tuple[int, int], list[tuple[int, int, int | None]]] = {}
        for item in items:
            key = self._keys[item]
            tail = EMPTY_STRING
            if key[0] == CAT:
                key, tail = self._keys[key[1]], key[2]
            if key[0] == REPEAT:
                groups.setdefault((key[1], tail), []).append((key[2], item, key[3]))
        for (item, tail), counts in groups.items():
            if len(counts) < 2:
                continue
            items = items - {member for _, member, _ in counts}
            counts.sort(key=lambda count: count[0])
            low, _, high = counts[0]
            for minimum, _, maximum in counts[1:]:
                if high is None or minimum <= high + 1:
                    high = None if high is None or maximum is None else max(high, maximum)
                else:
                    items.add(self._cat(self._repeat(item, low, high), tail))
                    low, high = minimum, maximum
            items.add(self._cat(self._repeat(item, low, high), tail))
        return items

    def _repeat(self, item: int, minimum: int, maximum: int | None) -> int:
        if item == NULL:
            return EMPTY_STRING if minimum == 0 else NULL
        if item == EMPTY_STRING or maximum == 0:
            return EMPTY_STRING
        if item == EVERYTHING:
            return EVERYTHING
        if self.nullable[item]:
            minimum = 0
        key = self._keys[item]
        if maximum is None and key[0] == REPEAT and key[2] <= 1:
            return self._repeat(key[1], minimum, None)
        if maximum == 1 and (minimum == 1 or self.nullable[item]):
            return item
        shortest = self.minimum[item]
        total = 0 if minimum == 0 else UNKNOWN if shortest == UNKNOWN else minimum * shortest
        return self._intern((REPEAT, item, minimum, maximum), minimum == 0, total)

    def _spend(self, steps: int) -> None:
        self.work += steps * _COST
        if self.work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "a terminal")

    def _check_states(self, count: int) -> None:
        self._spend(1)
        if count > self._limits.states:
            raise LimitExceeded("states", self._limits.states, "a terminal")


def _utf8_minimum(node: Utf8Node) -> int:
    return 1 + min(0 if target is None else _utf8_minimum(target) for _, _, target in node)


def _utf8_length(first_byte: int) -> int:
    """Return the length in bytes of a character that begins with this byte."""
    return 1 if first_byte < 0x80 else 2 if first_byte < 0xE0 else 3 if first_byte < 0xF0 else 4
