"""The cheapest derivation of every rule; what has none derives nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    Bytes,
    Capture,
    Chars,
    Choice,
    Grammar,
    JsonText,
    Node,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    Token,
    write_out,
)
from formatter_core.grammar.automaton import Automaton
from formatter_core.grammar.json_text import shortest_spelling
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.shortest_values import without_distinct

__all__ = ["EMPTY_LANGUAGE", "min_bytes", "minimum_costs"]

EMPTY_LANGUAGE = "the grammar derives no text at all; give its start rule an alternative that ends"


def min_bytes(grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> int:
    """The length in bytes of the shortest completion; a `Token` counts no bytes.

    Raises:
        InvalidGrammar: the language is empty.
        LimitExceeded: a terminal is past a limit.
    """
    known: dict[Node, int | None] = {}

    def cost(leaf: Node) -> int | None:
        if isinstance(leaf, Token):
            return 0
        if leaf not in known:
            known[leaf] = _plain_minimum(leaf)
            if known[leaf] is None:
                automaton = Automaton(leaf, limits)
                known[leaf] = None if automaton.is_empty() else automaton.shortest(automaton.start)
        return known[leaf]

    grammar = grammar.lowered
    rules = {name: without_distinct(body, limits) for name, body in grammar.rules.items()}
    costs = minimum_costs(write_out(rules, in_any_order=False), cost)
    if grammar.start not in costs:
        raise InvalidGrammar(EMPTY_LANGUAGE)
    return costs[grammar.start]


def _plain_minimum(node: Node) -> int | None:
    """The length in bytes of the shortest text, where no automaton is needed to tell; else None."""
    if isinstance(node, Bytes):
        return len(node.value)
    if isinstance(node, JsonText):
        return shortest_spelling(node.text)
    if isinstance(node, Chars):
        return len(chr(node.ranges[0][0]).encode()) if node.ranges else None
    if isinstance(node, (Terminal, Capture)):
        return _plain_minimum(node.item)
    if isinstance(node, Repeat):
        item = _plain_minimum(node.item) if node.minimum else 0
        return None if item is None else item * node.minimum
    if not isinstance(node, (Sequence, Choice)):
        return None
    items = [_plain_minimum(item) for item in node.items]
    found = [item for item in items if item is not None]
    if len(found) < len(items) or not (found or isinstance(node, Sequence)):
        return None
    return sum(found) if isinstance(node, Sequence) else min(found)


def minimum_costs(rules: Mapping[str, Node], leaf_cost: Callable[[Node], int | None]) -> dict[str, int]:
    """The least total cost of the leaves of any derivation, by rule; rules without a finite derivation are left out.

    `leaf_cost` is the cost of one leaf (`Terminal`, `Bytes`, `Chars`, `Substring`, `Token`), None where it derives
    nothing. The method is Knuth's ("A generalization of Dijkstra's algorithm", 1977): least costs become final in
    increasing order, so each node is visited once.
    """
    solver = _Solver(leaf_cost)
    for name, body in rules.items():
        solver.add_rule(name, body)
    return solver.solve()


class _Solver:
    def __init__(self, leaf_cost: Callable[[Node], int | None]) -> None:
        self._leaf_cost = leaf_cost
        self._nodes: list[Node] = []
        self._parents: list[int | None] = []
        self._missing: list[int] = []
        self._sums: list[int] = []
        self._rule_of: dict[int, str] = {}
        self._uses: dict[str, list[int]] = {}
        self._heap: list[tuple[int, int]] = []

    def add_rule(self, name: str, body: Node) -> None:
        self._rule_of[len(self._nodes)] = name
        stack: list[tuple[Node, int | None]] = [(body, None)]
        while stack:
            node, parent = stack.pop()
            index = len(self._nodes)
            self._nodes.append(node)
            self._parents.append(parent)
            self._missing.append(len(node.items) if isinstance(node, Sequence) else 1)
            self._sums.append(0)
            if isinstance(node, (Sequence, Choice)):
                stack.extend((item, index) for item in node.items)
                if isinstance(node, Sequence) and not node.items:
                    heapq.heappush(self._heap, (0, index))
            elif isinstance(node, Repeat):
                if node.minimum == 0:
                    heapq.heappush(self._heap, (0, index))
                stack.append((node.item, index))
            elif isinstance(node, Capture):
                stack.append((node.item, index))
            elif isinstance(node, Reference):
                self._uses.setdefault(node.name, []).append(index)
            else:
                cost = self._leaf_cost(node)
                if cost is not None:
                    heapq.heappush(self._heap, (cost, index))

    def solve(self) -> dict[str, int]:
        result: dict[str, int] = {}
        final = [False] * len(self._nodes)
        while self._heap:
            cost, index = heapq.heappop(self._heap)
            if final[index]:
                continue
            final[index] = True
            parent = self._parents[index]
            if parent is not None:
                self._tell(parent, cost)
                continue
            name = self._rule_of[index]
            result[name] = cost
            for use in self._uses.get(name, ()):
                heapq.heappush(self._heap, (cost, use))
        return result

    def _tell(self, parent: int, cost: int) -> None:
        """One child of `parent` has its final cost."""
        node = self._nodes[parent]
        if isinstance(node, Repeat):
            cost *= node.minimum
        if isinstance(node, Sequence):
            self._sums[parent] += cost
            self._missing[parent] -= 1
            if self._missing[parent]:
                return
            cost = self._sums[parent]
        heapq.heappush(self._heap, (cost, parent))
