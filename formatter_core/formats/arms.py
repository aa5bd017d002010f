"""Decide which alternatives of a union a JSON value belongs to, by its text and the alternatives' languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from formatter_core.engine.native_parser import parser_of
from formatter_core.errors import InvalidGrammar, UnsatisfiableSchema
from formatter_core.errors.pointers import unescaped
from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.json_values import is_integral, write_value
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits

__all__ = ["Arms"]

#: Options for a schema's language, besides those of the whole format, in order; the first one under which some
#: alternatives match the text decides. Canonical spelling comes first, so that a text has the same value however widely
#: it is read. Keys in any order come next: some layouts of tool calls write them so.
_READINGS: tuple[dict[str, Any], ...] = (
    {"spelling": "canonical"},
    {"spelling": "canonical", "key_order": "any"},
    {"spelling": "any", "key_order": "any"},
)
#: How many levels of a value are compared before its text is parsed.
_LEVELS_SEEN = 3
#: Maximum schemas, each inside another, that are read for one value.
_MAX_REFERENCES = 8
_KINDS = {bool: "boolean", str: "string", list: "array", dict: "object", type(None): "null"}

#: A grammar; None for a language without texts.
_Language: TypeAlias = Grammar | None


class Arms:
    """A decision between alternatives, for all unions of one format.

    Args:
        whole: the schema with the options of the format, and the definitions that alternatives refer to.
        limits: the maximum cost of reading one value.
    """

    def __init__(self, whole: JsonSchemaFormat, limits: Limits) -> None:
        self._whole = whole
        self._limits = limits
        self._languages: dict[tuple[int, int], _Language] = {}

    def of(self, value: Any, alternatives: Sequence[Mapping[str, Any]]) -> Iterator[int]:
        """Return the indices of the schemas that match a value of `read_exact`, in order; at least one.

        The value must belong to the union. Each call must pass the same schema objects.
        """
        possible = [index for index, schema in enumerate(alternatives) if self._may_have(schema, value, _LEVELS_SEEN)]
        if len(possible) == 1:
            yield possible[0]
            return
        text = write_value(value, ensure_ascii=False).encode()
        for reading in range(len(_READINGS)):
            found = [index for index in possible if self._has(alternatives[index], reading, text)]
            yield from found
            if found:
                return
        yield from possible or range(len(alternatives))

    def _has(self, schema: Mapping[str, Any], reading: int, text: bytes) -> bool:
        key = id(schema), reading
        if key not in self._languages:
            self._languages[key] = self._language(schema, reading)
        language = self._languages[key]
        if language is None:
            return False
        read = parser_of(language, self._limits).read([text])
        return read is not None and read.can_stop()

    def _language(self, schema: Mapping[str, Any], reading: int) -> _Language:
        try:
            grammar = self._whole.grammar_of({**schema, **self._definitions()}, self._limits, **_READINGS[reading])
            grammar.check(self._limits)
        except (UnsatisfiableSchema, InvalidGrammar):
            return None
        return grammar

    def _definitions(self) -> dict[str, Any]:
        whole = self._whole.schema
        return {"$defs": whole["$defs"]} if isinstance(whole, dict) and "$defs" in whole else {}

    def _may_have(self, schema: Any, value: Any, levels: int, references: int = 0) -> bool:
        """Return False only if a schema certainly does not match a value. This is faster than its language."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or not levels or references > _MAX_REFERENCES:
            return True

        def may(part: Any) -> bool:
            return self._may_have(part, value, levels, references + 1)

        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith("#/$defs/"):
            name = unescaped(target.removeprefix("#/$defs/"))
            if not may(self._definitions().get("$defs", {}).get(name, True)):
                return False
        for union in ("anyOf", "oneOf"):
            if union in schema and not any(map(may, schema[union])):
                return False
        if not all(map(may, schema.get("allOf", ()))):
            return False
        if "type" in schema and not _has_type(value, schema["type"]):
            return False
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if listed is not None and not any(_may_equal(value, one) for one in listed):
            return False
        return not isinstance(value, dict) or self._may_have_members(schema, value, levels)

    def _may_have_members(self, schema: Mapping[str, Any], value: Mapping[str, Any], levels: int) -> bool:
        properties = schema.get("properties", {})
        if not all(name in value for name in schema.get("required", ())):
            return False
        is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if is_closed and not all(name in properties for name in value):
            return False
        return all(
            self._may_have(properties[name], one, levels - 1) for name, one in value.items() if name in properties
        )


def _has_type(value: Any, types: Any) -> bool:
    names = [types] if isinstance(types, str) else types
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind in names
    return "number" in names or ("integer" in names and is_integral(value))


def _may_equal(value: Any, listed: Any) -> bool:
    numbers = isinstance(listed, (int, float, Decimal)) and not isinstance(listed, bool)
    if type(value) in _KINDS:
        return not numbers and (isinstance(value, (list, dict)) or (type(value) is type(listed) and value == listed))
    return numbers
