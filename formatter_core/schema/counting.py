"""Arrays whose items are counted or must differ: a finite machine, written as left-recursive rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node, Reference
from formatter_core.schema.listing import Listed
from formatter_core.schema.load import FALSE
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.rules import Rules, any_of, in_order
from formatter_core.schema.shapes import ArraySet, Goal
from formatter_core.schema.tokens import Tokens

__all__ = ["Counting"]

_MOST_STATES = 5000
#: As many literals are conjoined in the time that a pair of alternatives takes.
_PER_PAIR = 4


class _State(NamedTuple):
    """Items so far, how many of them each `contains` found, and the values used; counts stop where more is the same."""

    length: int
    found: tuple[int, ...]
    used: frozenset[Hashable]


class Counting:
    """Lowers one set of arrays. `values` lists the values of each goal where items must differ."""

    def __init__(
        self,
        rules: Rules,
        tokens: Tokens,
        normalizer: Normalizer,
        arrays: ArraySet,
        goals: list[Goal],
        values: dict[Goal, list[Listed]] | None,
        title: str,
    ) -> None:
        self._rules = rules
        self._tokens = tokens
        self._normalizer = normalizer
        self._arrays = arrays
        self._goals = goals
        self._values = values
        self._title = title
        starts = [wanted.start for wanted in arrays.contains]
        # The empty list and one item are separate states: later items follow a comma.
        self._length = max([1, len(goals) - 1, arrays.minimum, arrays.maximum or 0, *starts])

    def lower(self) -> Node | None:
        """The node of these arrays; None if there are certainly none."""
        first = _State(0, (0,) * len(self._arrays.contains), frozenset())
        names: dict[_State, str] = {}
        arriving: dict[_State, list[Node]] = {}
        queue = [first]
        seen = {first}
        for state in queue:
            for goal, after in self._steps(state):
                item: Node = self._rules.goal(goal)
                if state is not first:
                    item = in_order(Reference(self._name(names, state)), self._tokens.comma, item)
                arriving.setdefault(after, []).append(item)
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
                    if len(seen) > _MOST_STATES:
                        remedy = "lower minContains, maxContains, minItems or maxItems"
                        what = "the count of an array's items"
                        raise LimitExceeded("states of a count", _MOST_STATES, what, is_fixed=True, remedy=remedy)
        for state, items in arriving.items():
            self._rules.define(self._name(names, state), any_of(items))
        tokens = self._tokens
        options: list[Node] = [tokens.empty_array] if self._is_enough(first) else []
        options += [
            in_order(tokens.open_array, Reference(names[state]), tokens.close_array)
            for state in arriving
            if self._is_enough(state)
        ]
        return any_of(options) if options else None

    def _name(self, names: dict[_State, str], state: _State) -> str:
        if state not in names:
            names[state] = self._rules.reserve(f"{self._title}: items, state {len(names) + 1}")
        return names[state]

    def _is_enough(self, state: _State) -> bool:
        wanted = zip(state.found, self._arrays.contains, strict=True)
        return state.length >= self._arrays.minimum and all(count >= each.minimum for count, each in wanted)

    def _steps(self, state: _State) -> Iterator[tuple[Goal, _State]]:
        maximum = self._arrays.maximum
        if maximum is not None and state.length >= maximum:
            return
        goal = self._goals[min(state.length, len(self._goals) - 1)]
        length = min(state.length + 1, self._length)
        for literals, found in self._findings(state):
            self._normalizer.spend(1 + len(goal) // _PER_PAIR)
            wanted = self._normalizer.conjoin((*goal, *literals))
            if self._values is None:
                if wanted != (FALSE,) and not self._normalizer.is_empty(wanted, 2):
                    yield wanted, _State(length, found, state.used)
                continue
            for value in self._values[goal]:
                if value.identity in state.used:
                    continue
                for literal in value.literals:
                    single = (literal,) if not literals else self._normalizer.conjoin((literal, *literals))
                    if not literals or not self._normalizer.is_empty(single, 2):
                        yield single, _State(length, found, state.used | {value.identity})

    def _findings(self, state: _State) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The ways in which the next item may count: literals that it then satisfies, and the new counts."""
        ways: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
        for count, wanted in zip(state.found, self._arrays.contains, strict=True):
            if state.length < wanted.start or (wanted.maximum is None and count >= wanted.minimum):
                ways = [(literals, (*found, count)) for literals, found in ways]
                continue
            self._normalizer.spend(len(ways))
            counted = [((*literals, wanted.literal), (*found, count + 1)) for literals, found in ways]
            if wanted.maximum is not None:
                counted = counted if count < wanted.maximum else []
                ways = [((*literals, -wanted.literal), (*found, count)) for literals, found in ways]
            else:
                ways = [(literals, (*found, count)) for literals, found in ways]
            ways = counted + ways
        yield from ways
