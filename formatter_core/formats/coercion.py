"""Turn shorthands into formats, for `Compiler.compile`, holes and adapters."""

from __future__ import annotations

import json
import re
import types
import typing
from typing import Any

from formatter_core.errors import InvalidFormat, InvalidSchema
from formatter_core.errors.arguments import shown
from formatter_core.formats.choice import choice
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.protocol import Format
from formatter_core.formats.python_type import PythonTypeFormat, python_type
from formatter_core.formats.regex import regex

__all__ = ["as_format", "widest_reading"]


def as_format(value: Any, **options: Any) -> Format:
    """Return a format: a format unchanged; a schema (`dict`, `bool`, or JSON text) as `json_schema`; a type or callable
    as `python_type`; a list of texts as `choice`; a pattern of Python's `re` as `regex`.

    `options` are those of `json_schema` and `python_type`; they apply to a format made here. None is rejected:
    otherwise a forgotten argument would become the answer `null`. For the type of None, pass `type(None)`.

    Raises:
        InvalidFormat: the value is none of these.
    """
    if isinstance(value, JsonSchemaFormat):  # checking a protocol is slow
        return value
    if isinstance(value, (dict, bool)):
        return json_schema(value, **options)
    if isinstance(value, str):
        return _from_text(value, options)
    if isinstance(value, list):
        return choice(_texts(value))
    if isinstance(value, re.Pattern):
        return regex(value)
    if isinstance(value, type) or typing.get_origin(value) is not None or isinstance(value, types.UnionType):
        return python_type(value, **options)
    build = getattr(value, "build", None)
    if build is not None:
        value = build()
    if isinstance(value, Format):
        return value
    if callable(value):
        return python_type(value, **options)
    if value is None:
        raise InvalidFormat("None is not a format; for the JSON value null give type(None)")
    raise InvalidFormat(
        f"{type(value).__name__} is not a format; pass a format of formatter_core.formats, a FormatterBuilder, "
        "a JSON Schema, a Python type, a list of texts or a re.Pattern, or formats.example(value) for an example"
    )


def widest_reading(value: Any, format: Format) -> Format | None:
    """Return the format with the most texts for reading existing text, if `value` is a shorthand for JSON.

    It allows any spelling and any order. Return None for a format of the caller, which is used unchanged, and for a
    shorthand that is not JSON.
    """
    if value is format or not isinstance(format, (JsonSchemaFormat, PythonTypeFormat)):
        return None
    # A builder, for example, has its own options.
    return None if hasattr(value, "build") else as_format(value, spelling="any", key_order="any")


def _from_text(text: str, options: dict[str, Any]) -> Format:
    if text.lstrip(" \t\n\r").startswith(("{", "true", "false")):
        try:
            return json_schema(text, **options)
        except InvalidSchema as error:
            if not isinstance(error.__context__, json.JSONDecodeError):
                raise
    raise InvalidFormat(
        "a str must be the JSON text of a schema, and this one is not; "
        "use formats.regex(pattern), formats.kbnf(text) or formats.choice([text])"
    )


def _texts(options: list[Any]) -> list[str]:
    for option in options:
        if not isinstance(option, str):
            raise InvalidFormat(
                f"a list must hold only texts to choose from, found {shown(option)}; use formats.one_of(...) "
                "for a choice of formats, or formats.example(value) for an example"
            )
    return options
