"""How long the shortest text of a grammar is, and whether there is any: the native library finds out."""

from __future__ import annotations

from functools import cache

from formatter_core.engine.native import NativeEngine
from formatter_core.engine.native_parser import NativeParser
from formatter_core.engine.shortest_values import without_distinct
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    EMPTY,
    AnySpecial,
    Grammar,
    Node,
    Region,
    Special,
    Terminal,
    Token,
    literal,
    map_children,
    without_specials,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["derives_nothing", "min_bytes"]


def min_bytes(grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> int:
    """The length in bytes of the shortest completion; a `Token` counts no bytes.

    Raises:
        InvalidGrammar: the language is empty.
        LimitExceeded: the search takes more than `limits` allow.
    """
    lowered = grammar.lowered
    rules = {name: _in_bytes(without_distinct(body, limits)) for name, body in lowered.rules.items()}
    state = NativeEngine().compile(Grammar(rules, lowered.start), _bytes(), limits).start()
    needed = state.set_budget(0, ())
    if needed is None:
        raise LimitExceeded("work", limits.work, "the search for the shortest output")
    return needed - 1  # without the end


def derives_nothing(grammar: Grammar, limits: Limits) -> bool:
    """Whether no text at all is derived; any text will do for a special token.

    Raises:
        LimitExceeded: the grammar is past a limit.
    """
    try:
        NativeParser(without_specials(grammar, _any_text), limits)
    except InvalidGrammar:
        return True
    return False


@cache
def _bytes() -> Vocabulary:
    return Vocabulary.of_bytes()


def _in_bytes(node: Node) -> Node:
    """The node without what counts tokens, so that each token that is left is a byte."""
    if isinstance(node, Token):
        return EMPTY
    if isinstance(node, Region):
        return _in_bytes(node.item)
    return node if isinstance(node, Terminal) else map_children(node, _in_bytes)


def _any_text(_: Special | AnySpecial) -> Node:
    return literal("special")
