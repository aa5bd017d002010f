"""Read formats from JSON data: the inverse of `Format.to_json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.errors.arguments import shown
from formatter_core.formats.chat_answer import chat_answer
from formatter_core.formats.choice import choice
from formatter_core.formats.combinators import one_of, optional, repeat, sequence, within
from formatter_core.formats.json_schema import from_json as json_schema_from_json
from formatter_core.formats.notations import ebnf, gbnf, kbnf, lark
from formatter_core.formats.number import integer, number
from formatter_core.formats.protocol import Format
from formatter_core.formats.python_type import with_schema
from formatter_core.formats.regex import regex
from formatter_core.formats.special import special
from formatter_core.formats.string import string
from formatter_core.formats.structural_tag import structural_tag
from formatter_core.formats.substring import substring_of
from formatter_core.formats.text import Hole, TextFormat
from formatter_core.formats.token import token
from formatter_core.formats.until import until
from formatter_core.layouts import Layout
from formatter_core.limits import DEFAULT_LIMITS

__all__ = ["from_json"]


def from_json(data: Any, *, type: Any = None) -> Format:
    """Read the format that `to_json` described. Nothing is imported, called or unpickled: the data are only data.

    Args:
        data: the result of `to_json`.
        type: the Python type of the data; for several types, a dict from the names in the data (`"name"`) to the types.
            With `typing.Any`, values stay plain JSON values.

    Raises:
        InvalidFormat: the data do not describe a format, or name a Python type that `type` does not give.
        LimitExceeded: the formats are nested deeper than `Limits.depth`.
    """
    return _Reader(type).read(data, DEFAULT_LIMITS.depth)


class _Reader:
    def __init__(self, types: Any) -> None:
        self._types = types

    def read(self, data: Any, depth: int) -> Format:
        """Read one format, in which other formats may be nested `depth` deep."""
        if not depth:
            raise LimitExceeded("levels", DEFAULT_LIMITS.depth, "the nesting of formats", is_fixed=True)
        try:
            reader = _READERS[data["type"]]
        except (KeyError, TypeError, IndexError):
            names = ", ".join(_READERS)
            raise InvalidFormat(
                f"expected the JSON of a format, an object whose `type` is one of {names}; found {shown(data)}"
            ) from None
        try:
            return reader(self, data, depth - 1)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            reason = f"the format of type {data['type']!r} has a missing or malformed field: {error!r}"
            raise InvalidFormat(reason) from None

    def part(self, data: Any, depth: int) -> str | Format:
        """Read a part of a combined format; a str is literal text."""
        return data if isinstance(data, str) else self.read(data, depth)

    def python_type(self, data: Mapping[str, Any], depth: int) -> Format:
        """Read a Python type that the caller gave; the data have only its schema."""
        schema = json_schema_from_json(data["schema"])
        name = data["name"]
        wanted = self._types.get(name) if isinstance(self._types, dict) else self._types
        if wanted is None:
            raise InvalidFormat(
                f"the data name the Python type {shown(name)}, which only the caller can give; pass it, "
                "from_json(data, type=...), or type=typing.Any for plain JSON values"
            )
        return schema if wanted is Any else with_schema(wanted, schema)


def _text(reader: _Reader, data: Mapping[str, Any], depth: int) -> Format:
    holes: list[Hole] = []
    parts: list[str | Hole] = []
    for part in data["parts"]:
        if isinstance(part, str):
            parts.append(part)
        elif "again" in part:
            parts.append(holes[part["again"]])
        else:
            holes.append(Hole(reader.read(part["format"], depth), part["name"]))
            parts.append(holes[-1])
    return TextFormat(tuple(parts))


def _chat_answer(reader: _Reader, data: Mapping[str, Any], depth: int) -> Format:
    """Read a chat answer; tools get JSON arguments, because the data do not contain Python types."""
    made = chat_answer(
        Layout.from_json(data["layout"]),
        tools=data["tools"],
        tool_choice=data["tool_choice"],
        parallel=data["parallel"],
        reasoning=data["reasoning"],
        reasoning_is_open=data["reasoning_is_open"],
        max_reasoning_tokens=data["max_reasoning_tokens"],
        content=None if data["content"] is None else reader.read(data["content"], depth),
        spelling=data.get("spelling", "any"),
        key_order=data.get("key_order", "schema"),
        string_formats=data.get("string_formats", "enforce"),
        on_unsupported_tool=data.get("on_unsupported_tool", "error"),
        not_strict=data.get("not_strict", "enforce"),
    )
    lead = data.get("lead", "")
    if not isinstance(lead, str):
        raise InvalidFormat(f"`lead` of a chat answer is {shown(lead)}; give text")
    return replace(made, lead=lead)


_Read: TypeAlias = Callable[[_Reader, Mapping[str, Any], int], Format]

#: Readers by type; each takes the data and the remaining levels of nesting.
_READERS: dict[str, _Read] = {
    "text": _text,
    "regex": lambda _, data, __: regex(data["pattern"]),
    "choice": lambda _, data, __: choice(data["options"]),
    "substring_of": lambda _, data, __: substring_of(data["text"]),
    "kbnf": lambda _, data, __: kbnf(data["text"], data["start"]),
    "structural_tag": lambda _, data, __: structural_tag(data["tag"], spelling=data.get("spelling", "any")),
    "lark": lambda _, data, __: lark(data["text"], spelling=data.get("spelling", "any")),
    "ebnf": lambda _, data, __: ebnf(data["text"], data["start"]),
    "gbnf": lambda _, data, __: gbnf(data["text"], data["start"]),
    "until": lambda _, data, __: until(data["end"]),
    "integer": lambda _, data, __: integer(data["minimum"], data["maximum"], spelling=data.get("spelling", "any")),
    "number": lambda _, data, __: number(data["minimum"], data["maximum"], spelling=data.get("spelling", "any")),
    "string": lambda _, data, __: string(data["pattern"], data["max_length"]),
    "sequence": lambda reader, data, depth: sequence(*(reader.part(part, depth) for part in data["parts"])),
    "one_of": lambda reader, data, depth: one_of(*(reader.part(part, depth) for part in data["alternatives"])),
    "optional": lambda reader, data, depth: optional(reader.part(data["part"], depth)),
    "repeat": lambda reader, data, depth: repeat(
        reader.part(data["part"], depth),
        data["minimum"],
        data["maximum"],
        separator=None if data["separator"] is None else reader.part(data["separator"], depth),
    ),
    "within": lambda reader, data, depth: within(reader.read(data["part"], depth), data["max_tokens"]),
    "token": lambda _, data, __: token(data["id"]),
    "special": lambda _, data, __: special(data["name"]),
    "json_schema": lambda _, data, __: json_schema_from_json(data),
    "chat_answer": _chat_answer,
    "python_type": _Reader.python_type,
}
