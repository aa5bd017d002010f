"""The normal form: for each of the six JSON types a union of constraints.

Children are goals: conjunctions of literals (see `load`), computed only when they are lowered, so that recursion
needs no care here. Constraints on arrays and objects are conjunctions of *parts*, one for each schema that speaks about
items or properties; a part is turned into goals for single items and properties when it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union

from formatter_core.grammar.values import value
from formatter_core.schema.load import FALSE, TRUE
from formatter_core.schema.numbers import ANY_NUMBER, NumberSet, meet_numbers
from formatter_core.schema.strings import ANY_STRING, StringSet, largest_strings, meet_strings

__all__ = [
    "ANY",
    "ANY_ARRAY",
    "ANY_OBJECT",
    "NONE",
    "Absent",
    "ArrayPart",
    "ArraySet",
    "Condition",
    "Contains",
    "Goal",
    "HasValue",
    "ObjectPart",
    "ObjectSet",
    "Shape",
    "SomeKey",
    "largest",
    "meet",
    "meet_arrays",
    "meet_objects",
    "scalar_values",
    "unite",
]

#: A conjunction of literals, in order, without `TRUE`; contradictions are `(FALSE,)`.
Goal: TypeAlias = tuple[int, ...]
_T = TypeVar("_T")


@value(eq=False)
class ArrayPart:
    """Items at the beginning, then all others.

    `evaluates`: whether `rest` counts as evaluating the others; `silent`: nothing here counts as evaluated.
    """

    prefix: tuple[int, ...] = ()
    rest: int = TRUE
    evaluates: bool = False
    silent: bool = False

    def literal_at(self, index: int) -> int:
        """The literal of the item at `index`."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@value()
class Contains:
    """From the item `start` on, between `minimum` and `maximum` items satisfy `literal`."""

    literal: int
    minimum: int
    maximum: int | None
    start: int
    pointer: str


