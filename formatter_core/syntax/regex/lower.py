"""Anchors and look-around, expressed exactly by the whole pattern around them.

A pattern is read from its end. What follows the part at hand is a list of `Tail`s: the language of everything to the
right, and what that demands of the character before it. An assertion about what follows restricts the language; one
about what precedes becomes a demand, which the next part to the left meets with its last character, or passes on if it
is empty. At the left end only the demands that the start of the text meets are left. (`Intersection` and `Complement`
say the rest; that regular languages are closed under both is why look-ahead adds no power: Morihata, "Translation of
regular expression with lookahead into finite state automaton", 2012.)
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import NamedTuple

from formatter_core.errors import InvalidRegex, LimitExceeded
from formatter_core.grammar import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Node,
    Repeat,
    Sequence,
    children,
)
from formatter_core.grammar.automaton import decide_empty
from formatter_core.limits import Limits
from formatter_core.syntax.regex import classes
from formatter_core.syntax.regex.classes import Ranges
from formatter_core.syntax.regex.nodes import (
    both,
    choice,
    empty_part,
    ending_in,
    first_characters,
    fixed_length,
    sequence,
)
from formatter_core.syntax.regex.tree import (
    Alternate,
    Anchor,
    Concat,
    Look,
    Loop,
    Named,
    Tree,
    alternate,
    char,
    is_node,
    loop,
)

__all__ = ["lower"]

_STEP = 50  # elementary steps for one tail: a few nodes are made and compared
_DECIDING = Limits(states=2_000, work=200_000)  # for one question whether a language is empty
_UNROLLED = 64  # the most rounds of a repeat around an assertion; real patterns have a handful


class _Demand(NamedTuple):
    """What the character before must be: one of these, or none at all where `start` holds."""

    characters: Ranges
    start: bool

    def both(self, other: _Demand) -> _Demand:
        return _Demand(classes.intersection(self.characters, other.characters), self.start and other.start)

    def negation(self) -> _Demand:
        return _Demand(classes.negation(self.characters), not self.start)


_FREE = _Demand(classes.ALL, True)
_AT_START = _Demand(classes.NONE, True)


@dataclass(frozen=True, slots=True)
class _Tail:
    """What follows a position, and what it requires of the character before; `at_end`: it must reach the end."""

    before: _Demand
    node: Node
    at_end: bool = False


def lower(tree: Tree, pattern: str, limits: Limits, *, ordered: bool = False) -> Node:
    """The node that matches exactly the texts that the pattern matches as a whole.

    `ordered` keeps alternatives in written order also where that makes the result larger; captures need it.

    Raises:
        InvalidRegex: an assertion stands where no finite expression of this kind says what it means.
        LimitExceeded: the result has too many nodes, or is nested too deeply.
    """
    if not is_node(tree):
        tails = _Lowering(pattern, limits, ordered).follow(tree, [_Tail(_FREE, EMPTY)])
        tree = choice([tail.node for tail in tails if tail.before.start])
    _check(tree, limits)
    return tree


def _check(node: Node, limits: Limits) -> None:
    stack = [(node, 1)]
    nodes = 0
    while stack:
        current, depth = stack.pop()
        nodes += 1
        if nodes > limits.nodes:
            raise LimitExceeded("nodes", limits.nodes, "the pattern")
        if depth > limits.depth:
            raise LimitExceeded("depth", limits.depth, "the pattern")
        stack.extend((child, depth + 1) for child in children(current))


class _Lowering:
    def __init__(self, pattern: str, limits: Limits, ordered: bool) -> None:
        self._pattern = pattern
        self._limits = limits
        self._ordered = ordered
        self._work = 0

    def follow(self, tree: Tree, tails: list[_Tail]) -> list[_Tail]:
        """The tails before `tree`, given those after it."""
        self._work += _STEP * (1 + len(tails))
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "expressing the pattern's assertions")
        if isinstance(tree, Concat):
            for item in reversed(tree.items):
                tails = self.follow(item, tails)
            return tails
        if isinstance(tree, Alternate):
            return self._merge([found for item in _grouped(tree.items) for found in self.follow(item, tails)])
        if isinstance(tree, Loop):
            return self._follow_loop(tree, tails)
        if isinstance(tree, Anchor):
            return [_anchored(tail, tree.end) for tail in tails]
        if isinstance(tree, Look):
            return self._follow_ahead(tree, tails) if tree.ahead else self._follow_behind(tree, tails)
        if isinstance(tree, Named):
            inner = self.follow(tree.item, [_Tail(_FREE, EMPTY)])
            pieces = [_Tail(piece.before, _captured(tree.name, piece.node), piece.at_end) for piece in inner]
            return self._merge([joined for piece in pieces for tail in tails for joined in _join(piece, tail)])
        return self._merge([joined for tail in tails for joined in _join(_Tail(_FREE, tree), tail)])

    def _follow_loop(self, tree: Loop, tails: list[_Tail]) -> list[_Tail]:
        if max(tree.minimum, tree.maximum or 0) > _UNROLLED:
            return self._follow_tempered(tree, tails)
        if tree.maximum is None:
            tails = self._follow_star(Loop(tree.item, 0, None, tree.greedy, tree.position), tails)
            for _ in range(tree.minimum):
                tails = self.follow(tree.item, tails)
            return tails
        rounds = [tails]
        for _ in range(tree.maximum):
            rounds.append(self.follow(tree.item, rounds[-1]))
        wanted = rounds[tree.minimum :]
        return self._merge([tail for tails in (reversed(wanted) if tree.greedy else wanted) for tail in tails])

    def _follow_star(self, tree: Loop, tails: list[_Tail]) -> list[_Tail]:
        """An unbounded repeat: an anchor can hold in the first or the last round only, a look-around in each."""
        between = _assuming(tree.item, NOTHING, None, may_capture=True)
        if between is None:
            return self._follow_tempered(tree, tails)
        once = Loop(tree.item, 0, 1, tree.greedy, tree.position)
        middle = loop(between, 0, None, tree.greedy, tree.position)
        return self.follow(Concat((once, middle, once)), tails)

    def _follow_tempered(self, tree: Loop, tails: list[_Tail]) -> list[_Tail]:
        """`(?:(?!x)c)*`: many rounds of one length, where what follows decides whether a round may stand there."""
        simple = _one_character(tree.item)
        if simple is not None:
            return self.follow(loop(char(simple), tree.minimum, tree.maximum, tree.greedy, tree.position), tails)
        taken = _assuming(tree.item, EMPTY, EMPTY, may_capture=False)
        allowed = self.follow(tree.item, [_Tail(_FREE, ANY_TEXT)])
        if not (taken and fixed_length(taken)) or any(one.before != _FREE for one in allowed):
            raise self._refused(
                "an assertion in a repeat is supported only if it is a look-ahead and each round takes the same number "
                f"of characters; bound the repeat by a count of at most {_UNROLLED}",
                tree.position,
            )
        found = []
        for tail in tails:
            if tail.before == _FREE:
                node = self._tempered(tree, taken, choice([one.node for one in allowed]), tail.node)
                found.append(_Tail(_FREE, node, tail.at_end))
                continue
            if not tree.minimum:
                found.append(tail)
            maximum = None if tree.maximum is None else tree.maximum - 1
            earlier = Loop(tree.item, max(tree.minimum - 1, 0), maximum, tree.greedy, tree.position)
            found.extend(self._follow_tempered(earlier, self.follow(tree.item, [tail])))
        return self._merge(found)

    def _tempered(self, tree: Loop, taken: Node, allowed: Node, rest: Node) -> Node:
        """The rounds and the rest; `taken` is what a round takes, `allowed` the texts at whose start one may stand.

        The texts in which a round stands where it may not are taken out, so it must be certain where the rounds end.
        If none need be there, the fewest are looked for: those before the first place where the rest fits.
        """
        if not tree.minimum:
            if rest == ANY_TEXT:
                return rest
            if fixed_length(taken) == 1:
                taken = char(classes.difference(first_characters(taken), _opening(rest)))
        every = sequence(Repeat(taken, tree.minimum, tree.maximum, tree.greedy), rest)
        again = sequence(taken, Repeat(taken), rest)
        wrong = both(again, Complement(allowed))
        if taken == NOTHING:
            return every
        if fixed_length(rest) is None and classes.intersection(first_characters(rest), first_characters(taken)):
            if not tree.minimum and self._is_empty(both(wrong, Complement(rest))):
                return every
            if not self._is_empty(both(again, rest)):
                raise self._refused(
                    "a look-around in a repeat needs an end that the repeat cannot take; write one, or bound the "
                    f"repeat by a count of at most {_UNROLLED}",
                    tree.position,
                )
        return both(every, Complement(sequence(Repeat(taken), wrong)))

    def _is_empty(self, node: Node) -> bool:
        """Whether the node certainly matches nothing."""
        answer, work = decide_empty(node, _DECIDING)
        self._work += work
        return answer

    def _follow_ahead(self, tree: Look, tails: list[_Tail]) -> list[_Tail]:
        wanted = self.follow(tree.item, [_Tail(_FREE, ANY_TEXT)])
        if not tree.negated:
            return self._merge(
                [
                    _Tail(tail.before.both(one.before), both(tail.node, one.node), tail.at_end)
                    for tail in tails
                    for one in wanted
                ]
            )
        for one in wanted:
            refused = one.before.negation()
            tails = self._merge(
                [
                    found
                    for tail in tails
                    for found in (
                        _Tail(tail.before, both(tail.node, Complement(one.node)), tail.at_end),
                        *([] if one.before == _FREE else [_Tail(tail.before.both(refused), tail.node, tail.at_end)]),
                    )
                ]
            )
        return tails

    def _follow_behind(self, tree: Look, tails: list[_Tail]) -> list[_Tail]:
        demand = _demand(tree.item)
        if demand is None:
            raise self._refused(
                "look-behind is supported for one character only; match what precedes as part of the pattern",
                tree.position,
            )
        if tree.negated:
            demand = demand.negation()
        return self._merge([_Tail(tail.before.both(demand), tail.node, tail.at_end) for tail in tails])

    def _merge(self, tails: list[_Tail]) -> list[_Tail]:
        """The tails without impossible ones; those that differ only in the node become one."""
        merged: list[tuple[_Tail, list[Node]]] = []
        for tail in tails:
            if tail.node == NOTHING or not (tail.before.characters or tail.before.start):
                continue
            for first, nodes in merged[-1:] if self._ordered else merged:
                if first.before == tail.before and first.at_end == tail.at_end:
                    nodes.append(tail.node)
                    break
            else:
                merged.append((tail, [tail.node]))
        return [_Tail(first.before, choice(nodes), first.at_end) for first, nodes in merged]

    def _refused(self, reason: str, position: int) -> InvalidRegex:
        return InvalidRegex(reason, pattern=self._pattern, position=position)


def _one_character(tree: Tree) -> Ranges | None:
    """The set of characters that the tree matches, if it checks a single character."""
    if is_node(tree):
        return first_characters(tree) if fixed_length(tree) == 1 else None
    if not isinstance(tree, Concat):
        return None
    *checks, one = tree.items
    found = _one_character(one)
    for check in checks:
        if found is None or not (isinstance(check, Look) and check.ahead and is_node(check.item)):
            return None
        seen = _one_character(check.item)
        if seen is None:
            return None
        found = (classes.difference if check.negated else classes.intersection)(found, seen)
    return found


def _opening(rest: Node) -> Ranges:
    """Characters that the remainder may begin with and after which it matches any text."""
    if isinstance(rest, Sequence) and len(rest.items) == 2 and rest.items[1] == ANY_TEXT:
        return first_characters(rest.items[0]) if fixed_length(rest.items[0]) == 1 else classes.NONE
    return classes.NONE


def _anchored(tail: _Tail, end: bool) -> _Tail:
    if end:
        return _Tail(tail.before, empty_part(tail.node), True)
    return _Tail(tail.before.both(_AT_START), tail.node, tail.at_end)


def _captured(name: str, node: Node) -> Node:
    return node if node == NOTHING else Capture(name, node)


def _join(piece: _Tail, tail: _Tail) -> list[_Tail]:
    """The piece directly before the tail: its last character meets the demand, or it is empty and passes it on."""
    rest = empty_part(tail.node) if piece.at_end else tail.node
    at_end = piece.at_end or tail.at_end
    if tail.before == _FREE:
        return [_Tail(piece.before, sequence(piece.node, rest), at_end)]
    return [
        _Tail(piece.before, sequence(ending_in(piece.node, tail.before.characters), rest), at_end),
        _Tail(piece.before.both(tail.before), sequence(empty_part(piece.node), rest), at_end),
    ]


def _grouped(items: Items[Tree]) -> list[Tree]:
    """Merge neighbouring alternatives without assertions, so that what follows is not repeated for each."""
    groups: list[list[Tree]] = []
    for item in items:
        if groups and is_node(item) and is_node(groups[-1][-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [alternate(group) for group in groups]


def _assuming(tree: Tree, anchor: Node, look: Node | None, *, may_capture: bool) -> Node | None:
    """The tree with these instead of its assertions; None if one has none, or if there is a capture and may not be."""
    if isinstance(tree, (Anchor, Look)):
        return anchor if isinstance(tree, Anchor) else look
    if isinstance(tree, (Concat, Alternate)):
        inner = [_assuming(item, anchor, look, may_capture=may_capture) for item in tree.items]
        nodes = [node for node in inner if node is not None]
        if len(nodes) < len(inner):
            return None
        return sequence(*nodes) if isinstance(tree, Concat) else choice(nodes)
    if not isinstance(tree, (Loop, Named)):
        return tree
    node = _assuming(tree.item, anchor, look, may_capture=may_capture)
    if node is None or (isinstance(tree, Named) and not may_capture):
        return None
    if isinstance(tree, Named):
        return _captured(tree.name, node)
    if node == NOTHING:
        return NOTHING if tree.minimum else EMPTY
    return Repeat(node, tree.minimum, tree.maximum, tree.greedy)


def _demand(tree: Tree) -> _Demand | None:
    """What a look-behind requires of the previous character, if it checks at most one."""
    if isinstance(tree, Anchor):
        return None if tree.end else _AT_START
    if isinstance(tree, Chars):
        return _Demand(tree.ranges, False)
    if isinstance(tree, Bytes):
        text = tree.value.decode()
        return _Demand(classes.single(ord(text)), False) if len(text) == 1 else None
    if isinstance(tree, (Alternate, Choice)):
        demands = [_demand(item) for item in tree.items]
        known = [demand for demand in demands if demand is not None]
        if len(known) == len(demands):
            return _Demand(classes.union(*(one.characters for one in known)), any(one.start for one in known))
    return None
