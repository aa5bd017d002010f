"""Division of a regular expression's tree into automata."""

from __future__ import annotations

from formatter_core.grammar import (
    Capture,
    Choice,
    Node,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    Token,
    map_children,
    walk,
)

__all__ = ["as_terminal"]


def as_terminal(node: Node) -> Node:
    """Return the node with each largest part without captures wrapped in one `Terminal`.

    Neighbouring items of a sequence that hold no capture become one terminal together.
    """
    if not any(isinstance(part, (Capture, Reference, Token, Terminal)) for part in walk(node)):
        return Terminal(node)
    if isinstance(node, Sequence):
        items: list[Node] = []
        for item in node.items:
            wrapped = as_terminal(item)
            if isinstance(wrapped, Terminal) and items and isinstance(items[-1], Terminal):
                left, right = items[-1].item, wrapped.item
                wrapped = Terminal(Sequence((*(left.items if isinstance(left, Sequence) else (left,)), right)))
                items.pop()
            items.append(wrapped)
        return Sequence(tuple(items))
    if isinstance(node, (Choice, Repeat, Capture)):
        return map_children(node, as_terminal)
    return node
