"""A plain Earley recognizer over bytes: slow, small, and the judge of every grammar engine.

Earley (1970), with automata for terminals, and with nullable symbols stepped over where they are predicted (Aycock &
Horspool 2002). Rules that derive nothing are left out
beforehand and automata have no dead ends, so every text that is not refused begins some completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.grammar.automaton import DEAD, Automaton
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.expectation import LITERAL_SHOWN, Expected, place, what_follows
from formatter_core.parsing.parts import Part
from formatter_core.parsing.remainders import Item, Symbol, Tables, tables_of

__all__ = ["Recognizer", "Starts", "StateSet"]

# One step here takes a few microseconds, a step of `Limits.work` well under one.
_COST = 10
_PLACES_SEARCHED = 100


# Positions, as a tree that two others are joined to at no cost.
Starts: TypeAlias = "int | tuple[Starts, Starts]"


class Running(NamedTuple):
    """A terminal under way, with the item that continues after it.

    Where it began does not matter to what may follow: two that agree in all the rest are one, with both `starts`.
    """

    symbol: Symbol
    automaton: Automaton
    state: int
    item: Item
    origin: int
    captures: tuple[str, ...]
    starts: Starts


class StateSet:
    """What is possible at one position; it does not change once it is made.

    Attributes:
        running: terminals under way.
        ended: the terminals that may end here, each with its beginnings.
        waiting: by rule or token predicted here, the items that continue after it: item, its origin, captures open
            meanwhile.
        completed: the rules that end here, each with its beginning; those that begin here as well are left out.
    """

    __slots__ = ("completed", "ended", "running", "waiting")

    def __init__(self) -> None:
        self.running: list[Running] = []
        self.ended: list[tuple[Symbol, Starts]] = []
        self.waiting: dict[Symbol, list[tuple[Item, int, tuple[str, ...]]]] = {}
        self.completed: set[tuple[Symbol, int]] = set()


class Recognizer:
    """Which bytes and tokens may follow a text, and whether it may end.

    A step is one byte or one token. Left recursion costs the same at every step; right recursion costs more with
    every level that is open.

    Raises:
        InvalidGrammar: the grammar derives no text at all.
        LimitExceeded: the grammar is past a limit; `push` raises it too, for a step of more than `Limits.work`,
            and changes nothing then.
    """

    def __init__(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self.tables: Tables = tables_of(grammar, limits)
        self.sets: list[StateSet] = []
        first = StateSet()
        self._work = 0
        first.waiting[self.tables.start] = []
        self._predict(first, 0, [self.tables.start])
        self.sets.append(first)

    @property
    def length(self) -> int:
        """The number of steps pushed."""
        return len(self.sets) - 1

    def copy(self) -> Recognizer:
        """An independent recognizer with the same history."""
        other = object.__new__(Recognizer)
        other._limits = self._limits
        other.tables = self.tables
        other.sets = list(self.sets)
        other._work = 0
        return other

    def push(self, byte: int) -> bool:
        """Append a byte; False, with nothing changed, if no completion continues with it."""
        following = StateSet()
        running: dict[tuple[Symbol, int, Item, int], Running] = {}
        for symbol, automaton, state, item, origin, captures, starts in self.sets[-1].running:
            state = automaton.step(state, byte)
            if state != DEAD:
                key = (symbol, state, item, origin)
                same = running.get(key)
                both = starts if same is None else (same.starts, starts)
                running[key] = Running(symbol, automaton, state, item, origin, captures, both)
        if not running:
            return False
        following.running.extend(running.values())
        ended = [way for way in following.running if way.automaton.accepting(way.state)]
        following.ended.extend((way.symbol, way.starts) for way in ended)
        self._append(following, [(way.item, way.origin) for way in ended])
        return True

    def push_token(self, token_id: int) -> bool:
        """Append a token that the grammar names by its id; False, with nothing changed, if it may not stand here."""
        ended = [
            (item, origin)
            for symbol, waiting in self.sets[-1].waiting.items()
            if symbol.token_id == token_id
            for item, origin, _ in waiting
        ]
        if not ended:
            return False
        self._append(StateSet(), ended)
        return True

    def append(self, parts: Sequence[Part]) -> bool:
        """Append bytes and the ids of tokens, up to a step that no completion continues with; False if there is one."""
        return all(self.push_token(part) if isinstance(part, int) else all(map(self.push, part)) for part in parts)

    def pop(self, steps: int) -> None:
        """Undo the last `steps` steps."""
        if not 0 <= steps <= self.length:
            raise ValueError(f"cannot undo {steps} of {self.length} steps")
        del self.sets[len(self.sets) - steps :]

    def can_stop(self) -> bool:
        """Whether the text is a completion."""
        start = self.tables.start
        return (start, 0) in self.sets[-1].completed if self.length else start.nullable

    def next_bytes(self) -> list[int]:
        """The bytes that may come next, sorted."""
        found: set[int] = set()
        for running in self.sets[-1].running:
            for ranges, _ in running.automaton.transitions(running.state):
                for low, high in ranges:
                    found.update(range(low, high + 1))
        return sorted(found)

    def next_tokens(self) -> list[int]:
        """The ids of the tokens that the grammar names and that may come next, sorted."""
        return sorted(symbol.token_id for symbol in self.sets[-1].waiting if symbol.token_id is not None)

    def forced_bytes(self, limit: int) -> bytes:
        """The longest byte string that begins every completion of the rest, cut at `limit`; empty if `can_stop()`."""
        result = bytearray()
        while len(result) < limit and not self.can_stop() and not self.next_tokens():
            following = self.next_bytes()
            if len(following) != 1:
                break
            self.push(following[0])
            result.append(following[0])
        self.pop(len(result))
        return bytes(result)

    def expected(self) -> list[Expected]:
        """For people: what may come next, each with the capture or the rule that it stands in."""
        found: dict[Expected, None] = {}
        here = self.sets[-1]
        for _, automaton, state, item, origin, captures, _ in here.running:
            for what in what_follows(*_ahead(automaton, state)):
                found[Expected(what, self._place(item, origin, captures))] = None
        for symbol, waiting in here.waiting.items():
            if symbol.token_id is not None:
                found[Expected(f"the token {symbol.token_id}", self._place(*waiting[0]))] = None
        if self.can_stop():
            found[Expected("the end", "")] = None
        return list(found)

    def rules(self) -> set[str]:
        """The rules in which something may come next."""
        return {each.item.rule.name for each in self.sets[-1].running}

    # --- one position ------------------------------------------------------------------------------------------

    def _append(self, following: StateSet, ended: list[tuple[Item, int]]) -> None:
        self._work = 0
        if ended:
            self._complete(following, len(self.sets), ended)
        self.sets.append(following)

    def _complete(self, here: StateSet, position: int, reached: list[tuple[Item, int]]) -> None:
        """Take up the items that are reached here, and those that waited for a rule that ends here, until all are."""
        seen: set[tuple[Item, int]] = set()
        while reached:
            item, origin = place = reached.pop()
            self._spend(1)
            if place in seen:
                continue
            seen.add(place)
            if item.complete and (item.rule, origin) not in here.completed:
                here.completed.add((item.rule, origin))
                reached.extend((after, start) for after, start, _ in self.sets[origin].waiting[item.rule])
            self._predict(here, position, self._wait(here, position, item, origin))

    def _predict(self, here: StateSet, position: int, rules: list[Symbol]) -> None:
        """Begin rules here, and those that they begin with; nullable ones were stepped over already."""
        while rules:
            body = rules.pop().body
            if body is not None:
                rules += self._wait(here, position, body, position)

    def _wait(self, here: StateSet, position: int, item: Item, origin: int) -> list[Symbol]:
        """Let `item` wait for each of its heads; what nothing waited for before is returned."""
        heads = self.tables.heads(item)
        self._spend(len(heads) + 1)
        new: list[Symbol] = []
        for symbol, after, captures in heads:
            if symbol.automaton is not None:
                start = symbol.automaton.start
                here.running.append(Running(symbol, symbol.automaton, start, after, origin, captures, position))
                continue
            waiting = here.waiting.get(symbol)
            if waiting is None:
                here.waiting[symbol] = waiting = []
                new.append(symbol)
            waiting.append((after, origin, captures))
        return new

    def _spend(self, steps: int) -> None:
        self._work += steps * _COST
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "one step of the parser")

    # --- for people --------------------------------------------------------------------------------------------

    def _place(self, item: Item, origin: int, captures: tuple[str, ...]) -> str:
        around = chain.from_iterable(self._captures_around(item, origin, captures))
        return place(around, item.rule.name, is_start=item.rule is self.tables.start)

    def _captures_around(self, item: Item, origin: int, captures: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The captures open in a rule and in those around it, outwards along one derivation at a time."""
        stack = [(item.rule, origin, captures)]
        seen: set[tuple[Symbol, int]] = set()
        while stack and len(seen) < _PLACES_SEARCHED:
            rule, start, names = stack.pop()
            yield names
            if (rule, start) not in seen:
                seen.add((rule, start))
                stack.extend(
                    (outer.rule, outer_start, outer_names)
                    for outer, outer_start, outer_names in self.sets[start].waiting[rule]
                )


def _ahead(automaton: Automaton, state: int) -> tuple[bytes, set[int]]:
    """The text that must come in a terminal, up to where it may end, and the bytes that may come first."""
    transitions = automaton.transitions(state)
    first = {byte for ranges, _ in transitions for low, high in ranges for byte in range(low, high + 1)}
    forced = bytearray()
    while len(forced) < LITERAL_SHOWN and len(transitions) == 1:
        ranges, target = transitions[0]
        if len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
            break
        forced.append(ranges[0][0])
        if automaton.accepting(target):
            break
        transitions = automaton.transitions(target)
    return bytes(forced), first
