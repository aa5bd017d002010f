"""Write formats in other grammar notations."""

from __future__ import annotations

from typing import Any

from formatter_core.formats.coercion import as_format
from formatter_core.grammar import Capture, Grammar, Node, is_internal, map_children
from formatter_core.limits import DEFAULT_LIMITS, Limits, checked_limits
from formatter_core.syntax import bnf, kbnf

__all__ = ["to_gbnf", "to_kbnf"]


def to_gbnf(format: Any, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return a format as a grammar in GBNF, which llama.cpp reads; its start rule is `root`.

    The grammar has the language of the format. Captures are omitted, because GBNF has none.

    Args:
        format: a format that `Compiler.compile` accepts.
        limits: the maximum cost of the format.

    Raises:
        InvalidGrammar: GBNF cannot express a part, which the message names: left recursion, bytes that are not whole
            characters, a special token whose name is not of the form `<…>`.
        FormatterError: the format is invalid.
    """
    return bnf.to_gbnf(as_format(format).to_grammar(checked_limits(limits)).grammar.lowered, limits)


def to_kbnf(format: Any, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return a format as a grammar in KBNF, for `formats.kbnf`; its start rule is `start`.

    The grammar has the language of the format, its captures and its preferences; the conversion of values, such as
    reading JSON, is not part of a grammar.

    Args:
        format: a format that `Compiler.compile` accepts.
        limits: the maximum cost of the format.

    Raises:
        InvalidGrammar: KBNF cannot express a part, which the message names.
        FormatterError: the format is invalid.
    """
    grammar = as_format(format).to_grammar(checked_limits(limits)).grammar.lowered
    rules = {name: _without_internal_captures(body) for name, body in grammar.rules.items()}
    return kbnf.to_kbnf(Grammar(rules, grammar.start), limits)


def _without_internal_captures(node: Node) -> Node:
    if isinstance(node, Capture) and is_internal(node.name):
        return _without_internal_captures(node.item)
    return map_children(node, _without_internal_captures)
