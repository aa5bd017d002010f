"""The deterministic automaton of one terminal, over bytes, built as far as it is used.

States are derivatives of the terminal's term (Brzozowski 1964; Owens, Reppy & Turon 2009).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node
from formatter_core.grammar.utf8 import ByteRange
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.forking import TABLES
from formatter_core.testing.derivatives import Terms
from formatter_core.testing.terms import NULL

__all__ = ["DEAD", "Automaton", "ByteRanges"]

DEAD = 0

ByteRanges: TypeAlias = tuple[ByteRange, ...]


class Automaton:
    """A lazily built byte automaton of one regular node; it may be shared by threads.

    States are small integers. State 0 (`DEAD`) accepts nothing; from every other state some string is accepted,
    which is decided exactly, also under `Intersection` and `Complement`.

    Args:
        node: any node that may be in a `Terminal`, or a `Terminal`.
        limits: `states` bounds the states built and those looked through to decide emptiness, `work` the steps of
            building all of them, `depth` the nesting of the node.

    Raises:
        LimitExceeded: the node exceeds a limit. Also raised later, by the call that builds one state too many.
    """

    start: int

    def __init__(self, node: Node, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._terms = Terms(limits)
        self._states: list[int] = []
        self._numbers: dict[int, int] = {}
        self._accepting: list[bool] = []
        self._rows: list[array[int] | None] = []
        self._number(NULL)
        self.start = self._number(self._terms.build(node))

    def step(self, state: int, byte: int) -> int:
        """Return the state after one more byte."""
        row = self._rows[state]
        if row is None:
            row = self._expand(state)
        return row[byte]

    def accepting(self, state: int) -> bool:
        """Tell whether the state is accepting."""
        return self._accepting[state]

    def transitions(self, state: int) -> list[tuple[ByteRanges, int]]:
        """Return the transitions out of `state` to live states: sorted, inclusive byte ranges and their target."""
        row = self._rows[state]
        if row is None:
            row = self._expand(state)
        ranges: dict[int, list[ByteRange]] = {}
        low = 0
        for byte in range(256):
            if byte == 255 or row[byte + 1] != row[byte]:
                if row[byte] != DEAD:
                    ranges.setdefault(row[byte], []).append((low, byte))
                low = byte + 1
        return [(tuple(found), target) for target, found in ranges.items()]

    def run(self, data: bytes, state: int | None = None) -> int:
        """Return the state after `data`, from `state` or the start."""
        current = self.start if state is None else state
        for byte in data:
            current = self.step(current, byte)
            if current == DEAD:
                break
        return current

    def is_empty(self) -> bool:
        """Tell whether the language is empty."""
        return self.start == DEAD

    def matches(self, data: bytes) -> bool:
        """Tell whether the automaton accepts `data` as a whole."""
        return self._accepting[self.run(data)]

    def texts(self) -> Iterator[bytes]:
        """Yield the accepted strings, the shortest first; there may be infinitely many."""
        pending = deque([(self.start, b"")] if self.start != DEAD else [])
        while pending:
            state, text = pending.popleft()
            if self._accepting[state]:
                yield text
            for ranges, target in self.transitions(state):
                pending += ((target, text + bytes([byte])) for low, high in ranges for byte in range(low, high + 1))

    def shortest_texts(self) -> Iterator[bytes]:
        """Return the shortest accepted strings, in byte order."""
        length = self.shortest(self.start)
        layers = [{self.start}]
        for left in reversed(range(length)):
            near = (to for state in layers[-1] for _, to in self.transitions(state))
            layers.append({to for to in near if self._terms.minimum[self._states[to]] <= left})
        ending = [{state for state in layers[-1] if self._accepting[state]}]
        for layer in layers[-2::-1]:
            ending.append({state for state in layer if any(to in ending[-1] for _, to in self.transitions(state))})
        pending = [(self.start, b"")]
        while pending:
            state, text = pending.pop()
            left = length - len(text)
            if not left:
                yield text
                continue
            steps = [step for step in self.transitions(state) if step[1] in ending[left - 1]]
            ways = sorted((byte, to) for ranges, to in steps for low, high in ranges for byte in range(low, high + 1))
            pending += ((to, text + bytes([byte])) for byte, to in reversed(ways))

    def explore(self, maximum: int) -> int:
        """Build every reachable state and return their number, `DEAD` included: all states are below it.

        Raises:
            LimitExceeded: there are more than `maximum` (`states`), or building them is too much (`work`).
        """
        state = 0
        while state < len(self._states):
            if len(self._states) > maximum:
                raise LimitExceeded("states", maximum, "a terminal")
            if self._rows[state] is None:
                self._expand(state)
            state += 1
        return len(self._states)

    def shortest(self, state: int) -> int:
        """Return the length in bytes of the shortest string accepted from `state`, which must be live."""
        best: int | None = None
        distances = {state: 0}
        queue = deque([state])
        while queue:
            current = queue.popleft()
            distance = distances[current]
            if best is not None and distance >= best:
                break
            known = self._terms.minimum[self._states[current]]
            if known >= 0:
                best = distance + known if best is None else min(best, distance + known)
                continue
            for _, target in self.transitions(current):
                if target not in distances:
                    distances[target] = distance + 1
                    queue.append(target)
        if best is None:
            raise ValueError("no string is accepted from a dead state")
        return best

    def _number(self, term: int) -> int:
        state = self._numbers.get(term)
        if state is None:
            state = len(self._states)
            if state > self._limits.states:
                raise LimitExceeded("states", self._limits.states, "a terminal")
            self._states.append(term)
            self._accepting.append(self._terms.nullable[term])
            self._rows.append(None)
            self._numbers[term] = state
        return state

    def _expand(self, state: int) -> array[int]:
        """Fill the row of a state; readers without the lock see a row only when it is whole."""
        with TABLES:
            row = self._rows[state]
            if row is None:
                row = array("i", bytes(4 * 256))
                for low, high, term in self._terms.moves(self._states[state]):
                    target = self._number(term)
                    for byte in range(low, high + 1):
                        row[byte] = target
                self._rows[state] = row
            return row
