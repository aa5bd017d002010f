"""Arrays as rules: left-recursive lists; where items are counted or must differ, one rule for each state."""

from __future__ import annotations

from dataclasses import replace

from formatter_core.grammar import Member, Members, Node, Reference, Repeat, Way, can_be_complete
from formatter_core.schema.counting import Counting
from formatter_core.schema.listing import Listed, Listing
from formatter_core.schema.load import FALSE
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.numbers import has_large_steps
from formatter_core.schema.report import Refusals
from formatter_core.schema.rules import Rules, any_of, in_order
from formatter_core.schema.scalars import scalar_terminal
from formatter_core.schema.shapes import ArraySet, Contains, Goal
from formatter_core.schema.tokens import Tokens

__all__ = ["ArrayLowering"]

_MOST_DISTINCT = 10
#: Up to this many listed values are members of their own.
_MOST_LISTED = 64
#: Maximum `contains` of items that are remembered: there is a way to write an item for each set of them.
_MOST_CONTAINED = 4


class ArrayLowering:
    """Lowers constraints on arrays."""

    def __init__(
        self, rules: Rules, normalizer: Normalizer, tokens: Tokens, refusals: Refusals, any_order: bool
    ) -> None:
        self._rules = rules
        self._normalizer = normalizer
        self._tokens = tokens
        self._refusals = refusals
        self._listing = Listing(normalizer, any_order)
        # Branches that exclude each other leave the same alternatives many times.
        self._machines: dict[tuple[ArraySet, tuple[Goal, ...], bool], Node | None] = {}

    def lower(self, arrays: ArraySet, title: str) -> Node | None:
        """The node of these arrays; None if there are certainly none."""
        goals, arrays = self._goals(arrays)
        if arrays.maximum is not None and arrays.minimum > arrays.maximum:
            return None
        if arrays.repeated is not None:
            self._refusals.refuse(
                arrays.repeated, "uniqueItems", "its negation is not context-free; remove the negation"
            )
            arrays = replace(arrays, repeated=None)
        contains = tuple(wanted for wanted in arrays.contains if wanted.minimum or wanted.maximum is not None)
        arrays = replace(arrays, contains=contains)
        unique = arrays.unique is not None and not self._must_differ(goals, arrays)
        is_plain = len(goals) == 1 and all(map(_is_open, contains)) and len(contains) <= _MOST_CONTAINED
        if unique and is_plain and not (contains and self._values(goals)):
            return self._distinct(arrays, goals[0], title)
        if unique or arrays.contains:
            key = arrays, tuple(goals), unique
            if key not in self._machines:
                self._machines[key] = self._counted(arrays, goals, unique, title)
            return self._machines[key]
        return self._plain(goals, arrays.minimum, arrays.maximum, title)

    def _goals(self, arrays: ArraySet) -> tuple[list[Goal], ArraySet]:
        """The goals of the items, the last for all further ones; cut where no item can be."""
        longest = max((len(part.prefix) for part in arrays.parts), default=0)
        goals = [
            self._normalizer.conjoin(part.literal_at(index) for part in arrays.parts) for index in range(longest + 1)
        ]
        for index, goal in enumerate(goals):
            if self._normalizer.is_empty(goal, 2):
                least = index if arrays.maximum is None else min(index, arrays.maximum)
                return [*goals[:index], (FALSE,)], replace(arrays, maximum=least)
        return goals, arrays

    def _plain(self, goals: list[Goal], minimum: int, maximum: int | None, title: str) -> Node:
        tokens = self._tokens
        prefix, rest = goals[:-1], goals[-1]
        options: list[Node] = [tokens.empty_array] if minimum == 0 else []
        lists: list[Node] = []
        current: Node | None = None
        for length, goal in enumerate(prefix if maximum is None else prefix[:maximum], 1):
            item = self._rules.goal(goal)
            current = item if current is None else in_order(current, tokens.comma, item)
            if length >= minimum:
                current = self._rules.shared(f"{title}: {length} items", current)
                lists.append(current)
        if rest != (FALSE,) and (maximum is None or maximum > len(prefix)):
            more = self._more(
                current, rest, minimum - len(prefix), None if maximum is None else maximum - len(prefix), title
            )
            if lists and lists[-1] is current:
                lists.pop()
            lists.append(more)
        options += [in_order(tokens.open_array, item, tokens.close_array) for item in lists]
        return any_of(options)

    def _more(self, start: Node | None, rest: Goal, minimum: int, maximum: int | None, title: str) -> Node:
        """`start` and between `minimum` and `maximum` further items; at least one item in all."""
        item = self._rules.goal(rest)
        further = in_order(self._tokens.comma, item)
        if start is None:
            start, minimum, maximum = item, minimum - 1, None if maximum is None else maximum - 1
        if maximum is None and minimum <= 0:
            name = self._rules.reserve(f"{title}: items")
            self._rules.define(name, any_of([start, in_order(Reference(name), further)]))
            return Reference(name)
        return start if maximum == 0 else in_order(start, Repeat(further, max(minimum, 0), maximum))

    def _distinct(self, arrays: ArraySet, goal: Goal, title: str) -> Node | None:
        """Items that differ: listed values are members that each come once; of others their values are remembered."""
        tokens = self._tokens
        listed = None if arrays.contains else self._listing.of(goal, _MOST_LISTED)
        maximum = arrays.maximum
        if listed is not None:
            spelled = ([(literal,) for literal in each.literals] for each in listed)
            ways_of = ([goal for goal in goals if not self._normalizer.is_empty(goal)] for goals in spelled)
            members = tuple(Member(tuple(Way(self._rules.goal(goal)) for goal in goals)) for goals in ways_of if goals)
            maximum = None if maximum is not None and maximum >= len(members) else maximum
        else:
            ways: list[Way] = []
            for each, met in self._ways(goal, arrays.contains).items():
                shape = self._normalizer.goal(each)
                large = any(map(has_large_steps, shape.numbers))
                if shape.arrays or shape.objects or large:
                    what = "multiples of large steps" if large else "arrays or objects that are not few"
                    reason = f"it is enforced for scalars and up to {_MOST_LISTED} values, but items may be {what}"
                    self._refusals.refuse(arrays.unique or "", "uniqueItems", reason)
                    return self.lower(replace(arrays, unique=None), title)
                terminal = scalar_terminal(shape, tokens.spelling, plain=True)
                ways += [Way(terminal, met)] if terminal is not None else []
            members = (Member(tuple(ways), repeated=True, distinct=True),) if ways else ()
        options: list[Node] = [tokens.empty_array] if arrays.minimum == 0 and not arrays.contains else []
        node = Members(members, tokens.comma, False, max(arrays.minimum, 1), maximum, len(arrays.contains))
        if members and can_be_complete(node):
            options.append(in_order(tokens.open_array, node, tokens.close_array))
        return any_of(options) if options else None

    def _ways(self, goal: Goal, contains: tuple[Contains, ...]) -> dict[Goal, int]:
        """What items may satisfy, each with the `contains` that they then meet, as bits."""
        ways = {goal: 0}
        for index, wanted in enumerate(contains):
            for known, met in list(ways.items()):
                both = self._normalizer.conjoin((*known, wanted.literal))
                ways[both] = ways.get(both, 0) | met | 1 << index
        return ways

    def _must_differ(self, goals: list[Goal], arrays: ArraySet) -> bool:
        """Whether items always differ: there is at most one, or no two positions share a value."""
        if arrays.maximum is None:
            return False
        if arrays.maximum <= 1:
            return True
        if arrays.maximum > min(len(goals) - (goals[-1] == (FALSE,)), 30):
            return False
        return all(
            self._normalizer.is_empty(self._normalizer.conjoin((*first, *second)))
            for index, first in enumerate(goals[: arrays.maximum])
            for second in goals[:index]
        )

    def _counted(self, arrays: ArraySet, goals: list[Goal], unique: bool, title: str) -> Node | None:
        """One rule for each state: the number of items so far, of items found, and the values used."""
        values: dict[Goal, list[Listed]] | None = None
        if unique:
            values = self._values(goals)
            if values is None:
                reason = (
                    f"beside `prefixItems` or counted `contains` it is enforced for at most {_MOST_DISTINCT} listed "
                    "values and for items of different types"
                )
                self._refusals.refuse(arrays.unique or "", "uniqueItems", reason)
                if not arrays.contains:
                    return self._plain(goals, arrays.minimum, arrays.maximum, title)
        return Counting(self._rules, self._tokens, self._normalizer, arrays, goals, values, title).lower()

    def _values(self, goals: list[Goal]) -> dict[Goal, list[Listed]] | None:
        """The values of each goal; None where they are not listed or too many."""
        found: dict[Goal, list[Listed]] = {}
        for goal in goals:
            listed = self._listing.of(goal, _MOST_DISTINCT)
            if listed is None:
                return None
            found[goal] = listed
        distinct = {each.identity for listed in found.values() for each in listed}
        return found if len(distinct) <= _MOST_DISTINCT else None


def _is_open(wanted: Contains) -> bool:
    """Whether one item, wherever it comes, is enough, and more are as good."""
    return wanted.start == 0 and wanted.minimum == 1 and wanted.maximum is None
