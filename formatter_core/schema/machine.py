"""Objects whose properties are counted, come in any order, or must include some of a kind: a machine as rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node, Reference
from formatter_core.schema.keys import KeyClass
from formatter_core.schema.rules import Rules, any_of, in_order
from formatter_core.schema.shapes import Goal, ObjectSet
from formatter_core.schema.tokens import Tokens

__all__ = ["Machine", "Property"]

_MOST_STATES = 20_000


@dataclass(frozen=True, slots=True)
class Property:
    """A named property: its key, and for each set of conditions on *some* property that it may meet, its value."""

    name: str
    key: Node
    required: bool
    values: tuple[tuple[int, Goal], ...]


class _State(NamedTuple):
    """Where a list of properties stands.

    `place` counts the named properties passed by or, in any order, has a bit for each one used. `written` is the number
    of properties so far, `met` a bit for each condition on *some* property; both stop where more is the same.
    """

    place: int
    written: int
    met: int


class Machine:
    """Lowers one set of objects."""

    def __init__(
        self,
        rules: Rules,
        tokens: Tokens,
        objects: ObjectSet,
        properties: Sequence[Property],
        extras: Sequence[KeyClass],
        title: str,
    ) -> None:
        self._rules = rules
        self._tokens = tokens
        self._properties = properties
        self._extras = extras
        self._minimum = objects.minimum
        self._maximum = objects.maximum
        self._all_met = 2 ** len(objects.some) - 1
        self._cap = max(objects.minimum, 1) if objects.maximum is None else max(objects.maximum, 1)
        self._title = title

    def lower(self, any_order: bool) -> Node | None:
        """What spells these objects; None where there are none."""
        if any_order:
            needed = sum(1 << index for index, each in enumerate(self._properties) if each.required)
            return self._explore(self._unordered_steps, lambda state: state.place & needed == needed)
        return self._explore(self._ordered_steps, lambda state: state.place == len(self._properties))

    def _ordered_steps(self, state: _State) -> Iterator[tuple[_State, Node | None]]:
        if state.place == len(self._properties):
            yield from self._extra_steps(state)
            return
        each = self._properties[state.place]
        if not each.required:
            yield _State(state.place + 1, state.written, state.met), None
        yield from self._property_steps(state, each, state.place + 1)

    def _unordered_steps(self, state: _State) -> Iterator[tuple[_State, Node | None]]:
        for index, each in enumerate(self._properties):
            if not state.place >> index & 1:
                yield from self._property_steps(state, each, state.place | 1 << index)
        yield from self._extra_steps(state)

    def _property_steps(self, state: _State, each: Property, place: int) -> Iterator[tuple[_State, Node | None]]:
        for met, goal in each.values:
            yield from self._counted(_State(place, state.written, state.met | met), each.key, goal)

    def _extra_steps(self, state: _State) -> Iterator[tuple[_State, Node | None]]:
        for extra in self._extras:
            yield from self._counted(_State(state.place, state.written, state.met | extra.met), extra.key, extra.goal)

    def _counted(self, state: _State, key: Node, goal: Goal) -> Iterator[tuple[_State, Node | None]]:
        if self._maximum is None or state.written < self._maximum:
            count = min(state.written + 1, self._cap)
            yield _State(state.place, count, state.met), in_order(key, self._rules.goal(goal))

    def _explore(
        self, steps: Callable[[_State], Iterator[tuple[_State, Node | None]]], at_end: Callable[[_State], bool]
    ) -> Node | None:
        first = _State(0, 0, 0)
        names: dict[_State, str] = {}
        arriving: dict[_State, list[Node]] = {first: []}
        queue = [first]
        for state in queue:
            for after, pair in steps(state):
                if after not in arriving:
                    arriving[after] = []
                    queue.append(after)
                    if len(queue) > _MOST_STATES:
                        raise LimitExceeded("states", _MOST_STATES, f"counting the properties of {self._title}")
                if pair is None:
                    if state.written:
                        arriving[after].append(self._reference(names, state))
                elif state.written:
                    arriving[after].append(in_order(self._reference(names, state), self._tokens.comma, pair))
                else:
                    arriving[after].append(pair)
        for state, options in arriving.items():
            if state.written and (options or state in names):
                self._rules.define(self._reference(names, state).name, any_of(options))
        tokens = self._tokens
        found: list[Node] = []
        for state in arriving:
            if at_end(state) and state.written >= self._minimum and state.met == self._all_met:
                inner = () if state.written == 0 else (self._reference(names, state),)
                found.append(
                    in_order(tokens.open_object, *inner, tokens.close_object) if inner else tokens.empty_object
                )
        return any_of(found) if found else None

    def _reference(self, names: dict[_State, str], state: _State) -> Reference:
        if state not in names:
            names[state] = self._rules.reserve(f"{self._title}: properties, state {len(names) + 1}")
        return Reference(names[state])
