"""Formats from JSON data: the inverse of `Format.to_json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from formatter_core.errors import InvalidFormat, LimitExceeded
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
from formatter_core.limits import DEFAULT_LIMITS

__all__ = ["from_json"]


def from_json(data: Any) -> Format:
    """The format that `to_json` described.

    A Python type comes back as its JSON Schema: the data can name no class, so values are plain JSON values.

    Raises:
        InvalidFormat: the data describes no format.
        LimitExceeded: formats nested deeper than `Limits.depth`.
    """
    return _read(data, DEFAULT_LIMITS.depth)


def _read(data: Any, depth: int) -> Format:
    if not depth:
        raise LimitExceeded("depth", DEFAULT_LIMITS.depth, "the nesting of formats")
    try:
        reader = _READERS[data["type"]]
    except (KeyError, TypeError, IndexError) as error:
        raise InvalidFormat(f"a format as JSON is an object whose `type` is one of {', '.join(_READERS)}") from error
    try:
        return reader(data, depth - 1)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidFormat(f"the format of type {data['type']!r} lacks or garbles a part: {error!r}") from error


def _text(data: Mapping[str, Any], depth: int) -> Format:
    holes: list[Hole] = []
    parts: list[str | Hole] = []
    for part in data["parts"]:
        if isinstance(part, str):
            parts.append(part)
        elif "again" in part:
            parts.append(holes[part["again"]])
        else:
            holes.append(Hole(_read(part["format"], depth), part["name"]))
            parts.append(holes[-1])
    return TextFormat(tuple(parts))


_Reader: TypeAlias = Callable[[Mapping[str, Any], int], Format]

#: By type: what makes a format of the data, given how deep it may be nested.
_READERS: dict[str, _Reader] = {
    "text": _text,
    "regex": lambda data, _: regex(data["pattern"]),
    "choice": lambda data, _: choice(data["options"]),
    "substring_of": lambda data, _: substring_of(data["text"]),
    "kbnf": lambda data, _: kbnf(data["text"], data["start"]),
    "until": lambda data, _: until(data["end"]),
    "integer": lambda data, _: integer(data["minimum"], data["maximum"]),
    "number": lambda data, _: number(data["minimum"], data["maximum"]),
    "string": lambda data, _: string(data["pattern"], data["max_length"]),
    "sequence": lambda data, depth: sequence(*(_read(part, depth) for part in data["parts"])),
    "token": lambda data, _: token(data["id"]),
    "json_schema": lambda data, _: json_schema_from_json(data),
}
