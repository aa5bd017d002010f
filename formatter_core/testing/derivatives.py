"""Regular expressions over bytes as hash-consed terms, and their derivatives.

The derivative of a language by a byte is what may follow that byte (Brzozowski 1964).

Invariant: every term except `NULL` has a non-empty language. It holds by construction for all kinds but intersection
and complement, where it is decided by search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Multiples,
    Node,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
)
from formatter_core.grammar.json_text import spelled
from formatter_core.grammar.utf8 import utf8_node
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.testing import multiples
from formatter_core.testing.terms import (
    ALT,
    AND,
    CAT,
    CHARACTER,
    EMPTY_STRING,
    EVERYTHING,
    LITERAL,
    MULTIPLES,
    NOT,
    NULL,
    REPEAT,
    SHORTEST,
    SUBSTRING,
    UNKNOWN,
    TermTable,
)

__all__ = ["Moves", "Terms"]

# Disjoint, sorted byte ranges with the derivative by each of their bytes; NULL ones are left out.
Moves: TypeAlias = list[tuple[int, int, int]]

Place = TypeVar("Place")


class Terms(TermTable):
    """A table of terms with all operations, and their derivatives."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._moves: dict[int, Moves] = {}
        self._live_products: dict[tuple[int, ...], bool] = {}
        self._live_complements: dict[int, bool] = {}

    def build(self, node: Node, depth: int = 1) -> int:
        """Return the term of a regular node."""
        if depth > self._limits.depth:
            raise LimitExceeded("depth", self._limits.depth, "a terminal")
        self._spend(1)
        if isinstance(node, Bytes):
            return self._literal(node.value, 0)
        if isinstance(node, Chars):
            return self._character(utf8_node(node.ranges))
        if isinstance(node, Substring):
            return self._substring(node.text, 0, b"")
        if isinstance(node, JsonText):
            return self.build(spelled(node), depth)
        if isinstance(node, Multiples):
            return self._multiples(node, multiples.start(node))
        if isinstance(node, Sequence):
            result = EMPTY_STRING
            for item in reversed(node.items):
                result = self._cat(self.build(item, depth + 1), result)
            return result
        if isinstance(node, Choice):
            return self._alt(self.build(item, depth + 1) for item in node.items)
        if isinstance(node, Repeat):
            return self._repeat(self.build(node.item, depth + 1), node.minimum, node.maximum)
        if isinstance(node, Intersection):
            return self._and([self.build(item, depth + 1) for item in node.items])
        if isinstance(node, Complement):
            return self._not(self.build(node.item, depth + 1))
        if isinstance(node, Shortest):
            return self._shortest(self.build(node.item, depth + 1))
        if isinstance(node, Terminal):
            return self.build(node.item, depth + 1)
        raise InvalidGrammar(f"a {type(node).__name__} stands inside a terminal; terminals are regular")

    def moves(self, term: int) -> Moves:
        """Return the derivatives of `term` by every byte."""
        known = self._moves.get(term)
        if known is None:
            give_way()
            known = self._moves[term] = self._make_moves(term)
            self._spend(len(known) + 1)
        return known

    # --- derivatives -------------------------------------------------------------------------------------------

    def _make_moves(self, term: int) -> Moves:
        key = self._keys[term]
        kind = key[0]
        if kind == LITERAL:
            byte = key[1][key[2]]
            return [(byte, byte, self._literal(key[1], key[2] + 1))]
        if kind == CHARACTER:
            return [
                (low, high, EMPTY_STRING if target is None else self._character(target)) for low, high, target in key[1]
            ]
        if kind == CAT:
            return self._cat_moves(term)
        if kind == ALT:
            return self._union([self.moves(item) for item in key[1]])
        if kind == REPEAT:
            _, item, minimum, maximum = key
            rest = self._repeat(item, max(0, minimum - 1), None if maximum is None else maximum - 1)
            return [(low, high, self._cat(target, rest)) for low, high, target in self.moves(item)]
        if kind == AND:
            return self._product(key[1])
        if kind == NOT:
            return self._complement_moves(key[1])
        if kind == SHORTEST:
            return [
                (low, high, EMPTY_STRING if self.nullable[target] else self._shortest(target))
                for low, high, target in self.moves(key[1])
            ]
        if kind == SUBSTRING:
            return self._substring_moves(key[1], key[2], key[3])
        if kind == MULTIPLES:
            found = multiples.moves(key[1], key[2])
            return _joined([(byte, byte, self._multiples(key[1], state)) for byte, state in found])
        return [(0, 255, EVERYTHING)] if term == EVERYTHING else []

    def _cat_moves(self, term: int) -> Moves:
        parts: list[Moves] = []
        # A loop, not recursion: a sequence may have very many items.
        while self._keys[term][0] == CAT:
            _, head, tail = self._keys[term]
            parts.append([(low, high, self._cat(target, tail)) for low, high, target in self.moves(head)])
            if not self.nullable[head]:
                return self._union(parts)
            term = tail
        parts.append(self.moves(term))
        return self._union(parts)

    def _union(self, parts: list[Moves]) -> Moves:
        if len(parts) == 1:
            return parts[0]
        return _joined([(low, high, self._alt(targets)) for low, high, targets in self._segments(parts)])

    def _product(self, items: tuple[int, ...]) -> Moves:
        segments = self._segments([self.moves(item) for item in items])
        made = ((low, high, self._and(targets)) for low, high, targets in segments if len(targets) == len(items))
        return _joined([move for move in made if move[2] != NULL])

    def _complement_moves(self, item: int) -> Moves:
        result: Moves = []
        position = 0
        for low, high, target in self.moves(item):
            if position < low:
                result.append((position, low - 1, EVERYTHING))
            result.append((low, high, self._not(target)))
            position = high + 1
        if position <= 255:
            result.append((position, 255, EVERYTHING))
        return _joined([move for move in result if move[2] != NULL])

    def _segments(self, parts: list[Moves]) -> list[tuple[int, int, list[int]]]:
        """Return the byte ranges on which no part changes its target, with the targets there."""
        cuts = sorted({cut for part in parts for low, high, _ in part for cut in (low, high + 1)})
        index = {cut: number for number, cut in enumerate(cuts)}
        targets: list[list[int]] = [[] for _ in cuts]
        for part in parts:
            for low, high, target in part:
                first, last = index[low], index[high + 1]
                self._spend(last - first)
                for number in range(first, last):
                    targets[number].append(target)
        return [(cuts[number], cuts[number + 1] - 1, found) for number, found in enumerate(targets) if found]

    def _substring_moves(self, text: str, state: int, prefix: bytes) -> Moves:
        automaton = self._substrings[text]
        targets: dict[int, int] = {}
        for character, target in automaton.next[state].items():
            self._spend(1)
            encoded = character.encode()
            if not encoded.startswith(prefix):
                continue
            done = len(encoded) == len(prefix) + 1
            targets[encoded[len(prefix)]] = (
                self._substring(text, target, b"") if done else self._substring(text, state, encoded[: len(prefix) + 1])
            )
        return _joined([(byte, byte, target) for byte, target in sorted(targets.items())])

    def _shortest(self, item: int) -> int:
        # All targets are live, so any move leads to a non-empty string.
        if item == NULL or not self.moves(item):
            return NULL
        if self._keys[item][0] in (LITERAL, CHARACTER, SHORTEST):
            return item
        minimum = UNKNOWN if self.nullable[item] else self.minimum[item]
        return self._intern((SHORTEST, item), False, minimum)

    def _and(self, items: Iterable[int]) -> int:
        normal = self._and_items(items)
        if normal is None:
            return NULL
        if len(normal) < 2:
            return normal[0] if normal else EVERYTHING
        if not self._is_live_product(normal):
            return NULL
        nullable = all(self.nullable[item] for item in normal)
        return self._intern((AND, normal), nullable, 0 if nullable else UNKNOWN)

    def _and_items(self, items: Iterable[int]) -> tuple[int, ...] | None:
        """Return the factors of an intersection in normal form; None if it is obviously empty."""
        found: set[int] = set()
        for item in items:
            key = self._keys[item]
            if key[0] == AND:
                found.update(key[1])
            elif item == NULL:
                return None
            elif item != EVERYTHING:
                found.add(item)
        if EMPTY_STRING in found:
            return (EMPTY_STRING,) if all(self.nullable[item] for item in found) else None
        if any(self._keys[item][0] == NOT and self._keys[item][1] in found for item in found):
            return None
        return tuple(sorted(found))

    def _is_live_product(self, start: tuple[int, ...]) -> bool:
        """Tell whether one string is in all factors: whether a product that accepts is reachable."""

        def accepts(items: tuple[int, ...]) -> bool:
            return len(items) < 2 or all(self.nullable[item] for item in items)

        def following(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            for _, _, targets in self._segments([self.moves(item) for item in items]):
                product = self._and_items(targets) if len(targets) == len(items) else None
                if product is not None:
                    yield product

        return self._reaches(start, accepts, following, self._live_products)

    def _not(self, item: int) -> int:
        if item == NULL:
            return EVERYTHING
        if item == EVERYTHING:
            return NULL
        key = self._keys[item]
        if key[0] == NOT:
            return int(key[1])
        if not self._is_live_complement(item):
            return NULL
        nullable = not self.nullable[item]
        return self._intern((NOT, item), nullable, 0 if nullable else UNKNOWN)

    def _is_live_complement(self, start: int) -> bool:
        """Tell whether some string is not in the term: whether a derivative that rejects is reachable."""

        def rejects(item: int) -> bool:
            covered = sum(high - low + 1 for low, high, _ in self.moves(item))
            return not self.nullable[item] or covered < 256

        def following(item: int) -> Iterator[int]:
            return (target for _, _, target in self.moves(item))

        return self._reaches(start, rejects, following, self._live_complements)

    def _reaches(
        self,
        start: Place,
        is_goal: Callable[[Place], bool],
        following: Callable[[Place], Iterable[Place]],
        known: dict[Place, bool],
    ) -> bool:
        """Tell whether a goal is reachable from `start`; results found on the way are kept in `known`."""
        parents: dict[Place, Place | None] = {start: None}
        queue = deque([start])
        while queue:
            current = queue.popleft()
            if known.get(current) or is_goal(current):
                step: Place | None = current
                while step is not None:
                    known[step] = True
                    step = parents[step]
                return True
            for target in following(current):
                if target not in parents and known.get(target) is not False:
                    parents[target] = current
                    queue.append(target)
                    self._check_states(len(parents))
        known.update(dict.fromkeys(parents, False))
        return False


def _joined(moves: Moves) -> Moves:
    """Merge neighbouring ranges that have one target."""
    result: Moves = []
    for low, high, target in moves:
        if result and result[-1][1] == low - 1 and result[-1][2] == target:
            result[-1] = (result[-1][0], high, target)
        else:
            result.append((low, high, target))
    return result