@value()
class ArraySet:
    """Arrays. `unique` holds the pointer of a `uniqueItems`, or is None."""

    parts: tuple[ArrayPart, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: str | None = None
    repeated: str | None = None


@value(eq=False)
class ObjectPart:
    """Literals for properties: by name, by pattern, and for those that neither covers.

    `names` is a literal for the names themselves. `evaluates`: whether `rest` counts as evaluating the others;
    `silent`: nothing here counts as evaluated. `origin` is the schema that says all this, if it is one.
    """

    named: Mapping[str, int] = field(default_factory=dict)
    patterns: tuple[tuple[str, int], ...] = ()
    rest: int = TRUE
    names: int = TRUE
    evaluates: bool = False
    silent: bool = False
    origin: Mapping[str, Any] | None = None


class Absent(NamedTuple):
    """A property is absent."""

    name: str


class HasValue(NamedTuple):
    """A property is present, and its value satisfies a literal."""

    name: str
    literal: int


class SomeKey(NamedTuple):
    """Some property that `named` and `patterns` do not cover, that `pattern` matches, whose value satisfies `literal`.

    `names` is a literal that the name satisfies.
    """

    named: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    pattern: str | None = None
    literal: int = TRUE
    names: int = TRUE


#: At least one of these holds.
Condition: TypeAlias = tuple[Union[Absent, HasValue, SomeKey], ...]  # noqa: UP007


@value()
class ObjectSet:
    """Objects. Every condition holds, and just one clause of each of `exclusive`, which are about different names."""

    parts: tuple[ObjectPart, ...] = ()
    required: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    conditions: tuple[Condition, ...] = ()
    exclusive: tuple[tuple[HasValue, ...], ...] = ()


ANY_ARRAY = ArraySet()
ANY_OBJECT = ObjectSet()


@value(eq=False)
class Shape:
    """A set of JSON values. `booleans` is a set of bits: 1 for false, 2 for true."""

    null: bool = False
    booleans: int = 0
    numbers: tuple[NumberSet, ...] = ()
    strings: tuple[StringSet, ...] = ()
    arrays: tuple[ArraySet, ...] = ()
    objects: tuple[ObjectSet, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether the shape obviously has no value."""
        return not (self.null or self.booleans or self.alternatives)

    @property
    def alternatives(self) -> int:
        """How many sets the shape is the union of."""
        return len(self.numbers) + len(self.strings) + len(self.arrays) + len(self.objects)


NONE = Shape()
ANY = Shape(True, 3, (ANY_NUMBER,), (ANY_STRING,), (ANY_ARRAY,), (ANY_OBJECT,))


def meet(a: Shape, b: Shape) -> Shape:
    """The values of both."""
    if a is ANY:
        return b
    if b is ANY or a is b:
        return a
    return Shape(
        a.null and b.null,
        a.booleans & b.booleans,
        _product(a.numbers, b.numbers, meet_numbers, ANY_NUMBER),
        largest_strings(_product(a.strings, b.strings, meet_strings, ANY_STRING)),
        _product(a.arrays, b.arrays, meet_arrays, ANY_ARRAY),
        _product(a.objects, b.objects, meet_objects, ANY_OBJECT),
    )


def scalar_values(shape: Shape) -> list[Any] | None:
    """The values of a shape where each is a scalar, and listed; else None."""
    found: list[Any] = [None] if shape.null else []
    found += [value for bit, value in ((1, False), (2, True)) if shape.booleans & bit]
    for values in [scalars.values for scalars in shape.numbers] + [scalars.values for scalars in shape.strings]:
        if values is None:
            return None
        found.extend(values)
    return None if shape.arrays or shape.objects else found


def unite(shapes: Iterable[Shape], *, absorb: bool = True) -> Shape:
    """The values of any. `absorb` drops alternatives beside one that holds everything of its type."""
    shapes = list(shapes)
    if len(shapes) == 1:
        return shapes[0]
    null, booleans = False, 0
    for shape in shapes:
        null, booleans = null or shape.null, booleans | shape.booleans
    return Shape(
        null,
        booleans,
        _united((item for shape in shapes for item in shape.numbers), ANY_NUMBER, True),
        largest_strings(_united((item for shape in shapes for item in shape.strings), ANY_STRING, True)),
        _united((item for shape in shapes for item in shape.arrays), ANY_ARRAY, absorb),
        _united((item for shape in shapes for item in shape.objects), ANY_OBJECT, absorb),
    )


def meet_arrays(a: ArraySet, b: ArraySet) -> ArraySet | None:
    """The intersection; None if it is certainly empty."""
    minimum, maximum = max(a.minimum, b.minimum), _least(a.maximum, b.maximum)
    if maximum is not None and minimum > maximum:
        return None
    unique = b.unique if a.unique is None else a.unique
    repeated = b.repeated if a.repeated is None else a.repeated
    if unique is not None and repeated is not None:
        return None
    return ArraySet(_joined(a.parts, b.parts), minimum, maximum, _joined(a.contains, b.contains), unique, repeated)


def meet_objects(a: ObjectSet, b: ObjectSet) -> ObjectSet | None:
    """The intersection; None if it is certainly empty."""
    parts = _joined(a.parts, b.parts)
    required = _joined(a.required, b.required)
    minimum, maximum = max(a.minimum, b.minimum, len(required)), _least(a.maximum, b.maximum)
    if maximum is not None and minimum > maximum:
        return None
    wanted = frozenset(required)
    if wanted and any(_excludes(part, wanted) for part in parts):
        return None
    conditions, exclusive = _joined(a.conditions, b.conditions), _joined(a.exclusive, b.exclusive)
    return ObjectSet(parts, required, minimum, maximum, conditions, exclusive)


def _excludes(part: ObjectPart, wanted: frozenset[str]) -> bool:
    """Whether one of these names may obviously not be there."""
    named = part.named
    if part.rest == FALSE and not part.patterns and not wanted <= named.keys():
        return True
    if len(wanted) < len(named):
        return any(named.get(name) == FALSE for name in wanted)
    return any(literal == FALSE and name in wanted for name, literal in named.items())


def largest(objects: tuple[ObjectSet, ...]) -> tuple[ObjectSet, ...]:
    """The union without alternatives that are obviously inside others."""
    marks = [{*each.parts, *each.required, *each.conditions, *each.exclusive} for each in objects]
    kept: list[int] = []
    for index in sorted(range(len(objects)), key=lambda index: len(marks[index])):
        each = objects[index]
        if not any(
            marks[other] <= marks[index]
            and objects[other].minimum <= each.minimum
            and _least(objects[other].maximum, each.maximum) == each.maximum
            for other in kept
        ):
            kept.append(index)
    return tuple(objects[index] for index in sorted(kept))


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _joined(a: tuple[_T, ...], b: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*a, *b))) if a and b else a or b


def _product(a: tuple[_T, ...], b: tuple[_T, ...], meet_two: Callable[[_T, _T], _T | None], top: _T) -> tuple[_T, ...]:
    if not a or not b:
        return ()
    if len(a) == 1 and a[0] is top:
        return b
    if len(b) == 1 and b[0] is top:
        return a
    met = (meet_two(first, second) for first in a for second in b)
    return tuple(dict.fromkeys(item for item in met if item is not None))


def _united(items: Iterable[_T], top: _T, absorb: bool) -> tuple[_T, ...]:
    kept = tuple(dict.fromkeys(items))
    return (top,) if absorb and any(item is top for item in kept) else kept
