"""Requirements of GBNF readers on a grammar: no part that derives nothing, no rule that begins with itself."""

from __future__ import annotations

from collections.abc import Iterator, Set
from graphlib import CycleError, TopologicalSorter

from formatter_core.engine.regular import count_texts
from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import (
    EMPTY,
    NOTHING,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    holds_of_parts,
    map_children,
    nullable,
    rules_where,
    walk,
)
from formatter_core.limits import Limits

__all__ = ["left_recursive_rule", "with_repeats", "without_dead_ends"]


def without_dead_ends(grammar: Grammar, limits: Limits) -> Grammar:
    """Return the rules that the start rule needs, without alternatives that derive no text.

    The language stays the same.

    Raises:
        InvalidGrammar: the grammar derives no text.
    """

    def derives(node: Node, known: Set[str]) -> bool:
        if isinstance(node, Reference):
            return node.name in known
        if isinstance(node, Terminal):
            return id(node) not in empty
        found = holds_of_parts(node, lambda part: derives(part, known))
        return getattr(node, "ranges", None) != () if found is None else found

    empty = {
        id(part)
        for body in grammar.rules.values()
        for part in walk(body)
        if isinstance(part, Terminal) and not count_texts(part, limits, 1)[0]
    }
    productive = rules_where(grammar.rules, derives)
    if grammar.start not in productive:
        raise InvalidGrammar("the grammar derives no text at all; give every rule an alternative that ends")

    def reduced(node: Node) -> Node:
        if not derives(node, productive):
            return NOTHING
        if isinstance(node, Choice):
            return Choice(tuple(reduced(item) for item in node.items if derives(item, productive)))
        if isinstance(node, Repeat) and (node.maximum == 0 or not derives(node.item, productive)):
            return EMPTY
        if isinstance(node, Terminal):
            return Terminal(_without_nothing(node.item))
        return map_children(node, reduced)

    rules = {name: reduced(grammar.rules[name]) for name in grammar.rules if name in productive}
    reached, waiting = {grammar.start}, [grammar.start]
    while waiting:
        used = {part.name for part in walk(rules[waiting.pop()]) if isinstance(part, Reference)}
        waiting += used - reached
        reached |= used
    return Grammar({name: rules[name] for name in rules if name in reached}, grammar.start)


def _without_nothing(node: Node) -> Node:
    """Return a regular node without the parts that are written as matching nothing."""
    if isinstance(node, Choice):
        return Choice(tuple(item for item in map(_without_nothing, node.items) if item != NOTHING))
    if isinstance(node, Sequence):
        items = tuple(map(_without_nothing, node.items))
        return NOTHING if NOTHING in items else Sequence(items)
    if isinstance(node, Repeat):
        item = _without_nothing(node.item)
        if node.maximum == 0 or item == NOTHING:
            return NOTHING if node.minimum else EMPTY
        return Repeat(item, node.minimum, node.maximum, node.greedy)
    return NOTHING if getattr(node, "ranges", None) == () else node


def with_repeats(name: str, body: Node) -> Node:
    """Rewrite the body of a rule that refers to itself first as a repeat: `a ::= a x | y` is `y x*`."""
    first: list[Node] = []
    again: list[Node] = []
    waiting = [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Choice):
            waiting.extend(reversed(item.items))
        elif isinstance(item, Sequence) and item.items and item.items[0] == Reference(name):
            again.append(Sequence(item.items[1:]))
        elif item != Reference(name):
            first.append(item)
    if not again:
        return body
    return Sequence((Choice(tuple(first)), Repeat(Choice(tuple(again)))))


def left_recursive_rule(grammar: Grammar) -> str | None:
    """Find a rule that derives a text beginning with itself, or that derives itself."""

    empty = rules_where(grammar.rules, nullable)

    def heads(rule: str, node: Node) -> Iterator[str]:
        if isinstance(node, Reference):
            yield node.name
        elif isinstance(node, Choice):
            for item in node.items:
                yield from heads(rule, item)
        elif isinstance(node, Sequence):
            for item in node.items:
                yield from heads(rule, item)
                if not nullable(item, empty):
                    break
        elif isinstance(node, Repeat):
            yield from heads(rule, node.item)
            # Rounds follow each other: after a round that may be empty, the item itself comes again, without end.
            if node.maximum is None and nullable(node.item, empty):
                yield rule

    # Lists without duplicates, not sets: which circle is found must not depend on how strings are hashed.
    below = {name: list(dict.fromkeys(heads(name, body))) for name, body in grammar.rules.items()}
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        circle = error.args[1]
        return next(name for name in grammar.rules if name in circle)
    return None
