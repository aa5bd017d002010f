"""The values of a goal, where they are few: scalars that are listed, and arrays and objects of few values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count, product
from typing import Any, NamedTuple

from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.numbers import NumberSet
from formatter_core.schema.shapes import Absent, ArraySet, Condition, Goal, HasValue, ObjectSet, Shape, scalar_values

__all__ = ["Listed", "Listing"]

#: Maximum arrays and objects that are tried, of which some are equal, or do not satisfy every keyword.
_MOST_TRIED = 1_000
#: Maximum levels of arrays and objects inside each other, and items of an array.
_MOST_LEVELS, _MOST_ITEMS = 8, 64


class Listed(NamedTuple):
    """One value: what is equal for equal values, and its literals, one for each order in which its keys may come."""

    identity: Hashable
    literals: tuple[int, ...]


class _ManyError(Exception):
    """There are too many values, or it is not known how many."""


class Listing:
    """Lists the values of goals. In any order of keys an object has one literal, in the schema's perhaps several."""

    def __init__(self, normalizer: Normalizer, any_order: bool) -> None:
        self._normalizer = normalizer
        self._any_order = any_order

    def of(self, goal: Goal, most: int) -> list[Listed] | None:
        """The values of a goal; None if there are more than `most`, or if they cannot be listed."""
        shape = self._normalizer.goal(goal)
        if shape.arrays or shape.objects:
            try:
                values = self._values(goal, _MOST_LEVELS)
            except _ManyError:
                return None
        else:
            scalars = scalar_values(shape)
            if scalars is None or _has_pointed(shape):
                return None
            values = scalars
        found: dict[Hashable, list[int]] = {}
        for value in values:
            literal = self._normalizer.single(value, _identity(value, ordered=not self._any_order))
            found.setdefault(_identity(value), []).append(literal)
        if len(found) > most:
            return None
        return [Listed(identity, tuple(dict.fromkeys(literals))) for identity, literals in found.items()]

    def _values(self, goal: Goal, levels: int) -> list[Any]:
        """The values as JSON data; those that differ only in the order of keys are several."""
        if goal == (FALSE,):
            return []
        if levels == 0:
            raise _ManyError
        shape = self._normalizer.goal(goal)
        found = _few_scalars(shape)
        for arrays in shape.arrays:
            found += self._arrays(arrays, levels)
        order = self._normalizer.key_order(goal) if shape.objects else None
        for objects in shape.objects:
            names = () if order is None else order.names if self._any_order else order.of(objects)
            found += self._objects(objects, names, levels)
        self._check(len(found))
        return list({_identity(value, ordered=not self._any_order): value for value in found}.values())

    def _check(self, number: int) -> None:
        self._normalizer.spend(1 + number)
        if number > _MOST_TRIED:
            raise _ManyError

    def _arrays(self, arrays: ArraySet, levels: int) -> list[Any]:
        if arrays.repeated is not None or any(each.minimum or each.maximum is not None for each in arrays.contains):
            raise _ManyError
        lists: list[list[Any]] = [[]]
        found: list[Any] = [] if arrays.minimum else [[]]
        for index in count():
            if arrays.maximum is not None and index >= arrays.maximum:
                break
            goal = self._normalizer.conjoin(part.literal_at(index) for part in arrays.parts)
            values = self._values(goal, levels - 1) if goal else None
            if values is None or index >= _MOST_ITEMS:
                raise _ManyError
            self._check(len(lists) * len(values))
            lists = [[*items, value] for items in lists for value in values]
            if arrays.unique is not None:
                lists = [items for items in lists if len(set(map(_identity, items))) == len(items)]
            if not lists:
                break
            if index + 1 >= arrays.minimum:
                found += lists
                self._check(len(found))
        return found

    def _objects(self, objects: ObjectSet, names: tuple[str, ...], levels: int) -> list[Any]:
        simple = self._normalizer.simplified(objects, 2)
        if simple is None:
            return []
        parts, required = simple.parts, simple.required
        if not any(part.rest == FALSE and not part.patterns for part in parts):
            raise _ManyError
        goals: dict[str, Goal] = {}
        for name in dict.fromkeys((*names, *(name for part in parts for name in part.named), *required)):
            goal = self._normalizer.property_goal(parts, name)
            if goal != (FALSE,):
                goals[name] = goal
        if not goals.keys() >= set(required):
            return []
        choices: list[list[tuple[Any, ...]]] = []
        tried = 1
        for name, goal in goals.items():
            if not goal:
                raise _ManyError
            values: list[tuple[Any, ...]] = [(value,) for value in self._values(goal, levels - 1)]
            choices.append(values if name in required else [(), *values])
            tried *= len(choices[-1])
            self._check(tried)
        made = [
            {name: each[0] for name, each in zip(goals, chosen, strict=True) if each} for chosen in product(*choices)
        ]
        most = len(goals) if simple.maximum is None else simple.maximum
        made = [each for each in made if simple.minimum <= len(each) <= most]
        for condition in simple.conditions:
            made = [each for each, held in self._held(made, condition, goals, levels) if held]
        for exclusive in simple.exclusive:
            made = [each for each, held in self._held(made, exclusive, goals, levels) if held == 1]
        return made

    def _held(
        self, objects: list[dict[str, Any]], condition: Condition, goals: dict[str, Goal], levels: int
    ) -> Iterator[tuple[dict[str, Any], int]]:
        """Each object with the number of clauses that hold for it."""
        values: list[set[Hashable] | None] = []
        for clause in condition:
            if isinstance(clause, HasValue) and clause.literal != TRUE and clause.name in goals:
                goal = self._normalizer.conjoin((*goals[clause.name], clause.literal))
                values.append(set(map(_identity, self._values(goal, levels - 1))))
            elif isinstance(clause, (Absent, HasValue)):
                values.append(None)
            else:
                raise _ManyError
        for each in objects:
            held = 0
            for clause, wanted in zip(condition, values, strict=True):
                if isinstance(clause, Absent):
                    held += clause.name not in each
                elif isinstance(clause, HasValue) and clause.name in each:
                    held += wanted is None or _identity(each[clause.name]) in wanted
            yield each, held


def _has_pointed(shape: Shape) -> bool:
    """Whether some numbers have only one of two spellings: what lists a value allows both."""
    return any(numbers.pointed is not None for numbers in shape.numbers)


def _few_scalars(shape: Shape) -> list[Any]:
    """The scalars of a shape; unlike `scalar_values`, those of any bounded integers."""
    if _has_pointed(shape):
        raise _ManyError
    listed = [numbers for numbers in shape.numbers if numbers.values is not None]
    found = scalar_values(Shape(shape.null, shape.booleans, tuple(listed), shape.strings))
    if found is None:
        raise _ManyError
    for numbers in shape.numbers:
        if numbers.values is None:
            found += _integers(numbers)
    return found


def _integers(numbers: NumberSet) -> list[Any]:
    low, high, step = numbers.low, numbers.high, numbers.multiple
    if step is None or low is None or high is None or high - low > _MOST_TRIED * step:
        raise _ManyError
    return [value for index in range(-(-low // step), high // step + 1) if (value := step * index) in numbers]


def _identity(value: Any, *, ordered: bool = False) -> Hashable:
    """What is equal for equal values; if `ordered`, for those with keys in the same order."""
    if isinstance(value, dict):
        members = [(name, _identity(item, ordered=ordered)) for name, item in value.items()]
        return dict, tuple(members) if ordered else frozenset(members)
    if isinstance(value, list):
        return list, tuple(_identity(item, ordered=ordered) for item in value)
    return type(value), value
