"""Strings of a schema as they are, without quotes and escapes: for notations that write text that way."""

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
    """Tell what a schema allows besides objects of JSON: its texts as they are, and its other types.

    Raises:
        InvalidSchema: it is not a schema.
        UnsupportedSchema: a keyword that cannot be enforced exactly.
        LimitExceeded: it needs more than the limits allow.
    """
    return _found(schema, limits, registry, enforce_formats, None)


def allows(schema: Any, text: str, limits: Limits) -> bool:
    """Tell whether a schema allows a text.

    Raises:
        FormatterError: what `plain_strings` raises, or the text may be one that is left out of a format.
    """
    return _found(schema, limits, None, True, text).holds


@lru_cache(maxsize=1024)
def matches(pattern: str, text: str, limits: Limits) -> bool:
    """Tell whether a pattern of ECMA 262 is found in a text.

    Raises:
        InvalidRegex: it cannot be read.
    """
    parse_ecma(pattern)  # which says what is wrong
    return allows({"type": "string", "pattern": pattern}, text, limits)


def _found(
    schema: Any, limits: Limits, registry: Mapping[str, Any] | None, enforce_formats: bool, text: str | None
) -> Plain:
    json = document(schema, documents(registry))
    found = plain(json, limits, enforce_formats=enforce_formats, text=text)
    if isinstance(found, Refused):
        raise error_of(found, limits, lenient=False)
    return found
