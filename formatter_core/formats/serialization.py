"""Formats from JSON data: the inverse of `Format.to_json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.format import Format
from formatter_core.formats.choice import choice
from formatter_core.formats.json_schema import from_json as json_schema_from_json
from formatter_core.formats.kbnf import kbnf
from formatter_core.formats.number import integer, number
from formatter_core.formats.regex import regex
from formatter_core.formats.sequence import sequence
from formatter_core.formats.string import string
from formatter_core.formats.substring import substring_of
from formatter_core.formats.text import Hole, TextFormat
from formatter_core.formats.token import token
from formatter_core.formats.until import until

__all__ = ["from_json"]


def from_json(data: Any) -> Format:
    """The format that `to_json` described.

    A Python type comes back as its JSON Schema: the data can name no class, so values are plain JSON values.

    Raises:
        InvalidFormat: the data describes no format.
    """
    try:
        reader = _READERS[data["type"]]
    except (KeyError, TypeError) as error:
        raise InvalidFormat(f"a format as JSON is an object whose `type` is one of {', '.join(_READERS)}") from error
    try:
        return reader(data)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidFormat(f"the format of type {data['type']!r} lacks or garbles a part: {error!r}") from error


def _text(data: Mapping[str, Any]) -> Format:
    holes: list[Hole] = []
    parts: list[str | Hole] = []
    for part in data["parts"]:
        if isinstance(part, str):
            parts.append(part)
        elif "again" in part:
            parts.append(holes[part["again"]])
        else:
            holes.append(Hole(from_json(part["format"]), part["name"]))
            parts.append(holes[-1])
    return TextFormat(tuple(parts))


_READERS: dict[str, Callable[[Mapping[str, Any]], Format]] = {
    "text": _text,
    "regex": lambda data: regex(data["pattern"]),
    "choice": lambda data: choice(data["options"]),
    "substring_of": lambda data: substring_of(data["text"]),
    "kbnf": lambda data: kbnf(data["text"], data["start"]),
    "until": lambda data: until(data["end"]),
    "integer": lambda data: integer(data["minimum"], data["maximum"]),
    "number": lambda data: number(data["minimum"], data["maximum"]),
    "string": lambda data: string(data["pattern"], data["max_length"]),
    "sequence": lambda data: sequence(*(from_json(part) for part in data["parts"])),
    "token": lambda data: token(data["id"]),
    "json_schema": json_schema_from_json,
}
