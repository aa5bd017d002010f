"""Lark text -> tokens."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

from formatter_core.errors import LimitExceeded
from formatter_core.limits import Limits
from formatter_core.syntax.source import Source

__all__ = ["Lexeme", "tokens_of"]

_TOKEN = re.compile(
    r"""
      (?P<blank>(?:[ \t]+|(?:\#|//)[^\r\n]*)+)
    | (?P<newline>(?:\r?\n[ \t]*)+)
    | (?P<string>"(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|[^"\\\x00-\x1f\x7f])*"i?)
    | (?P<regex>/(?![*/])(?:\\.|[^/\\\r\n])+/[imslux]*)
    | (?P<special><[^<>\s]+>)
    | (?P<data>%(?:json|regex|llguidance)(?=[\s{]))
    | (?P<keyword>%[a-z]+)
    | (?P<rule>!?[_?]?[a-z][_a-z0-9\-]*)
    | (?P<terminal>_?[A-Z][_A-Z0-9\-]*)
    | (?P<number>[+-]?[0-9]+(?:(?=\.\.)|\.[0-9]+)?)
    | (?P<reference>@[A-Za-z0-9_\-]+)
    | (?P<mark>->|\.\.|::|[:|()\[\]{}~&*+?,.=_])
    """,
    re.VERBOSE,
)


class Lexeme(NamedTuple):
    """One symbol; `kind` is a group's name above, the mark itself, or "end". `value` is the JSON data after `%json`."""

    kind: str
    text: str
    offset: int
    value: Any = None


def tokens_of(source: Source, limits: Limits) -> list[Lexeme]:
    """Return all symbols of the text, and one "end".

    Raises:
        InvalidGrammar: a character that begins none, or JSON data with a fault.
    """
    found: list[Lexeme] = []
    at = 0
    while at < len(source.text):
        match = _TOKEN.match(source.text, at)
        if match is None:
            raise source.fault(at, "expected a rule, a terminal, a text, a regex or a mark of Lark")
        kind, value, end = str(match.lastgroup), None, match.end()
        if kind == "data":
            value, end = _data(source, match.group(), end, limits)
        if kind != "blank":
            found.append(Lexeme(match.group() if kind == "mark" else kind, match.group(), at, value))
        at = end
    found.append(Lexeme("end", "", at))
    return found


def _data(source: Source, keyword: str, at: int, limits: Limits) -> tuple[Any, int]:
    while source.text[at : at + 1].isspace():
        at += 1
    try:
        value, end = json.JSONDecoder(parse_float=Decimal).raw_decode(source.text, at)
    except json.JSONDecodeError as error:
        raise source.fault(error.pos, f"the JSON after `{keyword}` is malformed: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise LimitExceeded("depth", limits.depth, f"the JSON at {source.where(at)}") from error
    return value, end
