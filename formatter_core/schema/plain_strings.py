"""Strings of a schema as they are, without quotes and escapes: for notations that write text that way."""

from __future__ import annotations

from typing import Any

from formatter_core.errors import UnsupportedSchema
from formatter_core.grammar import ANY_CHAR, ANY_TEXT, NOTHING, Choice, Intersection, Node, Repeat, literal
from formatter_core.schema.string_formats import is_regular
from formatter_core.schema.strings import Test

__all__ = ["plain_strings"]

_ENFORCED = ("type", "enum", "const", "minLength", "maxLength", "pattern", "format")
#: Tools say no `$schema`.
_DRAFT = 2020
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")


def plain_strings(schema: dict[str, Any], pointer: str) -> Node:
    """The texts that a schema of strings allows, as a regular node.

    Raises:
        UnsupportedSchema: it has a keyword that is enforced in JSON alone.
    """
    for keyword in schema:
        if keyword not in _ENFORCED and keyword not in _ANNOTATIONS:
            reason = "it is not enforced where text is written without quotes; write the tool's schema without it"
            raise UnsupportedSchema(pointer=f"{pointer}/{keyword}", keyword=keyword, reason=reason)
    items: list[Node] = []
    for options in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
        if options is not None:
            items.append(Choice(tuple(literal(option) for option in options if isinstance(option, str))))
    if "minLength" in schema or "maxLength" in schema:
        minimum, maximum = int(schema.get("minLength", 0)), _maybe_int(schema.get("maxLength"))
        items.append(NOTHING if maximum is not None and minimum > maximum else Repeat(ANY_CHAR, minimum, maximum))
    if "pattern" in schema:
        items.append(Test("pattern", schema["pattern"]).node())
    if is_regular(str(schema.get("format")), _DRAFT):
        items.append(Test("format", schema["format"]).node())
    return Intersection((ANY_TEXT, *items)) if items else ANY_TEXT


def _maybe_int(value: Any) -> int | None:
    return None if value is None else int(value)
