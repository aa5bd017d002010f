"""The string formats of JSON Schema (2020-12, section 7.3) as regular languages of texts."""

from __future__ import annotations

from formatter_core.grammar import Node
from formatter_core.regex import parse_ecma

__all__ = ["KNOWN_FORMATS", "REGULAR_FORMATS", "format_node"]

#: Every format name that the drafts from 4 to 2020-12 define.
KNOWN_FORMATS = frozenset(
    [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ]
)

_PATTERNS: dict[str, str] = {}

REGULAR_FORMATS = frozenset(_PATTERNS)


def format_node(name: str) -> Node:
    """The texts that have a format of `REGULAR_FORMATS`."""
    return parse_ecma(_PATTERNS[name])
