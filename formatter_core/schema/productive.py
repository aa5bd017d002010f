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
    needs: dict[str, list[_Alternative]] = {}
    found: set[str] = set()
    queue: list[str] = []
    for name, body in rules.items():
        needs[name] = [_Alternative(each) for each in (body.items if isinstance(body, Choice) else (body,))]
        for alternative in needs[name]:
            if not alternative.needed:
                queue.append(name)
                continue
            left = [len(alternative.needed)]
            for used in alternative.needed:
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
    return _reachable(rules, needs, start, found) if start in found else {}


def _reachable(
    rules: Mapping[str, Node], needs: Mapping[str, list[_Alternative]], start: str, found: set[str]
) -> dict[str, Node]:
    kept = {start: rules[start]}
    for name in (pending := [start]):
        alternatives = needs[name]
        if not all(found.issuperset(each.needed) for each in alternatives):
            alternatives = [each for each in alternatives if found.issuperset(each.needed)]
            options = tuple(each.node for each in alternatives)
            kept[name] = options[0] if len(options) == 1 else Choice(options)
        for each in alternatives:
            for used in (*each.needed, *each.spared):
                if used not in kept:
                    kept[used] = rules[used]
                    pending.append(used)
    return kept


class _Alternative:
    """An alternative, the rules that it needs, and those in repeats that it can do without."""

    __slots__ = ("needed", "node", "spared")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.needed: dict[str, None] = {}
        self.spared: dict[str, None] = {}
        self._read(node, self.needed)

    def _read(self, node: Node, found: dict[str, None]) -> None:
        if isinstance(node, Reference):
            found[node.name] = None
        elif isinstance(node, (Choice, Sequence)):
            for item in node.items:
                self._read(item, found)
        elif isinstance(node, Repeat):
            self._read(node.item, found if node.minimum else self.spared)
