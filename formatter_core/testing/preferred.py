"""The reference of captures: the first derivation of a text, as `formatter_core.grammar` defines it.

A derivation is the list of its choices, read from the left, with the captures that open and close between them. Of two
the one whose choices come first is preferred. Where rules may derive themselves over the same text, only derivations
count in which none does.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from collections.abc import Set
from itertools import accumulate
from typing import TypeAlias

from formatter_core.grammar import (
    Capture,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    nullable,
    rules_where,
    without,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.captures import Captures, Mark, Match
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.testing.chart import Chart, Rules

__all__ = ["cyclic_rules", "is_ambiguous", "offsets_of", "parse", "reachable"]

#: Choices, and captures that open or close in a column. Where two derivations differ first, both have a choice.
_Derivation: TypeAlias = "tuple[int | tuple[bool, str, int], ...]"
#: The first derivations, by the cyclic rules that have derived, alone, all the text of their call so far.
_First: TypeAlias = dict[frozenset[str], list[_Derivation]]


class _Preference:
    """An algebra that keeps a bounded number of the first derivations."""

    def __init__(self, cyclic: frozenset[str], count: int) -> None:
        self.empty: _First = {frozenset(): [()]}
        self._cyclic = cyclic
        self._count = count

    def either(self, one: _First, other: _First) -> _First:
        found = dict(one)
        for whole, derivations in other.items():
            found[whole] = self._first([*found.get(whole, ()), *derivations])
        return found

    def joined(self, first: _First, second: _First, begun: int, met: int, ended: int) -> _First:
        found: _First = {}
        for whole, derivations in first.items():
            for inner, following in second.items():
                alone = (whole if met == ended else frozenset()) | (inner if begun == met else frozenset())
                both = [one + other for one in derivations for other in following]
                found[alone] = self._first([*found.get(alone, ()), *both])
        return found

    def chosen(self, value: _First, choice: int) -> _First:
        return {whole: [(*one, choice) for one in derivations] for whole, derivations in value.items()}

    def marked(self, value: _First, opens: bool, name: str, column: int) -> _First:
        return {whole: [(*one, (opens, name, column)) for one in found] for whole, found in value.items()}

    def named(self, value: _First, rule: str) -> _First | None:
        if rule not in self._cyclic:
            return value
        return {whole | {rule}: found for whole, found in value.items() if rule not in whole} or None

    def _first(self, derivations: list[_Derivation]) -> list[_Derivation]:
        return sorted(set(derivations))[: self._count]


def parse(grammar: Grammar, data: bytes | Items[Part], limits: Limits = DEFAULT_LIMITS) -> Match | None:
    """Parse a whole text: a match named "" whose children are the captures of the preferred parse.

    Args:
        grammar: the language.
        data: the text; or its parts in order, each bytes or the id of a `Token`, which adds nothing to the text.
        limits: `work` bounds each step.

    Returns:
        The match, or None if the text is not in the language.

    Raises:
        InvalidGrammar: the grammar derives no text.
        LimitExceeded: the grammar or the work exceeds a limit.
    """
    parts: Items[Part] = [data] if isinstance(data, bytes) else data
    grammar.check(limits)
    # What a terminal prefers are the choices inside it.
    grammar = grammar.written_out
    bodies = {name: without(Terminal, body) for name, body in grammar.rules.items()}
    found = _first_derivations(Rules(bodies, grammar.start, limits), parts, 1, limits)
    if not found:
        return None
    offsets = offsets_of(parts)
    marks = [Mark(each[0], each[1], offsets[each[2]]) for each in found[0] if not isinstance(each, int)]
    return Captures.of_marks(marks, bytes_of(parts)).match


def is_ambiguous(grammar: Grammar, parts: Items[Part], limits: Limits = DEFAULT_LIMITS) -> bool:
    """Tell whether a text of the language has several parses, those inside one terminal not counted."""
    return len(_first_derivations(Rules.of(grammar, limits), parts, 2, limits)) > 1


def offsets_of(parts: Items[Part]) -> list[int]:
    """Find the byte offset of each column: before the text, and after each of its steps."""
    steps = (step for part in parts for step in ([0] if isinstance(part, int) else [1] * len(part)))
    return list(accumulate(steps, initial=0))


def _first_derivations(rules: Rules, parts: Items[Part], count: int, limits: Limits) -> list[_Derivation]:
    chart = Chart(rules, _Preference(cyclic_rules(rules), count), limits)
    complete = chart.columns[-1].complete if chart.append(parts) else None
    found = {one for derivations in (complete or {}).values() for one in derivations}
    return sorted(found)[:count]


def cyclic_rules(rules: Rules) -> frozenset[str]:
    """Find the rules that may derive themselves over the same text."""
    empty = rules_where(rules.bodies, nullable)
    alone = {name: _alone(body, empty) & rules.productive for name, body in rules.bodies.items()}
    return frozenset(name for name in rules.productive if name in reachable(alone, alone[name]))


def reachable(uses: dict[str, set[str]], names: set[str]) -> set[str]:
    """Find the rules that these lead to, themselves included."""
    found, stack = set(names), list(names)
    while stack:
        new = uses[stack.pop()] - found
        found |= new
        stack += new
    return found


def _alone(node: Node, empty: Set[str]) -> set[str]:
    """Find the rules that may derive all that a node derives, with nothing beside them."""
    if isinstance(node, Reference):
        return {node.name}
    if isinstance(node, Capture):
        return _alone(node.item, empty)
    if isinstance(node, Choice):
        return set().union(*(_alone(item, empty) for item in node.items))
    if isinstance(node, Repeat):
        is_once = node.maximum != 0 and (node.minimum < 2 or nullable(node.item, empty))
        return _alone(node.item, empty) if is_once else set()
    if isinstance(node, Sequence):
        solid = [item for item in node.items if not nullable(item, empty)]
        items = node.items if not solid else solid if len(solid) == 1 else []
        return set().union(*(_alone(item, empty) for item in items))
    return set()
