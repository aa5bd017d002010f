"""Rules of Lark that end with a text outside their capture: `suffix` and `stop`.

llguidance hides what a stop matches from the model. Where the same text follows each use of the rule, the two are one:
then `stop` is what `suffix` is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from formatter_core.grammar import (
    ANY_TEXT,
    Bytes,
    Capture,
    Complement,
    Intersection,
    Node,
    Reference,
    Sequence,
    Terminal,
    map_children,
)

__all__ = ["Suffixed", "with_captures", "without_stops"]


class Suffixed(NamedTuple):
    """A rule with a suffix: its lexeme, the texts before the suffix, and the names that capture each of these two."""

    lexeme: Node
    body: Node
    suffix: bytes
    capture: str | None
    stop_capture: str | None

    def split(self) -> Node:
        """Return the body and the suffix as two lexemes, with captures."""
        before, suffix = Terminal(_before(self.body, self.suffix)), Terminal(Bytes(self.suffix))
        return Sequence((_captured(before, self.capture), _captured(suffix, self.stop_capture)))


def with_captures(node: Node, suffixed: Mapping[str, Suffixed], refuse: Callable[[str], Exception]) -> Node:
    """Return the node with the captures of such rules; `suffixed` names the lexemes captured so far."""
    if isinstance(node, Capture) and node.name in suffixed:
        rule = suffixed[node.name]
        if node.item != rule.lexeme:  # other lazy lexemes may end it sooner
            raise refuse(node.name)
        return rule.split()
    return map_children(node, lambda child: with_captures(child, suffixed, refuse))


def without_stops(body: Node, stops: Mapping[str, str], refuse: Callable[[str], Exception]) -> Node:
    """Return the body of a rule where uses of the rule are no longer followed by the text of its stop.

    The rule derives that text, too.
    """
    if isinstance(body, Reference) and body.name in stops:
        raise refuse(body.name)
    if not isinstance(body, Sequence):
        return map_children(body, lambda child: without_stops(child, stops, refuse))
    items: list[Node] = []
    rest = iter(body.items)
    for item in rest:
        if isinstance(item, Reference) and item.name in stops:
            if next(rest, None) != Terminal(Bytes(stops[item.name].encode())):
                raise refuse(item.name)
            items.append(item)
        else:
            items.append(without_stops(item, stops, refuse))
    return Sequence(tuple(items))


def _captured(node: Node, name: str | None) -> Node:
    return node if name is None else Capture(name, node)


def _before(body: Node, suffix: bytes) -> Node:
    """Return the texts of the body after which the suffix does not end sooner, before it or overlapping it."""
    sooner: list[Node] = [Sequence((body, Bytes(suffix), ANY_TEXT))]
    for count in range(1, len(suffix)):
        if suffix[-count:] == suffix[:count]:
            sooner.append(Sequence((body, Bytes(suffix[:-count]))))
    return Intersection((body, *map(Complement, sooner)))
