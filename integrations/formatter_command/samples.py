"""Random texts of a format, made from its grammar from the top down, without a model or a grammar engine."""

from __future__ import annotations

import random

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    Bytes,
    Capture,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Substring,
    Token,
    write_out,
)
from formatter_core.grammar.automaton import Automaton
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.shortest import EMPTY_LANGUAGE

__all__ = ["TextSampler"]

#: What one step down the grammar costs beside the bytes, so that the cheapest way never goes round in a circle.
_STEP = 1
_NEVER = 1 << 60
#: How often a repeat continues where it may end, and a terminal's text before it takes the nearest way to its end.
_GO_ON = 0.7
_NEXT_BYTE = 0.9
#: How often a terminal takes a letter, a digit or a space where it may.
_PLAIN = 0.9
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")


class TextSampler:
    """Random texts of a grammar: every text has a chance, short ones of plain letters a better one.

    Args:
        grammar: without special tokens; a `Token` is spelt by nothing.
        room: about how many bytes to write; past them, the shortest way to the end is taken.
        seed: equal seeds give equal texts.

    Raises:
        InvalidGrammar: the grammar derives no text.
        LimitExceeded: it is past a limit.
    """

    def __init__(self, grammar: Grammar, *, room: int = 200, seed: int = 0, limits: Limits = DEFAULT_LIMITS) -> None:
        grammar.check(limits)
        self._rules = write_out(grammar.rules)
        self._start = grammar.start
        self._room = room
        self._limits = limits
        self._random = random.Random(seed)  # noqa: S311 (no secrets are made)
        self._automata: dict[Node, Automaton] = {}
        self._rule_costs = dict.fromkeys(self._rules, _NEVER)
        self._costs: dict[int, int] = {}
        while self._improved():
            self._costs.clear()
        if self._rule_costs[grammar.start] >= _NEVER:
            raise InvalidGrammar(EMPTY_LANGUAGE)

    def text(self) -> bytes:
        """Another text."""
        parts: list[bytes] = []
        length = 0
        stack: list[Node] = [Reference(self._start)]
        waiting = self._cost(stack[0])  # the least that all of the stack costs
        while stack:
            node = stack.pop()
            waiting -= self._cost(node)
            room = self._room - length - waiting
            following: list[Node] = []
            if isinstance(node, Reference):
                following = [self._rules[node.name]]
            elif isinstance(node, Capture):
                following = [node.item]
            elif isinstance(node, Sequence):
                following = list(reversed(node.items))
            elif isinstance(node, Choice):
                following = [self._option(node, room)]
            elif isinstance(node, Repeat):
                following = [node.item] * self._count(node, room)
            else:
                parts.append(self._leaf(node, room))
                length += len(parts[-1])
            stack += following
            waiting += sum(map(self._cost, following))
        return b"".join(parts)

    # --- the least that a node costs ----------------------------------------------------------------------------

    def _improved(self) -> bool:
        """One round of finding what each rule costs at least; whether that changed anything."""
        has_changed = False
        for name, body in self._rules.items():
            cost = self._cost(body)
            if cost < self._rule_costs[name]:
                self._rule_costs[name] = cost
                has_changed = True
        return has_changed

    def _cost(self, node: Node) -> int:
        found = self._costs.get(id(node))
        if found is None:
            found = min(_NEVER, self._cost_of(node))
            # A reference made here has an identity of its own, which another object may get later.
            if not isinstance(node, Reference):
                self._costs[id(node)] = found
        return found

    def _cost_of(self, node: Node) -> int:
        if isinstance(node, Reference):
            return self._rule_costs[node.name] + _STEP
        if isinstance(node, Capture):
            return self._cost(node.item)
        if isinstance(node, Sequence):
            return sum(map(self._cost, node.items))
        if isinstance(node, Choice):
            return min(map(self._cost, node.items), default=_NEVER)
        if isinstance(node, Repeat):
            return node.minimum * self._cost(node.item) if node.minimum else 0
        if isinstance(node, Bytes):
            return len(node.value)
        if isinstance(node, (Token, Substring)):
            return 0
        automaton = self._automaton(node)
        return _NEVER if automaton.is_empty() else automaton.shortest(automaton.start)

    def _automaton(self, node: Node) -> Automaton:
        if node not in self._automata:
            self._automata[node] = Automaton(node, self._limits)
        return self._automata[node]

    # --- choices ------------------------------------------------------------------------------------------------

    def _option(self, node: Choice, room: int) -> Node:
        costs = [self._cost(item) for item in node.items]
        fitting = [item for item, cost in zip(node.items, costs, strict=True) if cost <= room]
        return self._random.choice(fitting) if fitting else node.items[costs.index(min(costs))]

    def _count(self, node: Repeat, room: int) -> int:
        cost, count = self._cost(node.item) + _STEP, node.minimum
        most = room // cost if node.maximum is None else min(node.maximum, room // cost)
        while count < most and self._random.random() < _GO_ON:
            count += 1
        return count

    def _leaf(self, node: Node, room: int) -> bytes:
        if isinstance(node, Bytes):
            return node.value
        if isinstance(node, Token):
            return b""
        if isinstance(node, Substring):
            low = self._random.randint(0, len(node.text))
            return node.text[low : low + self._random.randint(0, max(0, min(room, 40)))].encode()
        automaton = self._automaton(node)
        state, text, is_ending = automaton.start, bytearray(), False
        while moves := automaton.transitions(state):
            is_ending = is_ending or len(text) >= room or self._random.random() > _NEXT_BYTE
            if is_ending:
                if automaton.accepting(state):
                    break
                distances = [automaton.shortest(target) for _, target in moves]
                moves = [move for move, far in zip(moves, distances, strict=True) if far == min(distances)]
            byte = self._byte([byte for ranges, _ in moves for low, high in ranges for byte in range(low, high + 1)])
            state = automaton.step(state, byte)
            text.append(byte)
        return bytes(text)

    def _byte(self, allowed: list[int]) -> int:
        plain = [byte for byte in allowed if byte in _LETTERS]
        return self._random.choice(plain if plain and self._random.random() < _PLAIN else allowed)
