"""Parses a whole text with the native parser, as `testing.preferred.parse` does."""

from __future__ import annotations

from collections.abc import Sequence

from formatter_core.engine.native_parser import NativeParser
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.captures import Match
from formatter_core.parsing.parts import Part

__all__ = ["parse"]


def parse(grammar: Grammar, data: bytes | Sequence[Part], limits: Limits = DEFAULT_LIMITS) -> Match | None:
    """The match of a text, or None if it is not in the language."""
    found = NativeParser(grammar, limits).captures([data] if isinstance(data, bytes) else data)
    return None if found is None else found.match
