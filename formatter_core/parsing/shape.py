"""What is known of a grammar's nodes before any text is read."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Set

from formatter_core.grammar import (
    Capture,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    holds_of_parts,
    rules_where,
    walk,
)
from formatter_core.parsing.remainders import Symbol, Tables

__all__ = ["Shape", "shape_of"]


class Shape:
    """Facts about nodes, by identity: the nodes of the rules live as long as this does.

    Attributes:
        cyclic: names of rules that may derive themselves over the same text, and perhaps of some that may not.
    """

    def __init__(self, rules: Mapping[str, Node], tables: Tables) -> None:
        # Neither the grammar nor the tables are kept, for both are kept elsewhere for as long as the grammar lives.
        self._rule_symbols = tables.rules
        self._leaf_symbols = tables.leaves
        self._rules = rules
        self._symbols: dict[int, Symbol | None] = {}
        self._nullable: dict[int, bool] = {}
        self._productive: dict[int, bool] = {}
        self._with_captures = rules_where(rules, _holds_captures)
        self._captures: dict[int, bool] = {}
        self.cyclic = self._cyclic_rules()

    def body(self, name: str) -> Node:
        """What the rule derives."""
        return self._rules[name]

    def symbol(self, node: Node) -> Symbol | None:
        """The symbol of a leaf or a reference; None for a rule that derives nothing."""
        key = id(node)
        if key not in self._symbols:
            self._symbols[key] = (
                self._rule_symbols.get(node.name) if isinstance(node, Reference) else self._leaf_symbols[node]
            )
        return self._symbols[key]

    def nullable(self, node: Node) -> bool:
        """Whether the node derives the empty string."""
        known = self._nullable.get(id(node))
        if known is None:
            known = self._nullable[id(node)] = self._is_nullable(node)
        return known

    def productive(self, node: Node) -> bool:
        """Whether the node derives anything."""
        known = self._productive.get(id(node))
        if known is None:
            known = self._productive[id(node)] = self._is_productive(node)
        return known

    def captures(self, node: Node) -> bool:
        """Whether a parse of the node may hold captures."""
        known = self._captures.get(id(node))
        if known is None:
            known = self._captures[id(node)] = _holds_captures(node, self._with_captures)
        return known

    def _is_productive(self, node: Node) -> bool:
        found = holds_of_parts(node, self.productive)
        if found is not None:
            return found
        symbol = self.symbol(node)
        return symbol is not None and (symbol.automaton is None or not symbol.automaton.is_empty())

    def _is_nullable(self, node: Node) -> bool:
        found = holds_of_parts(node, self.nullable)
        if found is not None:
            return found
        symbol = self.symbol(node)
        return symbol is not None and symbol.nullable

    def _cyclic_rules(self) -> frozenset[str]:
        """Take rules away that nothing left derives alone, or that derive nothing left alone, until there are none."""
        live = self._rule_symbols.keys() & self._rules.keys()
        after = {name: self._alone(self._rules[name]) & live for name in live}
        before: dict[str, set[str]] = {name: set() for name in live}
        for name, targets in after.items():
            for target in targets:
                before[target].add(name)
        loose = [name for name in live if not after[name] or not before[name]]
        while loose:
            name = loose.pop()
            for target in after.pop(name, ()):
                before[target].discard(name)
                if not before[target]:
                    loose.append(target)
            for source in before[name]:
                after[source].discard(name)
                if not after[source]:
                    loose.append(source)
            before[name] = set()
        return frozenset(after)

    def _alone(self, body: Node) -> set[str]:
        """The rules that may derive all that `body` derives, with nothing beside them."""
        names: set[str] = set()
        stack = [body]
        while stack:
            node = stack.pop()
            if isinstance(node, Reference):
                names.add(node.name)
            elif isinstance(node, Choice):
                stack.extend(node.items)
            elif isinstance(node, Capture):
                stack.append(node.item)
            elif isinstance(node, Repeat):
                if node.maximum != 0 and (node.minimum < 2 or self.nullable(node.item)):
                    stack.append(node.item)
            elif isinstance(node, Sequence):
                solid = [item for item in node.items if not self.nullable(item)]
                stack.extend(solid if len(solid) == 1 else () if solid else node.items)
        return names


def _holds_captures(node: Node, rules: Set[str]) -> bool:
    """Whether a capture can be reached from a node; `rules` are the names of those from which one can."""
    return any(
        isinstance(below, Capture) or (isinstance(below, Reference) and below.name in rules) for below in walk(node)
    )


_KNOWN: weakref.WeakKeyDictionary[Tables, Shape] = weakref.WeakKeyDictionary()


def shape_of(grammar: Grammar, tables: Tables) -> Shape:
    """The shape of `grammar`, made once for as long as its tables live."""
    shape = _KNOWN.get(tables)
    if shape is None:
        shape = _KNOWN[tables] = Shape(grammar.written_out.rules, tables)
    return shape
