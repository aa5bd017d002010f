"""Handle strings of a schema without quotes and escapes, for notations that write strings that way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from formatter_core.engine.native_leaves import Plain, plain
from formatter_core.engine.native_schema import Refused
from formatter_core.limits import Limits
from formatter_core.schema.library import document, documents
from formatter_core.schema.refusals import error_of
from formatter_core.syntax.regex import parse_ecma

__all__ = ["allows", "matches", "plain_strings"]


def plain_strings(
    schema: Any, limits: Limits, *, registry: Mapping[str, Any] | None = None, enforce_formats: bool = True
) -> Plain:
    """Return what a schema allows apart from JSON objects: its strings without quotes, and its other types.

    Raises:
        InvalidSchema: the schema is invalid.
        UnsupportedSchema: a keyword cannot be enforced exactly.
        LimitExceeded: the schema needs more than the limits allow.
    """
    return _found(schema, limits, registry, enforce_formats, None)


def allows(schema: Any, text: str, limits: Limits) -> bool:
    """Return whether a schema allows a text.

    Raises:
        FormatterError: an error of `plain_strings`, or the text may be one that a format leaves out.
    """
    return _found(schema, limits, None, True, text).holds


@lru_cache(maxsize=1024)
def matches(pattern: str, text: str, limits: Limits) -> bool:
    """Return whether a pattern of ECMA 262 is found in a text.

    Raises:
        InvalidRegex: the pattern is invalid.
    """
    parse_ecma(pattern)  # its error says what is wrong
    return allows({"type": "string", "pattern": pattern}, text, limits)


def _found(
    schema: Any, limits: Limits, registry: Mapping[str, Any] | None, enforce_formats: bool, text: str | None
) -> Plain:
    json = document(schema, documents(registry))
    found = plain(json, limits, enforce_formats=enforce_formats, text=text)
    if isinstance(found, Refused):
        raise error_of(found, limits, lenient=False)
    return found
