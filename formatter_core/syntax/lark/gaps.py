"""Lark's `%ignore`: text allowed between lexemes, but neither before the first nor after the last."""

from __future__ import annotations

from collections.abc import Set

from formatter_core.grammar import (
    EMPTY,
    NOTHING,
    Capture,
    Choice,
    Node,
    Reference,
    Repeat,
    Sequence,
    holds_of_parts,
    map_children,
    rules_where,
)

__all__ = ["with_gaps"]

_FIRST = "first "


def with_gaps(rules: dict[str, Node], gap: Node, start: str) -> dict[str, Node]:
    """Return the rules with the gap before every lexeme, and a start rule that has none before the first.

    A name that is not a rule of `rules` is a lexeme: a terminal, a token, or a rule of another grammar.
    """
    return _Gaps(rules, gap).rules(start)


class _Gaps:
    def __init__(self, rules: dict[str, Node], gap: Node) -> None:
        self._rules = rules
        self._gap = gap
        self._free = rules_where(rules, self._is_free)

    def rules(self, start: str) -> dict[str, Node]:
        made = {name: self._later(body) for name, body in self._rules.items()}
        made.update((_FIRST + name, self._first(body)) for name, body in self._rules.items())
        made[start + " with gaps"] = (
            Choice((Reference(_FIRST + start), EMPTY)) if start in self._free else Reference(_FIRST + start)
        )
        return made

    def _is_lexeme(self, node: Node) -> bool:
        if isinstance(node, Reference):
            return node.name not in self._rules
        return not isinstance(node, (Sequence, Choice, Repeat, Capture))

    def _later(self, node: Node) -> Node:
        """Return the gap before every lexeme."""
        if self._is_lexeme(node):
            return Sequence((self._gap, node))
        if isinstance(node, Capture):  # which does not include the gap before it
            inside = Sequence((self._gap, self._first(node)))
            return Choice((inside, Capture(node.name, EMPTY))) if self._is_free(node.item, self._free) else inside
        return node if isinstance(node, Reference) else map_children(node, self._later)

    def _first(self, node: Node) -> Node:
        """Return a node for derivations with at least one lexeme, and no gap before the first."""
        if self._is_lexeme(node):
            return node
        if isinstance(node, Reference):
            return Reference(_FIRST + node.name)
        if isinstance(node, Choice):
            return Choice(tuple(map(self._first, node.items)))
        if isinstance(node, Capture):
            return Capture(node.name, self._first(node.item))
        if isinstance(node, Repeat):
            most = None if node.maximum is None else node.maximum - 1
            least = 0 if self._is_free(node.item, self._free) else max(node.minimum - 1, 0)
            return Sequence((self._first(node.item), Repeat(self._later(node.item), least, most)))
        if isinstance(node, Sequence):
            alternatives = []
            for index, item in enumerate(node.items):
                rest = tuple(map(self._later, node.items[index + 1 :]))
                alternatives.append(Sequence((self._first(item), *rest)))
                if not self._is_free(item, self._free):
                    break
            return Choice(tuple(alternatives))
        return NOTHING

    def _is_free(self, node: Node, known: Set[str]) -> bool:
        """Tell whether the node derives a text without lexemes."""
        if isinstance(node, Reference):
            return node.name in known
        return bool(holds_of_parts(node, lambda part: self._is_free(part, known)))
