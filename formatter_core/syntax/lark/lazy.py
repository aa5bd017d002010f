"""Lazy lexemes of Lark: where one can begin, any other lexeme that begins there ends before the lazy one would.

llguidance's lexer takes a lazy lexeme as soon as one matches. So with `start: call* TEXT`, `call: head …` and
`head[lazy]: TEXT "<call>"`, no free text contains `<call>`. We divide a text into lexemes in every way that fits, so
this is written into the grammar: the other lexemes lose the texts that begin with a match of a lazy one. Which lazy
lexemes can begin at a place depends on its context, so each rule is copied for each set of them. Where that does not
tell (two ways to read the text before, a match that two lexemes spell together), the grammar is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, TypeAlias

from formatter_core.engine.regular import decide_empty
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Intersection,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Shortest,
    Terminal,
    map_children,
    nullable,
    rules_where,
    walk,
)
from formatter_core.limits import Limits
from formatter_core.syntax.lark.positions import Positions

__all__ = ["Refuse", "with_lazy_first"]

#: Raises the fault of the rule with this name.
Refuse: TypeAlias = Callable[[str, str], Exception]
_Set: TypeAlias = frozenset[Terminal]
_NONE: _Set = frozenset()
#: Repeats with a maximum up to this are written out, since what may follow depends on how many there were.
_ROUNDS_WRITTEN_OUT = 8
#: Of the work of a compile, one in so many steps is for one question about two lexemes, and for all of them together.
_SHARE_OF_ONE, _SHARE_OF_ALL = 40, 10
#: Why a rule is refused.
_UNCLEAR = (
    "a part of this rule can stand where a lazy rule can, but only by one of two ways to read the text before it; "
    "write what both begin with once, before the choice"
)
_NOT_LAST = (
    "a part of this rule can stand where a lazy rule can, and the lazy rule might end in what follows this part; "
    "let nothing follow it, as in `start: call* TEXT`"
)
_JSON = Sequence((Chars.of([(ord(each), ord(each)) for each in '{["-0123456789tfn']), ANY_TEXT))


def with_lazy_first(
    rules: Mapping[str, Node], start: str, refuse: Refuse, limits: Limits
) -> tuple[dict[str, Node], str]:
    """Return rules that end lexemes where a lazy lexeme that may begin at the same place ends, and their start.

    Args:
        rules: the rules. A name that is not a rule of these is JSON.
        start: the start rule.
        refuse: makes the error for a rule in which this cannot be expressed.
        limits: what comparing two lexemes may cost.
    """
    lazy = frozenset(
        part for body in rules.values() for part in walk(body) if isinstance(part, Terminal) and _is_lazy(part)
    )
    if not lazy:
        return dict(rules), start
    compared = _Compared(limits)
    copied = _Copies(rules, lazy, compared)
    made = copied.rules(start)
    _check(made, copied, refuse, compared)
    return made, copied.name_of(copied.start)


def _is_lazy(node: Terminal) -> bool:
    return isinstance(node.item, Shortest)


class _Compared:
    """A cache of comparisons of two lexemes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.work // _SHARE_OF_ALL
        self._empty: dict[Node, bool] = {}
        #: The lazy lexemes that lost some texts to other lexemes, and their original nodes.
        self._shortened: dict[Node, Terminal] = {}

    def lazy_of(self, node: Node) -> Terminal | None:
        """Return the lazy lexeme that a node is, or was before."""
        return node if isinstance(node, Terminal) and _is_lazy(node) else self._shortened.get(node)

    def without(self, node: Terminal, lazy: Iterable[Terminal]) -> Terminal:
        """Return a lexeme without the texts in which one of these lazy lexemes would have ended it."""
        ended = [self._going_on(node, each) for each in lazy if self.overlap(node, each)]
        if not ended:
            return node
        made = Terminal(Intersection((node.item, *map(Complement, ended))))
        if _is_lazy(node):
            self._shortened[made] = node
        return made

    def can_be(self, node: Node) -> bool:
        """Tell whether a regular node matches any text; True if deciding this takes too long."""
        if node not in self._empty:
            work = min(self._left, self._limits.work // _SHARE_OF_ONE)
            self._empty[node], steps = decide_empty(node, replace(self._limits, work=work))
            self._left = max(0, self._left - steps)
        return not self._empty[node]

    def overlap(self, first: Node, lazy: Terminal) -> bool:
        """Tell whether a text of `first` begins with a text of the lazy lexeme, which would have ended there."""
        if not isinstance(first, Terminal):
            return isinstance(first, Reference) and self.can_be(Intersection((_JSON, lazy.item)))
        return self.lazy_of(first) != lazy and self.can_be(Intersection((first.item, self._going_on(first, lazy))))

    def share(self, first: Node, second: Node) -> bool:
        """Tell whether two lexemes have a text in common."""
        if first == second or not (isinstance(first, Terminal) and isinstance(second, Terminal)):
            return first == second or (isinstance(first, Reference) and isinstance(second, Reference))
        if isinstance(first.item, Bytes) and isinstance(second.item, Bytes):
            return False
        return self.can_be(Intersection((first.item, second.item)))

    def straddled(self, first: Node, second: Node, lazy: Terminal) -> bool:
        """Tell whether two lexemes in a row can begin with a text of the lazy one that ends in the second."""
        if not isinstance(first, Terminal) or self.lazy_of(first) or not isinstance(second, (Terminal, Reference)):
            return False
        then = second.item if isinstance(second, Terminal) else _JSON
        return self.can_be(Intersection((Sequence((first.item, then)), Sequence((lazy.item, ANY_TEXT)))))

    def _going_on(self, first: Terminal, lazy: Terminal) -> Node:
        """Return the texts that begin with one of the lazy lexeme; two lazy lexemes may end at the same place."""
        rest = ANY_TEXT if self.lazy_of(first) is None else Sequence((ANY_CHAR, ANY_TEXT))
        return Sequence((lazy.item, rest))


class _Place(NamedTuple):
    """A rule, the lazy lexemes that can begin where it does, and those that can begin where it ends."""

    name: str
    before: _Set
    behind: _Set


class _Copies:
    """The copies of rules, one for each set of lazy lexemes at a place."""

    def __init__(self, rules: Mapping[str, Node], lazy: _Set, compared: _Compared) -> None:
        self._rules = rules
        self._lazy = lazy
        self._compared = compared
        self._free = rules_where(rules, nullable)
        self._firsts = self._first_sets()
        self._after: dict[_Place, _Set] = {}
        self._names: dict[_Place, str] = {}

    def rules(self, start: str) -> dict[str, Node]:
        """Return the copies of rules that are used; `start` is the place of the first."""
        self.start = _Place(start, self._firsts[start], _NONE)
        while True:
            known = dict(self._after)
            made: dict[_Place, Node] = {}
            waiting = [self.start]
            while waiting:
                place = waiting.pop()
                if place in made:
                    continue
                self._used: list[_Place] = []
                body, after = self._at(self._rules[place.name], place.before, place.behind)
                made[place], self._after[place] = body, after
                waiting += self._used
            if known == self._after:
                return {self.name_of(place): body for place, body in made.items()}

    def name_of(self, place: _Place) -> str:
        """Return the name of a copy: the rule's own for the first one."""
        if place not in self._names:
            number = sum(known.name == place.name for known in self._names)
            self._names[place] = f"{place.name} {number + 1}" if number else place.name
        return self._names[place]

    def rule_of(self, name: str) -> str:
        """Return the rule that a copy was made of."""
        return next(place.name for place, known in self._names.items() if known == name)

    def _at(self, node: Node, before: _Set, behind: _Set) -> tuple[Node, _Set]:
        """Return a node at a place, and the lazy lexemes that can begin where it ends."""
        before |= self._first(node)
        if nullable(node, self._free):
            before |= behind
        if isinstance(node, Reference):
            return self._reference(node, before, behind)
        if isinstance(node, (Capture, Region)):
            item, after = self._at(node.item, before, behind)
            return map_children(node, lambda _: item), after
        if isinstance(node, Sequence):
            return self._sequence(node, before, behind)
        if isinstance(node, Choice):
            parts = [self._at(item, before, behind) for item in node.items]
            after = reduce(frozenset.intersection, (after for _, after in parts), self._lazy)
            return Choice(tuple(item for item, _ in parts)), after
        if isinstance(node, Repeat):
            return self._repeat(node, before, behind)
        if isinstance(node, Terminal):
            node = self._compared.without(node, sorted(before, key=repr))
        return node, behind

    def _reference(self, node: Reference, before: _Set, behind: _Set) -> tuple[Node, _Set]:
        if node.name not in self._rules:
            return node, behind
        place = _Place(node.name, before, behind)
        self._used.append(place)
        return Reference(self.name_of(place)), self._after.setdefault(place, self._lazy)

    def _sequence(self, node: Sequence, before: _Set, behind: _Set) -> tuple[Node, _Set]:
        if not node.items:
            return node, before | behind
        first, rest = node.items[0], Sequence(node.items[1:])
        if not rest.items:
            return self._at(first, before, behind)
        follow = self._first(rest) | (behind if nullable(rest, self._free) else _NONE)
        made, after = self._at(first, before, follow)
        if isinstance(first, Repeat) and _is_optional(first) and not before <= after:
            # What can begin after it depends on whether it is there.
            both = Sequence((*_once(first), *rest.items)), rest
            return self._at(Choice(both if first.greedy else both[::-1]), before, behind)
        others, after = self._at(rest, after, behind)
        return Sequence((made, *(others.items if isinstance(others, Sequence) else (others,)))), after

    def _repeat(self, node: Repeat, before: _Set, behind: _Set) -> tuple[Node, _Set]:
        if node.maximum is not None and node.maximum <= _ROUNDS_WRITTEN_OUT:
            if node.maximum == 0:
                return EMPTY, before
            if node.maximum > 1 or node.minimum:
                once = Sequence(_once(node))
                return self._at(once if node.minimum else Repeat(once, 0, 1, node.greedy), before, behind)
            item, after = self._at(node.item, before, behind)
            return Repeat(item, 0, 1, node.greedy), after & before
        more = behind if node.maximum is not None else behind | self._first(node.item)
        item, after = self._at(node.item, before, more)
        while not before <= after:  # what can begin before a later round
            before &= after
            item, after = self._at(node.item, before, more)
        return Repeat(item, node.minimum, node.maximum, node.greedy), after & before if not node.minimum else after

    def _first_sets(self) -> dict[str, _Set]:
        found: dict[str, _Set] = dict.fromkeys(self._rules, _NONE)
        self._firsts = found
        changed = True
        while changed:
            changed = False
            for name, body in self._rules.items():
                first = self._first(body)
                changed |= first != found[name]
                found[name] = first
        return found

    def _first(self, node: Node) -> _Set:
        """Return the lazy lexemes that a node can begin with."""
        if isinstance(node, Terminal):
            return frozenset((node,)) & self._lazy
        if isinstance(node, Reference):
            return self._firsts.get(node.name, _NONE)
        if isinstance(node, (Capture, Region, Repeat)):
            return self._first(node.item)
        found = _NONE
        if isinstance(node, (Sequence, Choice)):
            for item in node.items:
                found |= self._first(item)
                if isinstance(node, Sequence) and not nullable(item, self._free):
                    break
        return found


def _is_optional(node: Repeat) -> bool:
    return not node.minimum and node.maximum is not None and 0 < node.maximum <= _ROUNDS_WRITTEN_OUT


def _once(node: Repeat) -> tuple[Node, ...]:
    """Split a repeat with a maximum into one round and the remaining rounds."""
    if node.maximum is None or node.maximum == 1:
        return (node.item,)
    return node.item, Repeat(node.item, max(node.minimum - 1, 0), node.maximum - 1, node.greedy)


def _check(rules: Mapping[str, Node], copies: _Copies, refuse: Refuse, compared: _Compared) -> None:
    """Refuse the rules in which a lexeme still begins as a lazy one that might begin there does."""
    positions = Positions(rules, copies.name_of(copies.start))
    for position, beside in positions.together(compared.share).items():
        rule = copies.rule_of(position.rule)
        for lazy in {each for other in beside if (each := compared.lazy_of(other.node)) is not None}:
            if compared.overlap(position.node, lazy):
                raise refuse(rule, _UNCLEAR)
            if any(compared.straddled(position.node, after.node, lazy) for after in positions.after(position)):
                raise refuse(rule, _NOT_LAST)
