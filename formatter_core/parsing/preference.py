"""The preferred parse of a stretch of text: the one whose choices, read from the left, come first.

A stretch is fixed from both sides, so the first alternative that matches it is the preferred one, and only how a
sequence or repeat is cut needs comparing: of two ends of one item the better is the one whose preferred parse comes
first, and two parses from the same start are compared from the top, following the first place where they differ.

Only finite parses count in which no rule derives itself over the same stretch. `Inside` names the rules that are
being derived over the stretch in question; it is empty unless a rule is cyclic.

The functions are generators that ask for one another's results by `yield`; `resolve` runs them on a stack of its
own, because parses may be as deep as the text is long.
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Sequence as Items
from typing import Any, TypeAlias

from formatter_core.grammar import Capture, Choice, Node, Reference, Repeat, Sequence, Substring, Terminal
from formatter_core.limits import Limits
from formatter_core.parsing.spans import Spans
from formatter_core.parsing.terminal_order import TerminalOrder

__all__ = ["NOWHERE", "Inside", "Preference", "resolve"]

Inside: TypeAlias = frozenset[str]
NOWHERE: Inside = frozenset()

Asked: TypeAlias = Generator[Any, Any, Any]


def resolve(asked: Asked) -> Any:
    """The result of a generator that yields the generators whose results it needs."""
    stack = [asked]
    value: Any = None
    while stack:
        try:
            needed = stack[-1].send(value)
        except StopIteration as finished:
            stack.pop()
            value = finished.value
        else:
            stack.append(needed)
            value = None
    return value


class Preference:
    """Choices over one text, whose `steps` are its bytes; a negative number is a token."""

    def __init__(self, spans: Spans, steps: Items[int], limits: Limits) -> None:
        self._spans = spans
        self._shape = spans.shape
        self._steps = steps
        self._limits = limits
        self._matches: dict[tuple[Any, ...], bool] = {}
        self._paths: dict[tuple[Any, ...], list[int]] = {}
        self._comparisons: dict[tuple[Any, ...], int] = {}
        self._orders: dict[int, TerminalOrder] = {}
        self._ranks: dict[tuple[int, int], dict[int, int]] = {}

    def entered(self, rule: str, inside: Inside) -> Inside:
        """What is being derived below the rule, over the same stretch."""
        return inside | {rule} if rule in self._shape.cyclic else inside

    def choice(self, node: Choice, start: int, end: int, inside: Inside) -> Asked:
        """The index of the preferred item over start–end, where the choice matches."""
        for index, item in enumerate(node.items):
            self._spans.spend(1)
            if (yield self._match(item, start, end, inside)):
                return index
        raise AssertionError("a choice was asked for where none of its items matches")

    def path(self, node: Sequence | Repeat, start: int, end: int, inside: Inside) -> Asked:
        """The preferred cuts of a sequence, or rounds of a repeat: the positions, from `start` to `end`."""
        key = (id(node), start, end, inside)
        known = self._paths.get(key)
        if known is None:
            steps = self._sequence_path if isinstance(node, Sequence) else self._repeat_path
            known = self._paths[key] = yield steps(node, start, end, inside)  # type: ignore[arg-type]
        return known

    # --- whether a node matches when some rules are being derived already ---------------------------------------

    def _match(self, node: Node, start: int, end: int, inside: Inside) -> Asked:
        if not self._spans.matches(node, start, end):
            return False
        if not inside:
            return True
        if isinstance(node, Reference) and node.name in inside:
            return False
        key = (id(node), start, end, inside)
        known = self._matches.get(key)
        if known is None:
            self._spans.spend(1)
            known = self._matches[key] = yield self._match_inside(node, start, end, inside)
        return known

    def _match_inside(self, node: Node, start: int, end: int, inside: Inside) -> Asked:
        if isinstance(node, Reference):
            body = self._shape.body(node.name)
            return (yield self._match(body, start, end, self.entered(node.name, inside)))
        if isinstance(node, Capture):
            return (yield self._match(node.item, start, end, inside))
        if isinstance(node, Choice):
            for item in node.items:
                if (yield self._match(item, start, end, inside)):
                    return True
            return False
        if isinstance(node, Sequence):
            not_whole = yield self._not_whole(node, start, end, inside)
            return bool(self._spans.cuts(node, start, end, not_whole))
        if isinstance(node, Repeat):
            whole = yield self._whole(node, start, end, inside)
            return bool(self._spans.rounds(node, start, end, whole))
        return True

    def _not_whole(self, node: Sequence, start: int, end: int, inside: Inside) -> Asked:
        """The indices of the items that would derive start–end alone, on some way, but may not."""
        if not inside:
            return frozenset()
        cuts = self._spans.cuts(node, start, end)
        found: set[int] = set()
        for index, item in enumerate(node.items if cuts else ()):
            # Asking only where an item can stand alone keeps to chains of rules that end, or that are cyclic.
            alone = start in cuts[index] and end in cuts[index + 1]
            if alone and not (yield self._match(item, start, end, inside)):
                found.add(index)
        return frozenset(found)

    def _whole(self, node: Repeat, start: int, end: int, inside: Inside) -> Asked:
        """Whether a single round may derive start–end, as far as it matters."""
        if not inside:
            return True
        rounds = self._spans.rounds(node, start, end)
        alone = any(place == start and end in ends for (_, place), ends in rounds.items())
        return not alone or (yield self._match(node.item, start, end, inside))

    # --- cutting a stretch --------------------------------------------------------------------------------------

    def _sequence_path(self, node: Sequence, start: int, end: int, inside: Inside) -> Asked:
        not_whole = yield self._not_whole(node, start, end, inside)
        cuts = self._spans.cuts(node, start, end, not_whole)
        path = [start]
        for index, item in enumerate(node.items):
            place = path[-1]
            targets = [
                target
                for target in self._spans.ends_among(item, place, cuts[index + 1])
                if not (index in not_whole and (place, target) == (start, end))
            ]
            path.append((yield self._best(item, place, targets, (start, end), inside)))
        return path

    def _repeat_path(self, node: Repeat, start: int, end: int, inside: Inside) -> Asked:
        whole = yield self._whole(node, start, end, inside)
        rounds = self._spans.rounds(node, start, end, whole)
        path = [start]
        count = 0
        # A round is empty only below the minimum, so at the end of the stretch there is nothing to choose.
        while path[-1] != end or count < node.minimum:
            state = (min(count, node.minimum) if node.maximum is None else count, path[-1])
            path.append((yield self._best(node.item, path[-1], rounds[state], (start, end), inside)))
            count += 1
        return path

    def _best(self, item: Node, place: int, targets: list[int], stretch: tuple[int, int], inside: Inside) -> Asked:
        """The end whose parse of `item` from `place` comes first."""
        best = targets[0]
        for target in targets[1:]:
            one = inside if (place, target) == stretch else NOWHERE
            other = inside if (place, best) == stretch else NOWHERE
            if (yield self._compare(item, place, (target, one), (best, other))) < 0:
                best = target
        return best

    # --- comparing two parses -----------------------------------------------------------------------------------

    def _compare(self, node: Node, start: int, one: tuple[int, Inside], other: tuple[int, Inside]) -> Asked:
        """Negative if the preferred parse of `node` from `start` to the first end comes before that to the second."""
        if one == other:
            return 0
        key = (id(node), start, one, other)
        known = self._comparisons.get(key)
        if known is None:
            self._spans.spend(1)
            known = self._comparisons[key] = yield self._compare_parses(node, start, one, other)
        return known

    def _compare_parses(self, node: Node, start: int, one: tuple[int, Inside], other: tuple[int, Inside]) -> Asked:
        if isinstance(node, Capture):
            return (yield self._compare(node.item, start, one, other))
        if isinstance(node, Reference):
            one, other = ((end, self.entered(node.name, inside)) for end, inside in (one, other))
            return (yield self._compare(self._shape.body(node.name), start, one, other))
        if isinstance(node, Choice):
            first = yield self.choice(node, start, *one)
            second = yield self.choice(node, start, *other)
            return first - second or (yield self._compare(node.items[first], start, one, other))
        if isinstance(node, (Sequence, Repeat)):
            first = yield self.path(node, start, *one)
            second = yield self.path(node, start, *other)
            return (yield self._compare_paths(node, (first, one[1]), (second, other[1])))
        return self._rank(node, start, one[0]) - self._rank(node, start, other[0])

    def _compare_paths(
        self, node: Sequence | Repeat, one: tuple[list[int], Inside], other: tuple[list[int], Inside]
    ) -> Asked:
        lengths = len(one[0]), len(other[0])
        for index in range(min(lengths) - 1):
            item = node.items[index] if isinstance(node, Sequence) else node.item
            ends = []
            for path, inside in (one, other):
                whole = (path[index], path[index + 1]) == (path[0], path[-1])
                ends.append((path[index + 1], inside if whole else NOWHERE))
            result = yield self._compare(item, one[0][index], ends[0], ends[1])
            if result:
                return result
        more = lengths[1] - lengths[0]
        return more if not isinstance(node, Repeat) or node.greedy else -more

    def _rank(self, node: Node, start: int, end: int) -> int:
        """The place of `end` among the ends of a leaf that begins at `start`, in order of preference."""
        if isinstance(node, Substring):
            return -end
        if not isinstance(node, Terminal):
            return 0
        key = (id(node), start)
        ranks = self._ranks.get(key)
        if ranks is None:
            order = self._orders.get(id(node))
            if order is None:
                order = self._orders[id(node)] = TerminalOrder(node, self._limits)
            ranks = self._ranks[key] = {end: rank for rank, end in enumerate(order.ends(self._steps, start))}
            self._spans.spend(len(ranks))
        return ranks[end]
