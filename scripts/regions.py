"""Draw regions with budgets of tokens at random, and judge whole texts by them.

The judge derives a text from the grammar with the tokens that it came in, and counts those that begin in each region.
It shares no code with the engines but the automata of terminals.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import replace
from typing import TypeAlias

from formatter_core.grammar import (
    Capture,
    Choice,
    Grammar,
    Members,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Terminal,
    Token,
    map_children,
    walk,
    write_out,
)
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.testing.automaton import Automaton
from formatter_core.testing.random_grammars import Case

__all__ = ["RegionJudge", "with_regions"]

_SHARE = 0.2
_REGION = ".region "

#: A byte, or a token that came by its id.
_Symbol: TypeAlias = "int | Token"


def with_regions(case: Case, budgets: Many[int]) -> Case:
    """Put random parts of a case in regions; those of a list of members stay as they are."""
    rng = random.Random(case.seed)
    place = rng.randrange(3)
    seen = itertools.count()

    def changed(node: Node) -> Node:
        below = node if isinstance(node, (Terminal, Members)) else map_children(node, changed)
        return Region(below, rng.choice(budgets)) if next(seen) == place or rng.random() < _SHARE else below

    in_members = {part.name for body in case.grammar.rules.values() for part in _below_members(body, case.grammar)}
    rules = {name: body if name in in_members else changed(body) for name, body in case.grammar.rules.items()}
    return replace(case, grammar=Grammar(rules, case.grammar.start))


def _below_members(body: Node, grammar: Grammar) -> Iterator[Reference]:
    """Yield the references in lists of members, and those of the rules that they lead to."""
    seen: set[str] = set()
    pending = [part for node in walk(body) if isinstance(node, Members) for part in walk(node)]
    while pending:
        node = pending.pop()
        if isinstance(node, Reference) and node.name not in seen:
            seen.add(node.name)
            yield node
            pending += walk(grammar.rules[node.name])


class RegionJudge:
    """Judge whether tokens that spell a whole text keep the budgets of a grammar's regions."""

    def __init__(self, case: Case) -> None:
        self._vocabulary = case.vocabulary
        marked = {name: _marked(body) for name, body in case.grammar.rules.items()}
        self._rules = write_out(marked)
        self._start = case.grammar.start
        self._named = case.grammar.check(DEFAULT_LIMITS).tokens
        self._automata: dict[Node, Automaton] = {}
        self._known: dict[tuple[int, ...], bool] = {}

    def accepts(self, token_ids: tuple[int, ...]) -> bool:
        """Tell whether some derivation of the text has no more tokens in any region than its budget."""
        if token_ids not in self._known:
            self._known[token_ids] = any(self._derives(*reading) for reading in self._readings(token_ids))
        return self._known[token_ids]

    def _readings(self, token_ids: tuple[int, ...]) -> Iterator[tuple[list[_Symbol], list[int]]]:
        """Yield the symbols of a text, and where tokens begin: a token may be meant by its id, or as text."""
        ways: list[list[list[_Symbol]]] = []
        for token_id in token_ids:
            by_id: list[_Symbol] = [Token(token_id)]
            by_text: list[_Symbol] = [*(self._vocabulary.text_token(token_id) or b"")]
            named = [by_id] if token_id in self._named else []
            ways.append([*named, by_text] if by_text else named)
        for chosen in itertools.product(*ways):
            starts = list(itertools.accumulate((len(part) for part in chosen), initial=0))[:-1]
            yield [symbol for part in chosen for symbol in part], starts

    def _derives(self, symbols: list[_Symbol], starts: list[int]) -> bool:
        counts = [sum(start < place for start in starts) for place in range(len(symbols) + 1)]
        tables: dict[tuple[str, int], frozenset[int]] = {}
        known: dict[tuple[int, int], frozenset[int]] = {}  # of one round; by identity

        def ends(node: Node, place: int) -> frozenset[int]:
            key = id(node), place
            if key not in known:
                known[key] = ends_of(node, place)
            return known[key]

        def ends_of(node: Node, place: int) -> frozenset[int]:
            if isinstance(node, Reference):
                return tables.setdefault((node.name, place), frozenset())
            if isinstance(node, Capture):
                found = ends(node.item, place)
                if node.name.startswith(_REGION):
                    most = int(node.name.removeprefix(_REGION))
                    found = frozenset(end for end in found if counts[end] - counts[place] <= most)
                return found
            if isinstance(node, Choice):
                return frozenset().union(*(ends(item, place) for item in node.items))
            if isinstance(node, Sequence):
                found = frozenset([place])
                for item in node.items:
                    found = frozenset().union(*(ends(item, start) for start in found))
                return found
            if isinstance(node, Repeat):
                return repeated(node, place)
            if isinstance(node, Token):
                return frozenset([place + 1] if symbols[place : place + 1] == [node] else [])
            return leaf(node, place)

        def repeated(node: Repeat, place: int) -> frozenset[int]:
            found, seen, rounds = frozenset([place]), set[frozenset[int]](), 0
            complete = found if node.minimum == 0 else frozenset[int]()
            while found and rounds != node.maximum and (rounds < node.minimum or found not in seen):
                seen.add(found)
                rounds += 1
                found = frozenset().union(*(ends(node.item, start) for start in found))
                if rounds >= node.minimum:
                    complete |= found
            return complete

        def leaf(node: Node, place: int) -> frozenset[int]:
            if node not in self._automata:
                self._automata[node] = Automaton(node)
            automaton = self._automata[node]
            state, found = automaton.start, set()
            for end in range(place, len(symbols) + 1):
                if automaton.accepting(state):
                    found.add(end)
                symbol = symbols[end] if end < len(symbols) else Token(0)
                if isinstance(symbol, Token):
                    break
                state = automaton.step(state, symbol)
            return frozenset(found)

        tables[self._start, 0] = frozenset()
        before = None
        while tables != before:
            before = dict(tables)
            known.clear()
            for name, place in before:
                tables[name, place] = ends(self._rules[name], place)
        return len(symbols) in tables[self._start, 0]


def _marked(node: Node) -> Node:
    """Replace regions by captures, which stay when lists of members are written out."""
    if isinstance(node, Terminal):
        return node
    below = map_children(node, _marked)
    return Capture(f"{_REGION}{below.max_tokens}", below.item) if isinstance(below, Region) else below
