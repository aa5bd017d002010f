"""Leaving out what derives nothing: rules without a document, and the alternatives that need them."""

from __future__ import annotations

from collections.abc import Mapping

from formatter_core.grammar import Choice, Node, Reference, Repeat, Sequence

__all__ = ["productive"]


def productive(rules: Mapping[str, Node]) -> dict[str, Node]:
    """The rules that derive something, without alternatives that derive nothing.

    Bodies are alternatives of sequences of references, terminals and repeats, as schemas are lowered.
    """
    users: dict[str, list[str]] = {}
    for name, body in rules.items():
        for used in set(_references(body)):
            users.setdefault(used, []).append(name)
    found: set[str] = set()
    queue = list(rules)
    while queue:
        name = queue.pop()
        if name not in found and _derives(rules[name], found):
            found.add(name)
            queue.extend(users.get(name, ()))
    if len(found) == len(rules):
        return dict(rules)
    return {name: _trimmed(rules[name], found) for name in rules if name in found}


def _references(body: Node) -> list[str]:
    found: list[str] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Reference):
            found.append(node.name)
        elif isinstance(node, (Choice, Sequence)):
            stack.extend(node.items)
        elif isinstance(node, Repeat):
            stack.append(node.item)
    return found


def _derives(node: Node, found: set[str]) -> bool:
    if isinstance(node, Reference):
        return node.name in found
    if isinstance(node, Choice):
        return any(_derives(item, found) for item in node.items)
    if isinstance(node, Sequence):
        return all(_derives(item, found) for item in node.items)
    if isinstance(node, Repeat):
        return node.minimum == 0 or _derives(node.item, found)
    return True


def _trimmed(node: Node, found: set[str]) -> Node:
    if not isinstance(node, Choice):
        return node
    kept = tuple(item for item in node.items if _derives(item, found))
    return kept[0] if len(kept) == 1 else Choice(kept)
