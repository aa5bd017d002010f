"""Differences in the normal form: the JSON values of one shape that are not in another, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Protocol, TypeVar

from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.numbers import NumberSet, meet_numbers, other_numbers
from formatter_core.schema.shapes import (
    Absent,
    ArrayPart,
    ArraySet,
    Condition,
    Contains,
    HasValue,
    ObjectPart,
    ObjectSet,
    Shape,
    SomeKey,
    meet_arrays,
    meet_objects,
)
from formatter_core.schema.strings import StringSet, meet_strings, other_strings

__all__ = ["Knowledge", "subtract", "value_part"]

#: Later each property is compared with each clause of the conditions: so many in the time of a pair of alternatives.
_CLAUSES_COMPARED = 40

_T = TypeVar("_T", NumberSet, StringSet, ArraySet, ObjectSet)


class Knowledge(Protocol):
    """Checks of emptiness, and the budget for the work."""

    def has_no_number(self, numbers: NumberSet) -> bool:
        """Whether a set of numbers is known to be empty."""

    def has_no_string(self, strings: StringSet) -> bool:
        """Whether a set of strings is known to be empty."""

    def is_empty_array(self, arrays: ArraySet) -> bool:
        """Whether a set of arrays is known to be empty."""

    def simplified(self, objects: ObjectSet) -> ObjectSet | None:
        """The same objects without constraints that always hold; None if there are none."""

    def same_schema(self, literal: int) -> int:
        """One literal for all equal schemas."""

    def without_subsets(self, objects: tuple[ObjectSet, ...]) -> tuple[ObjectSet, ...]:
        """The union without alternatives inside others, where that changes nothing."""

    def spend(self, pairs: int) -> None:
        """Charge for combining pairs of alternatives."""

    def spend_sizes(self, first: Sequence[ObjectSet], second: Sequence[ObjectSet]) -> None:
        """Charge for what pairs of objects have."""


def subtract(shape: Shape, rivals: Sequence[Shape], knowledge: Knowledge) -> Shape:
    """The values of `shape` that are in no rival, without alternatives that are known to be empty."""
    spend = knowledge.spend
    null, booleans, objects = shape.null, shape.booleans, shape.objects
    numbers, strings, arrays = shape.numbers, shape.strings, shape.arrays
    for rival in rivals:
        if not (null or booleans or numbers or strings or arrays):
            break
        null, booleans = null and not rival.null, booleans & ~rival.booleans
        numbers = _outside(numbers, rival.numbers, other_numbers, meet_numbers, _unless(knowledge.has_no_number), spend)
        strings = _outside(strings, rival.strings, other_strings, meet_strings, _unless(knowledge.has_no_string), spend)
        arrays = _outside(arrays, rival.arrays, _other_arrays, meet_arrays, _unless(knowledge.is_empty_array), spend)
    if objects:
        objects = _objects_outside(objects, [each for rival in rivals for each in rival.objects], knowledge)
    return Shape(null, booleans, numbers, strings, arrays, objects)


def _objects_outside(
    objects: tuple[ObjectSet, ...], rivals: Sequence[ObjectSet], knowledge: Knowledge
) -> tuple[ObjectSet, ...]:
    """What breaks rivals in one way each is one condition for each, and they are all simplified together."""
    outside = {rival: _other_objects(rival, knowledge) for rival in rivals}
    singly = {rival: found[0].conditions for rival, found in outside.items() if _are_conditions(found)}
    found: dict[ObjectSet, None] = {}
    for item in objects:
        conditions: list[Condition] = []
        knowledge.spend(len(singly))
        for rival, broken in singly.items():
            both = meet_objects(item, rival)
            if both is not None and knowledge.simplified(both) is not None:
                conditions += broken
        left = meet_objects(item, ObjectSet(conditions=tuple(dict.fromkeys(conditions))))
        left = left if left is None or not conditions else knowledge.simplified(left)
        if left is not None:
            knowledge.spend(sum(map(len, left.conditions)) ** 2 // _CLAUSES_COMPARED)
            found[left] = None
    objects = tuple(found)
    others = tuple(rival for rival in rivals if rival not in singly)
    knowledge.spend_sizes(objects, others)
    objects = _outside(objects, others, outside.__getitem__, meet_objects, knowledge.simplified, knowledge.spend)
    return knowledge.without_subsets(objects)


def _are_conditions(objects: Sequence[ObjectSet]) -> bool:
    """Whether all that these say is that some conditions hold."""
    return len(objects) == 1 and objects[0] == ObjectSet(conditions=objects[0].conditions)


def _unless(is_empty_set: Callable[[_T], bool]) -> Callable[[_T], _T | None]:
    return lambda item: None if is_empty_set(item) else item


def _outside(
    items: tuple[_T, ...],
    rivals: tuple[_T, ...],
    others: Callable[[_T], list[_T]],
    meet_two: Callable[[_T, _T], _T | None],
    simplified: Callable[[_T], _T | None],
    spend: Callable[[int], None],
) -> tuple[_T, ...]:
    for rival in rivals:
        if not items:
            break
        outside = others(rival)
        kept: dict[_T, None] = {}
        for item in items:
            spend(1)
            both = meet_two(item, rival)
            if both is None or simplified(both) is None:
                kept[item] = None
                continue
            spend(len(outside))
            for other in outside:
                remaining = meet_two(item, other)
                left = None if remaining is None else simplified(remaining)
                if left is not None:
                    kept[left] = None
        items = tuple(kept)
    return items


def _other_arrays(arrays: ArraySet) -> list[ArraySet]:
    found: list[ArraySet] = []
    if arrays.minimum:
        found.append(ArraySet(maximum=arrays.minimum - 1))
    if arrays.maximum is not None:
        found.append(ArraySet(minimum=arrays.maximum + 1))
    for part in arrays.parts:
        for index, literal in enumerate(part.prefix):
            if literal != TRUE:
                prefix = (*(TRUE,) * index, -literal)
                found.append(ArraySet((ArrayPart(prefix, silent=True),), index + 1))
        start = len(part.prefix)
        if part.rest == FALSE:
            found.append(ArraySet(minimum=start + 1))
        elif part.rest != TRUE:
            found.append(ArraySet(minimum=start + 1, contains=(Contains(-part.rest, 1, None, start, ""),)))
    for wanted in arrays.contains:
        if wanted.minimum:
            fewer = Contains(wanted.literal, 0, wanted.minimum - 1, wanted.start, wanted.pointer)
            found.append(ArraySet(contains=(fewer,)))
        if wanted.maximum is not None:
            more = Contains(wanted.literal, wanted.maximum + 1, None, wanted.start, wanted.pointer)
            found.append(ArraySet(minimum=wanted.start + wanted.maximum + 1, contains=(more,)))
    if arrays.unique is not None:
        found.append(ArraySet(minimum=2, repeated=arrays.unique))
    if arrays.repeated is not None:
        found.append(ArraySet(unique=arrays.repeated))
    return [item for item in found if item.maximum is None or item.maximum >= 0]


def _other_objects(objects: ObjectSet, knowledge: Knowledge) -> list[ObjectSet]:
    """What breaks a count, or one of the other constraints: that is one condition, however many they are."""
    same_schema = knowledge.same_schema
    found: list[ObjectSet] = []
    if objects.minimum > len(objects.required):
        found.append(ObjectSet(maximum=objects.minimum - 1))
    if objects.maximum is not None:
        found.append(ObjectSet(minimum=objects.maximum + 1))
    broken: dict[Absent | HasValue | SomeKey, None] = {Absent(name): None for name in objects.required}
    for part in objects.parts:
        for name, literal in part.named.items():
            if literal != TRUE:
                broken[HasValue(name, same_schema(-literal))] = None
        for pattern, literal in part.patterns:
            if literal != TRUE:
                broken[SomeKey(pattern=pattern, literal=-literal)] = None
        if part.rest != TRUE:
            patterns = tuple(pattern for pattern, _ in part.patterns)
            broken[SomeKey(frozenset(part.named), patterns, literal=-part.rest)] = None
        if part.names != TRUE:
            broken[SomeKey(names=-part.names)] = None
    if broken:
        found.append(ObjectSet(conditions=(tuple(broken),)))
    found += [_unmet(condition, same_schema) for condition in objects.conditions]
    for clauses in objects.exclusive:
        knowledge.spend(len(clauses) ** 2 // 2)
        found.append(_unmet(clauses, same_schema))
        found += [ObjectSet(conditions=((first,), (second,))) for first, second in combinations(clauses, 2)]
    return found


def _unmet(condition: Condition, same_schema: Callable[[int], int]) -> ObjectSet:
    required: list[str] = []
    parts: list[ObjectPart] = []
    for clause in condition:
        if isinstance(clause, Absent):
            required.append(clause.name)
        elif isinstance(clause, HasValue):
            parts.append(value_part(clause.name, same_schema(-clause.literal)))
        else:
            parts.append(_no_key(clause))
    return ObjectSet(tuple(parts), tuple(required), len(required))


@lru_cache(maxsize=8192)
def value_part(name: str, literal: int) -> ObjectPart:
    """A literal for one property; the same object for the same arguments, so that alternatives can be compared."""
    return ObjectPart({name: literal}, silent=True)


def _no_key(some: SomeKey) -> ObjectPart:
    if some.names != TRUE:
        return ObjectPart(names=-some.names, silent=True)
    if some.pattern is not None:
        return ObjectPart(patterns=((some.pattern, -some.literal),), silent=True)
    named = dict.fromkeys(some.named, TRUE)
    patterns = tuple((pattern, TRUE) for pattern in some.patterns)
    return ObjectPart(named, patterns, -some.literal, silent=True)
