"""Division of a grammar without terminals into automata.

GBNF and EBNF know characters and rules only. A rule that refers to no rule again and again is regular: it becomes part
of the terminals that use it, so that strings, numbers and names are one automaton each. The language stays the same.
"""

from __future__ import annotations

from formatter_core.grammar import (
    AnySpecial,
    Bytes,
    Capture,
    Chars,
    Choice,
    Grammar,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Special,
    Terminal,
    Token,
    children,
    inner_first,
    map_children,
    walk,
)
from formatter_core.limits import Limits

__all__ = ["with_terminals"]

#: Nodes of a rule that is put where it is used, its repeats unrolled; a larger one stays a rule.
_LARGEST = 1_000


def with_terminals(grammar: Grammar, limits: Limits) -> Grammar:
    """Return the grammar with every regular part, which may span rules, in one `Terminal`."""
    return Grammar(_Cut(grammar, limits).rules(), grammar.start)


class _Cut:
    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        self._grammar = grammar
        self._limits = limits
        #: Small regular rules: what they derive, its unrolled size and its height.
        self._inlined: dict[str, tuple[Node, int, int]] = {}

    def rules(self) -> dict[str, Node]:
        """Return all rules, divided into terminals."""
        for name in inner_first(self._grammar.rules):
            body = self._replaced(self._grammar.rules[name])
            if not _is_regular(body):
                continue
            size, height = _measure(body)
            if size <= _LARGEST and height < self._limits.depth // 2:
                self._inlined[name] = body, size, height
        return {name: _cut(self._replaced(body)) for name, body in self._grammar.rules.items()}

    def _replaced(self, node: Node) -> Node:
        if isinstance(node, Reference):
            known = self._inlined.get(node.name)
            return node if known is None else known[0]
        return map_children(node, self._replaced)


def _is_regular(node: Node) -> bool:
    others = (Reference, Token, Special, AnySpecial, Capture, Region, Terminal)
    return not any(isinstance(part, others) for part in walk(node))


def _measure(node: Node) -> tuple[int, int]:
    """Return the number of nodes with every repeat unrolled, and the height of the tree."""
    size, height = 0, 0
    for child in children(node):
        below = _measure(child)
        size, height = size + below[0], max(height, below[1])
    if isinstance(node, Repeat):
        size *= max(node.minimum, node.maximum or 1, 1)
    if isinstance(node, Bytes):
        size = len(node.value)
    return min(size + 1, _LARGEST + 1), height + 1


def _cut(node: Node) -> Node:
    """Put each largest regular part into one terminal; neighbours in a sequence share one, alternatives do not."""
    if isinstance(node, Terminal):
        return node
    if _is_regular(node):
        return node if isinstance(node, (Bytes, Chars)) else Terminal(node)
    if isinstance(node, Sequence):
        items: list[Node] = []
        run: list[Node] = []
        for item in (*node.items, None):
            if item is not None and _is_regular(item):
                run.append(item)
                continue
            if run:
                items.append(_cut(run[0] if len(run) == 1 else Sequence(tuple(run))))
                run = []
            if item is not None:
                items.append(_cut(item))
        return items[0] if len(items) == 1 else Sequence(tuple(items))
    if isinstance(node, Choice):
        regular = [item for item in node.items if _is_regular(item)]
        if len(regular) > 1:
            joined = Terminal(Choice(tuple(regular)))
            return Choice((joined, *(_cut(item) for item in node.items if not _is_regular(item))))
    return map_children(node, _cut)
