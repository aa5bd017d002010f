"""Negation in the normal form: the JSON values outside a shape, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.numbers import ANY_NUMBER, meet_numbers, other_numbers
from formatter_core.schema.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
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
from formatter_core.schema.strings import ANY_STRING, meet_strings, other_strings

__all__ = ["complement"]

_T = TypeVar("_T")


def complement(shape: Shape, spend: Callable[[int], None]) -> Shape:
    """The values outside `shape`; `spend` is told how many pairs of alternatives are put together."""
    return Shape(
        not shape.null,
        3 ^ shape.booleans,
        _outside(shape.numbers, other_numbers, meet_numbers, ANY_NUMBER, spend),
        _outside(shape.strings, other_strings, meet_strings, ANY_STRING, spend),
        _outside(shape.arrays, _other_arrays, meet_arrays, ANY_ARRAY, spend),
        _outside(shape.objects, _other_objects, meet_objects, ANY_OBJECT, spend),
    )


def _outside(
    alternatives: tuple[_T, ...],
    others: Callable[[_T], list[_T]],
    meet_two: Callable[[_T, _T], _T | None],
    top: _T,
    spend: Callable[[int], None],
) -> tuple[_T, ...]:
    found: tuple[_T, ...] = (top,)
    for alternative in alternatives:
        outside = others(alternative)
        spend(len(found) * len(outside))
        met = (meet_two(first, second) for first in found for second in outside)
        found = tuple(dict.fromkeys(item for item in met if item is not None))
    return found


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


def _other_objects(objects: ObjectSet) -> list[ObjectSet]:
    found: list[ObjectSet] = [_without(name) for name in objects.required]
    if objects.minimum > len(objects.required):
        found.append(ObjectSet(maximum=objects.minimum - 1))
    if objects.maximum is not None:
        found.append(ObjectSet(minimum=objects.maximum + 1))
    for part in objects.parts:
        for name, literal in part.named.items():
            if literal != TRUE:
                found.append(
                    ObjectSet((ObjectPart({name: -literal}, silent=True),) if literal != FALSE else (), (name,), 1)
                )
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


def _without(name: str) -> ObjectSet:
    return ObjectSet((ObjectPart({name: FALSE}, silent=True),))


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
