"""Removes rules that derive nothing and rules that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from formatter_core.grammar import Choice, Members, Node, Reference, Repeat, Sequence, Terminal, Way, children
from formatter_core.limits.turns import give_way

__all__ = ["productive"]


def productive(rules: dict[str, Node], start: str) -> dict[str, Node]:
    """The rules without what derives nothing, and without what `start` then does not reach.

    A rule that derives nothing is `NOTHING`; one that is left is the start, or is used where nothing needs it.

    Bodies are alternatives of sequences, as schemas are lowered: of references, terminals, repeats, members, and
    choices in which one option needs no rule. Of members, the required ones must derive something, or one of the
    others. Linear in their size: an alternative waits for the references that it needs (Dowling & Gallier 1984, for
    Horn clauses).
    """
    if _derived(rules).issuperset(rules):
        return rules
    found = set[str]()
    waiting: dict[str, list[_Option]] = {}
    needs: dict[str, list[list[str]]] = {}
    # Backwards, most rules come after what they need.
    for name in reversed(rules):
        give_way()
        body = rules[name]
        needs[name] = [_needed(option, needs) for option in (body.items if isinstance(body, Choice) else (body,))]
        for each in list(needs):
            _settle(each, needs.pop(each), found, waiting)
    if found.issuperset(rules):
        return rules
    return _reachable(rules, start, found)


#: How often undecided rules are read again before it is computed which ones wait for which.
_MOST_READINGS = 6


def _derived(rules: dict[str, Node]) -> set[str]:
    """The rules of which a few readings show that they derive something, which is nearly always all."""
    found = set[str]()
    pending = list(rules)
    for _ in range(_MOST_READINGS):
        for name in reversed(pending):
            give_way()
            if _is_derived(rules[name], found):
                found.add(name)
        # What a rule needs comes after it, as values do, or before it, as later properties do.
        pending = [name for name in reversed(pending) if name not in found]
        if not pending:
            break
    return found


def _is_derived(node: Node, found: set[str]) -> bool:
    # Every node of every schema comes here: loops take half as long as `all` and `any`.
    if isinstance(node, Sequence):
        for item in node.items:  # noqa: SIM110
            if type(item) is not Terminal and not _is_derived(item, found):
                return False
        return True
    if isinstance(node, Reference):
        return node.name in found
    if isinstance(node, Choice):
        for item in node.items:  # noqa: SIM110
            if _is_derived(item, found):
                return True
        return False
    if isinstance(node, Repeat):
        return node.minimum == 0 or _is_derived(node.item, found)
    if isinstance(node, Members):
        for ways in _wanted(node):
            for way in ways:
                if _is_derived(way.item, found):
                    break
            else:
                return False
        return True
    return isinstance(node, Terminal)


def _wanted(members: Members) -> list[tuple[Way, ...]]:
    """Ways, of each of which one comes at least: those of each required member, or those of all if none is."""
    required = [each.ways for each in members.members if each.required]
    return required or [tuple(way for each in members.members for way in each.ways)]


def _settle(name: str, options: list[list[str]], found: set[str], waiting: dict[str, list[_Option]]) -> None:
    lacking = [{used for used in option if used not in found} for option in options]
    if set() in lacking:
        found.add(name)
        if name in waiting:
            _spread(name, found, waiting)
        return
    for missing in lacking:
        waiter = _Option(name, len(missing))
        for used in missing:
            waiting.setdefault(used, []).append(waiter)


class _Option:
    """An alternative of a rule, with the number of other rules that it waits for."""

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
    for name in (pending := list(kept)):
        give_way()
        body = rules[name]
        options = body.items if isinstance(body, Choice) else (body,)
        options = tuple(each for each in options if found.issuperset(_needed(each, {})))
        kept[name] = options[0] if len(options) == 1 else Choice(options)
        for used in (used for option in options for used in _references(option)):
            if used not in kept:
                kept[used] = rules[used]
                pending.append(used)
    return kept


def _needed(node: Node, one_of: dict[str, list[list[str]]]) -> list[str]:
    """The rules that a node needs. In the place of one of several it needs a name, which `one_of` explains."""
    found: list[str] = []
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Terminal):
            continue
        if isinstance(item, Reference):
            found.append(item.name)
        elif isinstance(item, Repeat):
            found += _needed(item.item, one_of) if item.minimum else ()
        elif isinstance(item, Choice):
            options = [_needed(option, one_of) for option in item.items]
            found += () if [] in options else (name for names in options for name in names)
        elif isinstance(item, Sequence):
            found += _needed(item, one_of)
        elif isinstance(item, Members):
            for number, ways in enumerate(_wanted(item)):
                options = [_needed(way.item, one_of) for way in ways]
                if len(options) == 1:
                    found += options[0]
                elif [] not in options:
                    name = f"way {number} of members {id(item)}"
                    one_of[name] = options
                    found.append(name)
    return found


def _references(node: Node) -> Iterator[str]:
    """The rules that a node uses, in order."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, Reference):
            yield each.name
        elif not isinstance(each, Terminal):
            stack.extend(reversed(children(each)))
