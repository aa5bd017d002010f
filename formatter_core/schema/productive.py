"""Leaving out what derives nothing, and what nothing needs."""

from __future__ import annotations

from collections.abc import Mapping

from formatter_core.grammar import Choice, Node, Reference, Repeat, Sequence

__all__ = ["productive"]


def productive(rules: Mapping[str, Node], start: str) -> dict[str, Node]:
    """The rules that the start needs, without alternatives that derive nothing; empty where the start derives nothing.

    Bodies are alternatives of sequences of references, terminals and repeats, as schemas are lowered. Linear in their
    size: an alternative waits for the references that it needs (Dowling & Gallier 1984, for Horn clauses).
    """
    waiting: dict[str, list[tuple[str, list[int]]]] = {}
    found: set[str] = set()
    queue: list[str] = []
    for name, body in rules.items():
        for alternative in _alternatives(body):
            needed = set(_references(alternative, needed_only=True))
            if not needed:
                queue.append(name)
                continue
            left = [len(needed)]
            for used in needed:
                waiting.setdefault(used, []).append((name, left))
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.add(name)
        for user, left in waiting.get(name, ()):
            left[0] -= 1
            if left[0] == 0:
                queue.append(user)
    return _reachable(rules, start, found) if start in found else {}


def _reachable(rules: Mapping[str, Node], start: str, found: set[str]) -> dict[str, Node]:
    kept = {start: rules[start]}
    for name in (pending := [start]):
        body = rules[name]
        if isinstance(body, Choice) and not found.issuperset(_references(body)):
            options = tuple(item for item in body.items if found.issuperset(_references(item, needed_only=True)))
            body = options[0] if len(options) == 1 else Choice(options)
        kept[name] = body
        for used in _references(body):
            if used not in kept:
                kept[used] = body
                pending.append(used)
    return kept


def _alternatives(body: Node) -> tuple[Node, ...]:
    return body.items if isinstance(body, Choice) else (body,)


def _references(body: Node, *, needed_only: bool = False) -> list[str]:
    """The rules in a body; `needed_only` leaves out what it can do without."""
    found: list[str] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Reference):
            found.append(node.name)
        elif isinstance(node, (Choice, Sequence)):
            stack.extend(node.items)
        elif isinstance(node, Repeat) and not (needed_only and node.minimum == 0):
            stack.append(node.item)
    return found
