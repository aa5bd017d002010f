"""Objects whose properties are counted, come in any order, or must include some of a kind: a machine as rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple, Optional, TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node, Reference
from formatter_core.schema.keys import KeyClass
from formatter_core.schema.rules import Rules, any_of, in_order
from formatter_core.schema.shapes import Absent, Goal, ObjectSet
from formatter_core.schema.tokens import Tokens
from formatter_core.support.values import value

__all__ = ["Machine", "Property"]

_MOST_STATES = 20_000


@value()
class Property:
    """A named property: its key, and for each set of conditions that it may meet, as bits, what its value satisfies.

    `absent` are the conditions that are met where it is not there.
    """

    name: str
    key: Node
    required: bool
    values: tuple[tuple[int, Goal], ...]
    absent: int


class _State(NamedTuple):
    """Where a list of properties stands.

    `place` counts the named properties passed by or, in any order, has a bit for each one used. `written` is the number
    of properties so far, which stops where more is the same; `met` has a bit for each condition that is met.
    """

    place: int
    written: int
    met: int


_Pair: TypeAlias = Optional[tuple[Node, Goal]]  # noqa: UP045 (evaluated when the module is imported)
_Step: TypeAlias = tuple[_State, _Pair]


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
        known = {each.name for each in properties}
        self._met_by_missing = sum(
            1 << index
            for index, condition in enumerate(objects.conditions)
            if any(isinstance(clause, Absent) and clause.name not in known for clause in condition)
        )
        bits = len(objects.conditions) + len(objects.exclusive)
        self._all_met = 2**bits - 1
        self._only_once = self._all_met - (2 ** len(objects.conditions) - 1)
        # By place: the conditions that named properties from there on, or extra ones, may meet.
        self._later = [reduce(or_, (extra.met for extra in extras), 0)]
        for each in reversed(properties):
            self._later.append(reduce(or_, (met for met, _ in each.values), self._later[-1] | each.absent))
        self._later.reverse()
        self._cap = max(objects.minimum, 1) if objects.maximum is None else max(objects.maximum, 1)
        self._title = title

    def lower(self, any_order: bool) -> Node | None:
        """What spells these objects; None where there are none."""
        absent = [each.absent for each in self._properties]
        first = _State(0, 0, self._all_met & self._met_by_missing)
        if not any_order:
            return self._explore(first, self._ordered_steps, lambda state: (state.place == len(absent), state.met))
        needed = sum(1 << index for index, each in enumerate(self._properties) if each.required)

        def ending(state: _State) -> tuple[bool, int]:
            met = state.met
            for index, bits in enumerate(absent):
                met |= 0 if state.place >> index & 1 else bits
            return state.place & needed == needed, met

        return self._explore(first, self._unordered_steps, ending)

    def _ordered_steps(self, state: _State) -> Iterator[_Step]:
        if state.place == len(self._properties):
            yield from self._extra_steps(state)
            return
        each = self._properties[state.place]
        steps = self._property_steps(state, each, state.place + 1)
        if not each.required:
            passed_by = _State(state.place + 1, state.written, state.met | each.absent)
            steps = chain([(passed_by, None)], steps)
        later = self._later[state.place + 1]
        yield from (step for step in steps if step[0].met | later == self._all_met)

    def _unordered_steps(self, state: _State) -> Iterator[_Step]:
        for index, each in enumerate(self._properties):
            if not state.place >> index & 1:
                yield from self._property_steps(state, each, state.place | 1 << index)
        yield from self._extra_steps(state)

    def _property_steps(self, state: _State, each: Property, place: int) -> Iterator[_Step]:
        for met, goal in each.values:
            if not state.met & met & self._only_once:
                yield from self._counted(_State(place, state.written, state.met | met), each.key, goal)

    def _extra_steps(self, state: _State) -> Iterator[_Step]:
        for extra in self._extras:
            yield from self._counted(_State(state.place, state.written, state.met | extra.met), extra.key, extra.goal)

    def _counted(self, state: _State, key: Node, goal: Goal) -> Iterator[_Step]:
        if self._maximum is None or state.written < self._maximum:
            yield _State(state.place, min(state.written + 1, self._cap), state.met), (key, goal)

    def _explore(
        self, first: _State, steps: Callable[[_State], Iterator[_Step]], ending: Callable[[_State], tuple[bool, int]]
    ) -> Node | None:
        leading: dict[_State, list[_Step]] = {first: []}
        for state in (pending := [first]):
            leading[state].extend(steps(state))
            for after, _ in leading[state]:
                if after not in leading:
                    leading[after] = []
                    pending.append(after)
            if len(pending) > _MOST_STATES:
                remedy = "lower minProperties or maxProperties, name fewer properties, or use fewer branches"
                what = "the count of an object's properties"
                raise LimitExceeded("states of a count", _MOST_STATES, what, is_fixed=True, remedy=remedy)
        arriving: dict[_State, list[_State]] = {}
        passing_by: dict[_State, list[_State]] = {}
        for state, found in leading.items():
            for after, pair in found:
                arriving.setdefault(after, []).append(state)
                if pair is None:
                    passing_by.setdefault(after, []).append(state)
        ends = [state for state in leading if state.written >= self._minimum and ending(state) == (True, self._all_met)]
        useful = _leading_to(ends, arriving)
        before_pairs = (state for state, found in leading.items() if any(pair and to in useful for to, pair in found))
        return self._write(first, leading, useful, _leading_to(ends, passing_by), _leading_to(before_pairs, passing_by))

    def _write(
        self,
        first: _State,
        leading: dict[_State, list[_Step]],
        useful: set[_State],
        may_end: set[_State],
        goes_on: set[_State],
    ) -> Node | None:
        """A rule for each state that goes on: what may come from there, up to the end of the object.

        So calls stand in last place, where they need no way back.
        """
        rules, tokens = self._rules, self._tokens
        onward = [state for state in leading if state in goes_on]
        names = {
            state: Reference(rules.reserve(f"{self._title}: properties, state {number}"))
            for number, state in enumerate(onward, 1)
        }
        for state in onward:
            options: list[Node] = []
            for after, pair in leading[state]:
                if pair is None:
                    options += [names[after]] if after in names else []
                elif after in useful:
                    rest: list[Node] = [tokens.close_object] if after in may_end else []
                    rest += [in_order(tokens.comma, names[after])] if after in names else []
                    options.append(in_order(pair[0], rules.goal(pair[1]), any_of(rest)))
            rules.define(names[state].name, any_of(options))
        found: list[Node] = [tokens.empty_object] if first in may_end else []
        found += [in_order(tokens.open_object, names[first])] if first in names else []
        return any_of(found) if found else None


def _leading_to(states: Iterable[_State], arriving: dict[_State, list[_State]]) -> set[_State]:
    """The states, and all from which one of them is reached."""
    found = dict.fromkeys(states)
    for state in (pending := list(found)):
        for before in arriving.get(state, ()):
            if before not in found:
                found[before] = None
                pending.append(before)
    return set(found)
