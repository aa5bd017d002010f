"""Resolution of special tokens: from names in a format to ids in one vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Collection

from formatter_core.grammar.grammar import Grammar
from formatter_core.grammar.nodes import (
    NOTHING,
    WITHOUT_PARTS,
    AnySpecial,
    Node,
    Special,
    Terminal,
    Token,
    literal,
    map_children,
)
from formatter_core.limits.turns import give_way

__all__ = ["as_text", "without_specials", "without_tokens"]


def without_specials(grammar: Grammar, resolve: Callable[[Special | AnySpecial], Node]) -> Grammar:
    """Return the grammar with each `Special` and `AnySpecial` replaced by the node that `resolve` returns."""

    def replace(node: Node) -> Node:
        if type(node) in WITHOUT_PARTS:
            return node
        give_way()
        return resolve(node) if isinstance(node, (Special, AnySpecial)) else map_children(node, replace)

    return _replaced(grammar, replace)


def without_tokens(grammar: Grammar, token_ids: Collection[int]) -> Grammar:
    """Return the grammar without these tokens: they are never allowed."""

    def replace(node: Node) -> Node:
        if isinstance(node, Token):
            return NOTHING if node.token_id in token_ids else node
        return node if isinstance(node, Terminal) else map_children(node, replace)

    return _replaced(grammar, replace)


def _replaced(grammar: Grammar, replace: Callable[[Node], Node]) -> Grammar:
    return Grammar({name: replace(body) for name, body in grammar.rules.items()}, grammar.start)


def as_text(special: Special | AnySpecial) -> Node:
    """Return the name of the token, which is its spelling in a text that was decoded with special tokens."""
    return NOTHING if isinstance(special, AnySpecial) else literal(special.name)
