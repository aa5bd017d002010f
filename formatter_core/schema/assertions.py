"""The keywords for values of one JSON type, and `enum` and `const`, as shapes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from formatter_core.errors import InvalidRegex, InvalidSchema, LimitExceeded
from formatter_core.schema.keywords import TYPES
from formatter_core.schema.load import FALSE, TRUE, Loader, Location
from formatter_core.schema.numbers import ANY_INTEGER, ANY_NUMBER, NumberSet, meet_numbers, narrowed
from formatter_core.schema.report import Refusals
from formatter_core.schema.shapes import (
    ANY,
    ANY_ARRAY,
    ANY_OBJECT,
    ArrayPart,
    ArraySet,
    Contains,
    ObjectPart,
    ObjectSet,
    Shape,
)
from formatter_core.schema.spelling import has_spelling
from formatter_core.schema.string_formats import DEFINED, left_out, name_in
from formatter_core.schema.strings import ANY_STRING, StringSet, Test

__all__ = ["Assertions"]

_NUMBER_KEYWORDS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
_STRING_KEYWORDS = frozenset(["minLength", "maxLength", "pattern", "format"])
_ARRAY_KEYWORDS = frozenset(
    ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "contains", "uniqueItems"]
)
_OBJECT_KEYWORDS = frozenset(
    [
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "required",
        "minProperties",
        "maxProperties",
    ]
)


_TYPED_KEYWORDS = _NUMBER_KEYWORDS | _STRING_KEYWORDS | _ARRAY_KEYWORDS | _OBJECT_KEYWORDS

#: What `type` alone allows (draft 4 has another "integer").
_PLAIN = {
    "null": Shape(null=True),
    "boolean": Shape(booleans=3),
    "integer": Shape(numbers=(ANY_INTEGER,)),
    "number": Shape(numbers=(ANY_NUMBER,)),
    "string": Shape(strings=(ANY_STRING,)),
    "array": Shape(arrays=(ANY_ARRAY,)),
    "object": Shape(objects=(ANY_OBJECT,)),
}


class Assertions:
    """Reads the typed keywords of a location."""

    def __init__(self, loader: Loader, refusals: Refusals, enforce_formats: bool) -> None:
        self._loader = loader
        self._refusals = refusals
        self._enforce_formats = enforce_formats

    def typed(self, location: Location) -> Shape:
        """The values that `type` and the keywords for single types allow; keywords of excluded types are not read."""
        schema = location.schema
        name = schema.get("type")
        is_plain = _TYPED_KEYWORDS.isdisjoint(schema) and location.resource.draft > 4
        if is_plain and isinstance(name, str) and name in _PLAIN:
            return _PLAIN[name]
        types = self._types(location)
        if is_plain and types is None:
            return ANY
        numbers: tuple[NumberSet, ...] = ()
        if types is None or "number" in types:
            numbers = (ANY_NUMBER,)
        elif "integer" in types:
            numbers = (NumberSet(multiple=Fraction(1), pointed=False) if location.resource.draft == 4 else ANY_INTEGER,)
        if numbers and not _NUMBER_KEYWORDS.isdisjoint(schema):
            bounded = narrowed(self._numbers(location))
            met = None if bounded is None else meet_numbers(numbers[0], bounded)
            numbers = () if met is None else (met,)
        strings: tuple[StringSet, ...] = ()
        if types is None or "string" in types:
            strings = (ANY_STRING,)
            if not _STRING_KEYWORDS.isdisjoint(schema):
                strings = self._strings(location)
        arrays: tuple[ArraySet, ...] = ()
        if types is None or "array" in types:
            arrays = (ANY_ARRAY,)
            if not _ARRAY_KEYWORDS.isdisjoint(schema):
                arrays = self._arrays(location)
        objects: tuple[ObjectSet, ...] = ()
        if types is None or "object" in types:
            objects = (ANY_OBJECT,)
            if not _OBJECT_KEYWORDS.isdisjoint(schema):
                objects = self._objects(location)
        if types is None:
            plain = numbers == (ANY_NUMBER,) and strings == (ANY_STRING,) and arrays[:1] == (ANY_ARRAY,)
            return ANY if plain and objects[:1] == (ANY_OBJECT,) else Shape(True, 3, numbers, strings, arrays, objects)
        return Shape("null" in types, 3 if "boolean" in types else 0, numbers, strings, arrays, objects)

    def listed(self, location: Location, keyword: str) -> Shape:
        """The values that `enum` or `const` lists."""
        values = location.schema[keyword]
        if keyword == "const":
            values = [values]
        elif not isinstance(values, list):
            raise location.invalid("enum", "a list of values")
        null, booleans = False, 0
        numbers: dict[Fraction, None] = {}
        strings: dict[str, None] = {}
        arrays: list[ArraySet] = []
        objects: list[ObjectSet] = []
        for index, value in enumerate(values):
            pointer = location.at(keyword) if keyword == "const" else location.at(keyword, index)
            if value is None:
                null = True
            elif isinstance(value, bool):
                booleans |= 2 if value else 1
            elif isinstance(value, str):
                if self.spelled(value, location, keyword):
                    strings[value] = None
            elif isinstance(value, list):
                prefix = tuple(self._value(item, pointer, step) for step, item in enumerate(value))
                arrays.append(ArraySet((ArrayPart(prefix, FALSE, silent=True),), len(value), len(value)))
            elif isinstance(value, dict):
                if all(self.spelled(name, location, keyword) for name in value):
                    named = {name: self._value(item, pointer, name) for name, item in value.items()}
                    part = ObjectPart(named, rest=FALSE, silent=True)
                    objects.append(ObjectSet((part,), tuple(value), len(value)))
            else:
                numbers[Fraction(value)] = None
        return Shape(
            null,
            booleans,
            (NumberSet(values=tuple(numbers)),) if numbers else (),
            (StringSet(values=tuple(strings)),) if strings else (),
            tuple(arrays),
            tuple(objects),
        )

    def _value(self, value: Any, pointer: str, step: str | int) -> int:
        return self._loader.synthetic({"enum": [value]}, f"{pointer}/{step}")

    def spelled(self, text: str, location: Location, keyword: str) -> bool:
        """Whether a text has a spelling; without one it is refused and dropped."""
        if has_spelling(text):
            return True
        self._refusals.refuse(
            location.pointer, keyword, f"{text!r} contains a lone surrogate, which UTF-8 cannot encode"
        )
        return False

    def _types(self, location: Location) -> set[str] | None:
        value = location.schema.get("type")
        if value is None and "type" not in location.schema:
            return None
        names = value if isinstance(value, list) else [value]
        for name in names:
            if name not in TYPES:
                reason = f"{name!r} is not a JSON type; use one of {', '.join(TYPES)}"
                raise InvalidSchema(reason, pointer=location.pointer, keyword="type")
        return set(names)

    def _numbers(self, location: Location) -> NumberSet:
        bounds: dict[str, tuple[Fraction | None, bool]] = {}
        for side, pick in (("inimum", max), ("aximum", min)):
            value = self._number(location, "m" + side)
            strict = location.get("exclusiveM" + side)
            bound, is_open = value, strict is True and value is not None
            if strict is not None and not isinstance(strict, bool):
                if location.resource.draft == 4:
                    raise location.invalid("exclusiveM" + side, "true or false (draft 4), or name a later draft")
                other = self._number(location, "exclusiveM" + side)
                if bound is None or (other is not None and pick(bound, other) == other):
                    bound, is_open = other, True
            bounds[side] = (bound, is_open)
        multiple = self._number(location, "multipleOf")
        if multiple is not None and multiple <= 0:
            raise location.invalid("multipleOf", "a number above 0")
        (low, low_open), (high, high_open) = bounds["inimum"], bounds["aximum"]
        return NumberSet(low, high, low_open, high_open, multiple)

    def _strings(self, location: Location) -> tuple[StringSet, ...]:
        minimum, maximum = self._count(location, "minLength") or 0, self._count(location, "maxLength")
        tests: list[Test] = []
        pattern = location.get("pattern")
        if pattern is not None:
            test = self.pattern(location, "pattern", pattern)
            tests += [] if test is None else [test]
        name = location.get("format")
        if self._enforce_formats and name is not None:
            if not isinstance(name, str):
                raise location.invalid("format", "the name of a format")
            if name in DEFINED:
                own = name_in(name, location.resource.draft)
                tests.append(Test("format", own, location.pointer if left_out(own) else None))
        if maximum is not None and minimum > maximum:
            return ()
        return (StringSet(minimum, maximum, tuple(tests)) if minimum or maximum is not None or tests else ANY_STRING,)

    def pattern(self, location: Location, keyword: str, pattern: Any) -> Test | None:
        """The test of a pattern; None if it is refused and dropped."""
        if not isinstance(pattern, str):
            raise location.invalid(keyword, "a regular expression as a string")
        test = Test("pattern", pattern)
        try:
            test.node()
        except (InvalidRegex, LimitExceeded) as error:
            self._refusals.refuse(location.pointer, keyword, str(error))
            return None
        return test

    def _arrays(self, location: Location) -> tuple[ArraySet, ...]:
        minimum, maximum = self._count(location, "minItems") or 0, self._count(location, "maxItems")
        prefix: list[int] = []
        rest, evaluates, keyword = TRUE, False, "prefixItems"
        if location.get("prefixItems") is None and isinstance(location.get("items"), list):
            keyword = "items"
        listed = location.get(keyword)
        if listed is not None:
            if not isinstance(listed, list):
                raise location.invalid(keyword, "a list of schemas")
            prefix = [self._loader.child(location, keyword, index) for index in range(len(listed))]
        others = "additionalItems" if keyword == "items" else "items"
        if location.get(others) is not None:
            rest, evaluates = self._loader.child(location, others), True
        parts = (ArrayPart(tuple(prefix), rest, evaluates),) if prefix or evaluates else ()
        unique = location.get("uniqueItems")
        if unique is not None and not isinstance(unique, bool):
            raise location.invalid("uniqueItems", "true or false")
        if maximum is not None and minimum > maximum:
            return ()
        contains = self._contains(location)
        if not parts and not minimum and maximum is None and not contains and not unique:
            return (ANY_ARRAY,)
        least = max([minimum, *(wanted.minimum for wanted in contains)])
        return (ArraySet(parts, least, maximum, contains, location.pointer if unique else None),)

    def _contains(self, location: Location) -> tuple[Contains, ...]:
        if location.get("contains") is None:
            return ()
        least, most = self._count(location, "minContains"), self._count(location, "maxContains")
        least = 1 if least is None else least
        return (Contains(self._loader.child(location, "contains"), least, most, 0, location.pointer),)

    def _objects(self, location: Location) -> tuple[ObjectSet, ...]:
        child: Callable[..., int] = self._loader.child
        named: dict[str, int] = {}
        patterns: list[tuple[str, int]] = []
        properties = self._mapping(location, "properties")
        for name in properties:
            if self.spelled(name, location, "properties"):
                named[name] = child(location, "properties", name)
        for pattern in self._mapping(location, "patternProperties"):
            if self.pattern(location, "patternProperties", pattern) is not None:
                patterns.append((pattern, child(location, "patternProperties", pattern)))
        evaluates = location.get("additionalProperties") is not None
        rest = child(location, "additionalProperties") if evaluates else TRUE
        names = child(location, "propertyNames") if location.get("propertyNames") is not None else TRUE
        required = self._names(location, "required", location.get("required"))
        minimum, maximum = self._count(location, "minProperties") or 0, self._count(location, "maxProperties")
        if maximum is not None and max(minimum, len(required)) > maximum:
            return ()
        parts: tuple[ObjectPart, ...] = ()
        if named or patterns or evaluates or names != TRUE:
            parts = (ObjectPart(named, tuple(patterns), rest, names, evaluates, origin=location.schema),)
        if not parts and not required and not minimum and maximum is None:
            return (ANY_OBJECT,)
        return (ObjectSet(parts, required, max(minimum, len(required)), maximum),)

    def _mapping(self, location: Location, keyword: str) -> dict[str, Any]:
        value = location.get(keyword)
        if value is None and location.schema.get(keyword, {}) is not None:
            return {}
        if not isinstance(value, dict):
            raise location.invalid(keyword, "an object")
        return value

    def _names(self, location: Location, keyword: str, value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise location.invalid(keyword, "a list of names")
        return tuple(dict.fromkeys(name for name in value if self.spelled(name, location, keyword)))

    def _number(self, location: Location, keyword: str) -> Fraction | None:
        value = location.get(keyword)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise location.invalid(keyword, "a number")
        return Fraction(value)

    def _count(self, location: Location, keyword: str) -> int | None:
        value = location.get(keyword)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or value < 0 or value != int(value):
            raise location.invalid(keyword, "a whole number from 0")
        return int(value)
