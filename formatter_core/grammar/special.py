"""Special tokens by name: the step from what a format asks for to what one vocabulary has."""

from __future__ import annotations

from collections.abc import Callable

from formatter_core.grammar.nodes import Grammar, Node, Special, Terminal, literal, map_children

__all__ = ["as_text", "without_specials"]


def without_specials(grammar: Grammar, resolve: Callable[[Special], Node]) -> Grammar:
    """The same grammar with what `resolve` gives in place of each `Special`."""

    def replace(node: Node) -> Node:
        if isinstance(node, Special):
            return resolve(node)
        return node if isinstance(node, Terminal) else map_children(node, replace)

    return Grammar({name: replace(body) for name, body in grammar.rules.items()}, grammar.start)


def as_text(special: Special) -> Node:
    """The name of the token, which is how it stands in a text that was decoded with its special tokens."""
    return literal(special.name)
