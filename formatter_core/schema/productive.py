"""Removes rules that derive nothing and rules that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from formatter_core.grammar import Choice, Node, Reference, Repeat, Sequence, Terminal, walk

__all__ = ["productive"]


def productive(rules: dict[str, Node], start: str) -> dict[str, Node]:
    """The rules without what derives nothing, and without what the start then does not reach; empty where it is all.

    Bodies are alternatives of sequences, as schemas are lowered: of references, terminals, repeats, and choices in
    which one option needs no rule. Linear in their size: an alternative waits for the references that it needs
    (Dowling & Gallier 1984, for Horn clauses).
    """
    found: set[str] = set()
    waiting: dict[str, list[_Option]] = {}
    # Backwards, most rules come after what they need.
    for name in reversed(rules):
        body = rules[name]
        lacking = []
        for option in body.items if isinstance(body, Choice) else (body,):
            missing = {used for used in _needed(option) if used not in found}
            if not missing:
                found.add(name)
                if name in waiting:
                    _spread(name, found, waiting)
                break
            lacking.append(missing)
        else:
            for missing in lacking:
                waiter = _Option(name, len(missing))
                for used in missing:
                    waiting.setdefault(used, []).append(waiter)
    if len(found) == len(rules):
        return rules
    return _reachable(rules, start, found) if start in found else {}


class _Option:
    """An alternative of a rule that waits for so many others."""

    __slots__ = ("missing", "rule")

    def __init__(self, rule: str, missing: int) -> None:
        self.rule = rule
        self.missing = missing


def _spread(name: str, found: set[str], waiting: dict[str, list[_Option]]) -> None:
    """Add the rules that have waited for one that was found."""
    queue = [name]
    while queue:
        for option in waiting.pop(queue.pop(), ()):
            option.missing -= 1
            if option.missing == 0 and option.rule not in found:
                found.add(option.rule)
                queue.append(option.rule)


def _reachable(rules: dict[str, Node], start: str, found: set[str]) -> dict[str, Node]:
    kept = {start: rules[start]}
    for name in (pending := [start]):
        body = rules[name]
        options = body.items if isinstance(body, Choice) else (body,)
        options = tuple(each for each in options if found.issuperset(_needed(each)))
        kept[name] = options[0] if len(options) == 1 else Choice(options)
        for used in (used for option in options for used in _references(option)):
            if used not in kept:
                kept[used] = rules[used]
                pending.append(used)
    return kept


def _needed(node: Node) -> list[str]:
    """The rules that a node needs."""
    found: list[str] = []
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Terminal):
            continue
        if isinstance(item, Reference):
            found.append(item.name)
        elif isinstance(item, Repeat):
            found += _needed(item.item) if item.minimum else ()
        elif isinstance(item, Choice):
            options = [_needed(option) for option in item.items]
            found += () if [] in options else (name for names in options for name in names)
        elif isinstance(item, Sequence):
            found += _needed(item)
    return found


def _references(node: Node) -> Iterator[str]:
    """The rules that a node uses, in order."""
    return (each.name for each in walk(node) if isinstance(each, Reference))
