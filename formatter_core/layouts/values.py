"""Write values outside of JSON objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

__all__ = ["PYTHON_ESCAPES", "ValueStyle", "json_type", "written_value"]

ValueStyle: TypeAlias = Literal["plain", "python", "json", "delimited", "xml"]
#: The escapes of characters between two quotes of Python; the quote itself is escaped, too.
PYTHON_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\x00"}


def written_value(
    value: Any, style: ValueStyle = "plain", quote: str = "", element: Callable[[str, str], str] = "{}{}".format
) -> str:
    """Write a value as text: see `Calls.values`; `element` writes a name and a value for "xml"."""
    if isinstance(value, str):
        if style == "json" or (style == "python" and not quote):
            return json.dumps(value, ensure_ascii=False)
        if style == "python":
            escapes = {**PYTHON_ESCAPES, quote: f"\\{quote}"}
            return quote + "".join(escapes.get(each, each) for each in value) + quote
        return f"{quote}{value}{quote}"
    if style == "xml" and isinstance(value, Mapping | list | tuple):
        inside = value.items() if isinstance(value, Mapping) else [("item", each) for each in value]
        return "".join(element(name, written_value(each, style, quote, element)) for name, each in inside)
    if style == "plain" or isinstance(value, (int, float)) or value is None:
        return str(value) if style == "python" else json.dumps(value, ensure_ascii=False)
    gap = "" if style == "delimited" else " "
    inner = "" if style == "python" else quote
    if isinstance(value, Mapping):
        keys = sorted(value, key=str.lower) if style == "delimited" else list(value)
        named = {key: key if style == "delimited" else json.dumps(key, ensure_ascii=False) for key in keys}
        members = (f"{named[key]}:{gap}{written_value(value[key], style, inner)}" for key in keys)
        return "{" + f",{gap}".join(members) + "}"
    return "[" + f",{gap}".join(written_value(item, style, inner) for item in value) + "]"


def json_type(value: Any) -> str:
    """Return the JSON type of a value; all numbers are one type."""
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", tuple: "array"}
    return "null" if value is None else kinds.get(type(value), "object")
