"""Differences in the normal form: the JSON values of one shape that are not in another, exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol, TypeVar

from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.numbers import NumberSet, has_no_number, meet_numbers, other_numbers
from formatter_core.schema.shapes import (
    ArrayPart,
    ArraySet,
    Contains,
    ObjectPart,
    ObjectSet,
    Shape,
    SomeKey,
    meet_arrays,
    meet_objects,
)
from formatter_core.schema.strings import StringSet, is_empty, meet_strings, other_strings

__all__ = ["Knowledge", "subtract"]

_T = TypeVar("_T", NumberSet, StringSet, ArraySet, ObjectSet)


class Knowledge(Protocol):
    """What is known about emptiness, and who pays for the work."""

    def is_empty_array(self, arrays: ArraySet) -> bool:
        """Whether a set of arrays is known to be empty."""

    def is_empty_object(self, objects: ObjectSet) -> bool:
        """Whether a set of objects is known to be empty."""

    def same_schema(self, literal: int) -> int:
        """One literal for all schemas that say the same."""

    def without_subsets(self, objects: tuple[ObjectSet, ...]) -> tuple[ObjectSet, ...]:
        """The union without alternatives that lie within others, where that changes nothing."""

    def spend(self, pairs: int) -> None:
        """Count pairs of alternatives that were put together."""


def subtract(shape: Shape, rival: Shape, knowledge: Knowledge) -> Shape:
    """The values of `shape` that are not in `rival`, without alternatives that are known to be empty."""
    spend = knowledge.spend
    return Shape(
        shape.null and not rival.null,
        shape.booleans & ~rival.booleans,
        _outside(shape.numbers, rival.numbers, other_numbers, meet_numbers, has_no_number, tuple, spend),
        _outside(shape.strings, rival.strings, other_strings, meet_strings, is_empty, tuple, spend),
        _outside(shape.arrays, rival.arrays, _other_arrays, meet_arrays, knowledge.is_empty_array, tuple, spend),
        _outside(
            shape.objects,
            rival.objects,
            partial(_other_objects, same_schema=knowledge.same_schema),
            meet_objects,
            knowledge.is_empty_object,
            knowledge.without_subsets,
            spend,
        ),
    )


def _outside(
    items: tuple[_T, ...],
    rivals: tuple[_T, ...],
    others: Callable[[_T], list[_T]],
    meet_two: Callable[[_T, _T], _T | None],
    is_empty_set: Callable[[_T], bool],
    minimal: Callable[[tuple[_T, ...]], tuple[_T, ...]],
    spend: Callable[[int], None],
) -> tuple[_T, ...]:
    for rival in rivals:
        outside = others(rival)
        kept: dict[_T, None] = {}
        for item in items:
            spend(1)
            both = meet_two(item, rival)
            if both is None or is_empty_set(both):
                kept[item] = None
                continue
            spend(len(outside))
            for other in outside:
                rest = meet_two(item, other)
                if rest is not None and not is_empty_set(rest):
                    kept[rest] = None
        items = minimal(tuple(kept))
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


def _other_objects(objects: ObjectSet, same_schema: Callable[[int], int]) -> list[ObjectSet]:
    found: list[ObjectSet] = [_without(name) for name in objects.required]
    if objects.minimum > len(objects.required):
        found.append(ObjectSet(maximum=objects.minimum - 1))
    if objects.maximum is not None:
        found.append(ObjectSet(minimum=objects.maximum + 1))
    for part in objects.parts:
        for name, literal in part.named.items():
            if literal != TRUE:
                parts = () if literal == FALSE else (_value(name, same_schema(-literal)),)
                found.append(ObjectSet(parts, (name,), 1))
        for pattern, literal in part.patterns:
            if literal != TRUE:
                found.append(_some(SomeKey(pattern=pattern, literal=-literal, pointer=part.pointer)))
        if part.rest != TRUE:
            patterns = tuple(pattern for pattern, _ in part.patterns)
            found.append(_some(SomeKey(frozenset(part.named), patterns, literal=-part.rest, pointer=part.pointer)))
        if part.names != TRUE:
            found.append(_some(SomeKey(names=-part.names, pointer=part.pointer)))
    found += [ObjectSet((_no_key(some),)) for some in objects.some]
    return found


@lru_cache(maxsize=8192)
def _value(name: str, literal: int) -> ObjectPart:
    """The same object for the same arguments, so that alternatives can be compared."""
    return ObjectPart({name: literal}, silent=True)


def _without(name: str) -> ObjectSet:
    return ObjectSet((_value(name, FALSE),))


def _some(some: SomeKey) -> ObjectSet:
    return ObjectSet(minimum=1, some=(some,))


def _no_key(some: SomeKey) -> ObjectPart:
    if some.names != TRUE:
        return ObjectPart(names=-some.names, silent=True, pointer=some.pointer)
    if some.pattern is not None:
        return ObjectPart(patterns=((some.pattern, -some.literal),), silent=True, pointer=some.pointer)
    named = dict.fromkeys(some.named, TRUE)
    patterns = tuple((pattern, TRUE) for pattern in some.patterns)
    return ObjectPart(named, patterns, -some.literal, silent=True, pointer=some.pointer)
