"""Explains what may come next and why; computed by the plain parser for every engine."""

from __future__ import annotations

from collections.abc import Sequence

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.parsing import Recognizer
from formatter_core.parsing.expectation import Expected, listed

__all__ = ["describe", "describe_cut", "expected_after", "explain_token", "recognizer_after"]

_SHOWN = 8


def describe(expected: Sequence[Expected]) -> str:
    """What may come next as text, shortened if long."""
    by_place: dict[str, list[str]] = {}
    for what, where in expected[:_SHOWN]:
        by_place.setdefault(where, []).append(what)
    shown = [f"{listed(whats, 'or')} {where}".rstrip() for where, whats in by_place.items()]
    return ", or ".join(shown) + (f" (and {len(expected) - _SHOWN} more)" if len(expected) > _SHOWN else "")


def describe_cut(expected: Sequence[Expected], how: str) -> str:
    """Where and how an output ended too early, and what was expected there."""
    places = {where for what, where in expected if what != "the end"}
    if len(places) != 1 or "" in places:
        return f"output ended too early{how}: expected {describe(expected)}"
    return f"output ended {places.pop()}{how}: expected {describe([Expected(what, '') for what, _ in expected])}"


def recognizer_after(grammar: Grammar, parts: Sequence[bytes | int], limits: Limits) -> Recognizer:
    """The parser after an accepted text: its bytes, and the ids of tokens that the grammar names.

    Raises:
        LimitExceeded: reading the text takes more steps than the limits allow.
    """
    recognizer = Recognizer(grammar, limits)
    for part in parts:
        if isinstance(part, int):
            recognizer.push_token(part)
        else:
            for byte in part:
                recognizer.push(byte)
    return recognizer


def expected_after(grammar: Grammar, parts: Sequence[bytes | int], limits: Limits) -> str:
    """What may come next, in words. It never fails: explanations are best effort."""
    try:
        return describe(recognizer_after(grammar, parts, limits).expected())
    except LimitExceeded:
        return "(explanation exceeded Limits.work)"


def explain_token(recognizer: Recognizer, token_id: int, text: bytes | None, so_far: str) -> tuple[bool, str]:
    """Whether a token with this text is allowed, and why; the recognizer stands before it and is used up.

    Raises:
        LimitExceeded: reading the token takes more steps than the limits allow.
    """
    expected = describe(recognizer.expected()) or "the end"
    if token_id in recognizer.next_tokens():
        return True, f"{so_far} the format asks for this token by its id"
    if not text:
        return False, f"the token has no text (a special token, or an unused id); {so_far} expected {expected}"
    for place, byte in enumerate(text):
        if not recognizer.push(byte):
            return False, f"{so_far} expected {expected}, but {text!r} does not match at its byte {place}"
    return True, f"{so_far} expected {expected}, and {text!r} matches"
