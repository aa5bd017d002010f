"""Finds the length of the shortest text of a grammar, and whether there is any, by the native library."""

from __future__ import annotations

from typing import cast

from formatter_core.engine.native_library import Handle, bounds_of, load
from formatter_core.engine.native_parser import NativeParser, parser_of
from formatter_core.engine.shortest_values import without_distinct
from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import AnySpecial, Grammar, Node, Program, Special, literal, without_specials
from formatter_core.limits import DEFAULT_LIMITS, Limits

__all__ = ["derives_nothing", "is_empty_program", "min_bytes"]


def min_bytes(grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> int:
    """Find the length in bytes of the shortest completion; a `Token` counts no bytes.

    Raises:
        InvalidGrammar: the language is empty.
        LimitExceeded: the search takes more than `limits` allow.
    """
    found = parser_of(grammar, limits).shortest()
    if found is None:
        given = grammar.lowered
        rules = {name: without_distinct(body, limits) for name, body in given.rules.items()}
        plain = Grammar(rules, given.start)
        found = NativeParser(plain, limits).shortest()
        if found is None:  # a distinct member that comes at most once is left; written out, none is
            found = cast("int", NativeParser(plain.written_out, limits).shortest())
    return found


def derives_nothing(grammar: Grammar, limits: Limits) -> bool:
    """Tell whether the grammar derives no text; a special token counts as any text.

    Raises:
        LimitExceeded: the grammar exceeds a limit.
    """
    try:
        NativeParser(without_specials(grammar, _any_text), limits)
    except InvalidGrammar:
        return True
    return False


def is_empty_program(program: Program, limits: Limits) -> bool:
    """Tell the same of a program without special tokens.

    Raises:
        LimitExceeded: the grammar exceeds a limit.
    """
    library, data, bounds = load(), program.data, bounds_of(limits)
    try:
        Handle(library.fcn_parser_free, limits, library.fcn_parser_new, data, len(data), bounds)
    except InvalidGrammar:
        return True
    return False


def _any_text(_: Special | AnySpecial) -> Node:
    return literal("special")
