"""Removes rules that derive nothing and rules that nothing uses."""

from __future__ import annotations

from typing import TypeAlias

from formatter_core.grammar import Choice, Node, Reference, Repeat, Sequence, Terminal

__all__ = ["productive"]


def productive(rules: dict[str, Node], start: str) -> dict[str, Node]:
    """The rules that the start needs, without alternatives that derive nothing; empty where the start derives nothing.

    Bodies are alternatives of sequences, as schemas are lowered: of references, terminals, repeats, and choices in
    which one option needs no rule. Linear in their size: an alternative waits for the references that it needs
    (Dowling & Gallier 1984, for Horn clauses).
    """
    needs: dict[str, list[_Alternative]] = {}
    found: set[str] = set()
    waiting: dict[str, list[tuple[str, list[int]]]] = {}
    # In reverse order, most rules come after those that they use.
    for name in reversed(rules):
        body = rules[name]
        alternatives = needs[name] = [
            _alternative(each) for each in (body.items if isinstance(body, Choice) else (body,))
        ]
        lacking = []
        for _, needed, _ in alternatives:
            missing = [used for used in needed if used not in found]
            if not missing:
                _add(name, found, waiting)
                break
            lacking.append(set(missing))
        else:
            _wait(name, lacking, waiting)
    return _reachable(rules, needs, start, found) if start in found else {}


def _wait(name: str, lacking: list[set[str]], waiting: dict[str, list[tuple[str, list[int]]]]) -> None:
    for missing in lacking:
        left = [len(missing)]
        for used in missing:
            waiting.setdefault(used, []).append((name, left))


def _add(name: str, found: set[str], waiting: dict[str, list[tuple[str, list[int]]]]) -> None:
    queue = [name]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.add(name)
        for user, left in waiting.pop(name, ()):
            left[0] -= 1
            if left[0] == 0:
                queue.append(user)


def _reachable(
    rules: dict[str, Node], needs: dict[str, list[_Alternative]], start: str, found: set[str]
) -> dict[str, Node]:
    kept = {start: rules[start]}
    for name in (pending := [start]):
        alternatives = needs[name]
        if len(found) < len(rules) and not all(found.issuperset(needed) for _, needed, _ in alternatives):
            alternatives = [each for each in alternatives if found.issuperset(each[1])]
            options = tuple(node for node, _, _ in alternatives)
            kept[name] = options[0] if len(options) == 1 else Choice(options)
        for _, needed, spared in alternatives:
            for used in needed + spared if spared else needed:
                if used not in kept:
                    kept[used] = rules[used]
                    pending.append(used)
    return kept


#: A node, the rules that it needs, and those in repeats and choices that it can do without.
_Alternative: TypeAlias = tuple[Node, list[str], list[str]]


def _alternative(node: Node) -> _Alternative:
    needed: list[str] = []
    spared: list[str] = []
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Reference):
            needed.append(item.name)
        elif not isinstance(item, Terminal):
            _read(item, needed, spared)
    return node, needed, spared


def _read(node: Node, found: list[str], spared: list[str]) -> None:
    if isinstance(node, Terminal):
        return
    if isinstance(node, Reference):
        found.append(node.name)
    elif isinstance(node, Sequence):
        for item in node.items:
            _read(item, found, spared)
    elif isinstance(node, Choice):
        needed: list[str] = []
        for item in node.items:
            before = len(needed)
            _read(item, needed, spared)
            if len(needed) == before:
                found = spared
        found += needed
    elif isinstance(node, Repeat):
        _read(node.item, found if node.minimum else spared, spared)
