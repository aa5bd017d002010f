"""Explain what may come next, and why."""

from __future__ import annotations

from collections.abc import Sequence

from formatter_core.engine.native_parser import Reading, parser_of
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.parsing.expectation import Expected, listed, place_in_words
from formatter_core.parsing.parts import Part

__all__ = ["describe", "describe_cut", "expected_after", "explain_token", "in_words", "reader_of"]

_SHOWN = 8
_BLANKS = ("` `", r"`\n`", r"`\t`", r"`\r`")


def describe(expected: Sequence[Expected]) -> str:
    """Describe what may come next as text, shortened if long, with the places of a schema as JSON pointers."""
    by_place: dict[str, list[str]] = {}
    for what, where in expected[:_SHOWN]:
        by_place.setdefault(where, []).append(what)
    shown = [f"{listed(whats, 'or')} {where}".rstrip() for where, whats in by_place.items()]
    return ", or ".join(shown) + (f" (and {len(expected) - _SHOWN} more)" if len(expected) > _SHOWN else "")


def describe_cut(expected: Sequence[Expected], how: str) -> str:
    """Describe where and how an output ended too early, and what was expected there."""
    expected = in_words(expected)
    places = {where for what, where in expected if what != "the end"}
    if len(places) != 1 or "" in places:
        return f"output ended too early{how}: expected {describe(expected)}"
    (place,) = places
    ended = f"{place[3:]} is not finished" if place.startswith("in `") else f"output ended {place}"
    return f"{ended}{how}: expected {describe([Expected(what, '') for what, _ in expected])}"


def in_words(expected: Sequence[Expected]) -> list[Expected]:
    """Return the expectations for readers of outputs: schema values by their names, and no blanks
    beside anything else.
    """
    is_schema = any(where.startswith("at #") for _, where in expected)
    visible = [one for one in expected if one.what not in _BLANKS] if is_schema else []
    return [Expected(what, place_in_words(where)) for what, where in visible or expected]


def reader_of(grammar: Grammar, limits: Limits) -> Reading:
    """Return a reader for a text that is to be explained, with the names of the grammar's rules."""
    parser = parser_of(grammar, limits)
    parser.name_rules(*grammar.rule_names(limits))
    return parser.reading()


def expected_after(grammar: Grammar, parts: Sequence[Part], limits: Limits) -> str:
    """Describe what may come after an accepted text. It never raises: explanations are best effort."""
    try:
        reader = reader_of(grammar, limits)
        reader.append(parts)
        return describe(reader.expected())
    except LimitExceeded:
        return "(explanation exceeded Limits.work)"


def explain_token(reader: Reading, token_id: int, text: bytes | None, so_far: str) -> tuple[bool, str]:
    """Explain whether and why a token with this text is allowed; the reader is just before it, and cannot be reused.

    Raises:
        LimitExceeded: reading the token takes more steps than the limits allow.
    """
    expected = describe(reader.expected()) or "the end"
    if token_id in reader.next_tokens():
        return True, f"{so_far} the format asks for this token by its id"
    if not text:
        return False, f"the token has no text (a special token, or an unused id); {so_far} expected {expected}"
    before = reader.length
    if not reader.append([text]):
        at = reader.length - before
        return False, f"{so_far} expected {expected}, but {text!r} does not match at its byte {at}"
    return True, f"{so_far} expected {expected}, and {text!r} matches"
