"""Which node matches which stretch of a text, read off the recognizer's chart.

Positions count steps. A rule or terminal matches a stretch if the chart says so; for the nodes between them the
answers are put together here, from whichever side is cheaper.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Items
from typing import TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Capture, Choice, Node, Repeat, Sequence, Substring, Terminal
from formatter_core.grammar.automaton import DEAD
from formatter_core.limits import Limits
from formatter_core.parsing.recognizer import Recognizer
from formatter_core.parsing.remainders import Symbol
from formatter_core.parsing.shape import Shape

__all__ = ["Rounds", "Spans"]

# Rounds so far (up to where the number stops mattering) and position -> the ends of the next round, sorted.
Rounds: TypeAlias = dict[tuple[int, int], list[int]]

# One step here takes about a microsecond and some memory, a step of `Limits.work` well under that.
_COST = 10
_FEW = 4
_TERMINAL_WEIGHT = 1_000
_REPEAT_WEIGHT = 1_000_000
_NOBODY: frozenset[int] = frozenset()


class Spans:
    """The stretches of one text, whose `steps` are its bytes and, as -1 - id, its tokens."""

    def __init__(self, shape: Shape, recognizer: Recognizer, steps: Items[int], limits: Limits) -> None:
        self.shape = shape
        self.length = recognizer.length
        self._limits = limits
        self._work = 0
        self._sets = recognizer.sets
        self._steps = steps
        self._by_start: list[dict[Symbol, list[int]]] = [{} for _ in recognizer.sets]
        self._by_end: list[dict[Symbol, list[int]]] = [{} for _ in recognizer.sets]
        for end, state_set in enumerate(recognizer.sets):
            for symbol, start in state_set.completed:
                self._by_start[start].setdefault(symbol, []).append(end)
                self._by_end[end].setdefault(symbol, []).append(start)
        self._runs: dict[tuple[Symbol, int], dict[tuple[int, int], bool]] = {}
        self._ends: dict[tuple[int, int], frozenset[int]] = {}
        self._starts: dict[tuple[int, int], frozenset[int]] = {}
        self._cuts: dict[tuple[int, int, int, frozenset[int]], list[set[int]]] = {}
        self._rounds: dict[tuple[int, int, int, bool], Rounds] = {}

    def matches(self, node: Node, start: int, end: int) -> bool:
        """Whether the node derives the text from `start` to `end`."""
        if start == end:
            return self.shape.nullable(node)
        if isinstance(node, Choice):
            return any(self.matches(item, start, end) for item in node.items)
        if isinstance(node, Capture):
            return self.matches(node.item, start, end)
        if isinstance(node, Sequence):
            return bool(self.cuts(node, start, end))
        if isinstance(node, Repeat):
            return end in self.ends(node, start)
        symbol = self.shape.symbol(node)
        if symbol is None:
            return False
        if symbol.body is not None:
            return (symbol, start) in self._sets[end].completed
        known = self._ends.get((id(node), start))
        return end in known if known is not None else self._leaf_matches(symbol, start, end)

    def ends(self, node: Node, start: int) -> frozenset[int]:
        """Where stretches of the node that begin at `start` end."""
        key = (id(node), start)
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = self._reach(node, start, forward=True)
        return known

    def ends_among(self, node: Node, start: int, targets: set[int]) -> list[int]:
        """Those of `targets` at which stretches of the node that begin at `start` end."""
        if len(targets) <= _FEW:
            found = [target for target in targets if start <= target and self.matches(node, start, target)]
        else:
            found = list(self.ends(node, start) & targets)
        self.spend(1 + len(found))
        return found

    def starts(self, node: Node, end: int) -> frozenset[int]:
        """Where stretches of the node that end at `end` begin."""
        key = (id(node), end)
        known = self._starts.get(key)
        if known is None:
            known = self._starts[key] = self._reach(node, end, forward=False)
        return known

    def cuts(self, node: Sequence, start: int, end: int, not_whole: frozenset[int] = _NOBODY) -> list[set[int]]:
        """The positions that may lie before, between and after the items when the sequence matches start–end.

        Every one lies on some way through all of the items. Items whose index is in `not_whole` may not match
        start–end all by themselves. Empty if there is no way.
        """
        key = (id(node), start, end, not_whole)
        if key not in self._cuts:
            self._cuts[key] = self._find_cuts(node.items, start, end, not_whole)
        return self._cuts[key]

    def rounds(self, node: Repeat, start: int, end: int, whole: bool = True) -> Rounds:
        """The rounds by which the repeat may match start–end, each on some way to the end; empty if there is no way.

        A round may be empty only as long as the minimum is not reached; without `whole` none may match start–end.
        """
        key = (id(node), start, end, whole)
        known = self._rounds.get(key)
        if known is None:
            known = self._rounds[key] = self._find_rounds(node, start, end, whole)
        return known

    def spend(self, steps: int) -> None:
        """Count elementary steps of choosing the preferred parse."""
        self._work += steps * _COST
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "choosing the preferred parse of an ambiguous text")

    # --- from one side -----------------------------------------------------------------------------------------

    def _side(self, node: Node, position: int, forward: bool) -> frozenset[int]:
        return self.ends(node, position) if forward else self.starts(node, position)

    def _reach(self, node: Node, position: int, forward: bool) -> frozenset[int]:
        self.spend(1)
        if isinstance(node, Choice):
            return frozenset().union(*(self._side(item, position, forward) for item in node.items))
        if isinstance(node, Capture):
            return self._side(node.item, position, forward)
        if isinstance(node, Sequence):
            reached: frozenset[int] = frozenset({position})
            for item in node.items if forward else reversed(node.items):
                reached = frozenset().union(*(self._side(item, place, forward) for place in reached))
                self.spend(len(reached))
            return reached
        if isinstance(node, Repeat):
            return self._reach_of_repeat(node, position, forward)
        symbol = self.shape.symbol(node)
        if symbol is None:
            return _NOBODY
        if symbol.body is None:
            return self._leaf_ends(symbol, position) if forward else self._leaf_starts(symbol, position)
        found = (self._by_start if forward else self._by_end)[position].get(symbol, ())
        return frozenset((*found, position)) if symbol.nullable else frozenset(found)

    def _leaf_ends(self, symbol: Symbol, start: int) -> frozenset[int]:
        if symbol.automaton is None:
            return frozenset({start + 1}) if self._leaf_matches(symbol, start, start + 1) else _NOBODY
        state = symbol.automaton.start
        found: list[int] = []
        position = start
        while state != DEAD:
            if symbol.automaton.accepting(state):
                found.append(position)
            if position == self.length or self._steps[position] < 0:
                break
            state = symbol.automaton.step(state, self._steps[position])
            position += 1
        self.spend(position - start)
        return frozenset(found)

    def _leaf_starts(self, symbol: Symbol, end: int) -> frozenset[int]:
        if symbol.automaton is None:
            return frozenset({end - 1}) if end and self._leaf_matches(symbol, end - 1, end) else _NOBODY
        found = [end] if symbol.nullable else []
        stack = [starts for ended, starts in self._sets[end].ended if ended is symbol]
        while stack:
            starts = stack.pop()
            if isinstance(starts, int):
                found.append(starts)
            else:
                stack.extend(starts)
        self.spend(len(found))
        return frozenset(found)

    def _leaf_matches(self, symbol: Symbol, start: int, end: int) -> bool:
        if symbol.automaton is None:
            return end == start + 1 <= self.length and symbol.token_id == -1 - self._steps[start]
        # Runs from many starts to one end soon come together, and are followed once from there.
        known = self._runs.setdefault((symbol, end), {})
        way: list[tuple[int, int]] = []
        state = symbol.automaton.start
        for position in range(start, end):
            if (position, state) in known or state == DEAD or self._steps[position] < 0:
                break
            way.append((position, state))
            state = symbol.automaton.step(state, self._steps[position])
        else:
            position = end
        self.spend(len(way))
        result = known.get((position, state), position == end and symbol.automaton.accepting(state))
        known.update(dict.fromkeys(way, result))
        return result

    def _reach_of_repeat(self, node: Repeat, position: int, forward: bool) -> frozenset[int]:
        # Empty rounds never change where a repeat can end; they only make up for the minimum.
        minimum = 0 if self.shape.nullable(node.item) else node.minimum
        reached = {(0, position)}
        stack = [(0, position)]
        while stack:
            count, place = stack.pop()
            if count == node.maximum:
                continue
            following = minimum if node.maximum is None and count >= minimum else count + 1
            for end in self._side(node.item, place, forward):
                self.spend(1)
                if end != place and (following, end) not in reached:
                    reached.add((following, end))
                    stack.append((following, end))
        return frozenset(place for count, place in reached if count >= minimum)

    # --- from both sides ---------------------------------------------------------------------------------------

    def _find_cuts(self, items: tuple[Node, ...], start: int, end: int, not_whole: frozenset[int]) -> list[set[int]]:
        if not items:
            return [{start}] if start == end else []
        left, right = 0, len(items)
        cuts: list[set[int]] = [{start}] + [set() for _ in items[1:]] + [{end}]

        def links(index: int, place: int, targets: set[int]) -> list[int]:
            found = self.ends_among(items[index], place, targets)
            if index in not_whole and place == start:
                found = [target for target in found if target != end]
            return found

        while right - left > 1:
            if self._weight(items[left], cuts[left], True) < self._weight(items[right - 1], cuts[right], False):
                ahead = [target for place in cuts[left] for target in self.ends(items[left], place)]
                left += 1
                cuts[left] = {target for target in ahead if target <= end}
            else:
                ahead = [source for place in cuts[right] for source in self.starts(items[right - 1], place)]
                right -= 1
                cuts[right] = {source for source in ahead if source >= start}
            self.spend(len(ahead))
            if not ahead:
                return []
        # Keep what lies on a way through: to the left from the meeting point, then to the right from the start.
        for index in range(len(items) - 1 if not_whole else left, -1, -1):
            cuts[index] = {place for place in cuts[index] if links(index, place, cuts[index + 1])}
            if not cuts[index]:
                return []
        for index in range(len(items)):
            cuts[index + 1] = {target for place in cuts[index] for target in links(index, place, cuts[index + 1])}
            if not cuts[index + 1]:
                return []
        return cuts

    def _weight(self, node: Node, places: Collection[int], forward: bool) -> int:
        """About how many positions lie on the other side of the node."""
        if isinstance(node, Repeat):
            return _REPEAT_WEIGHT
        if isinstance(node, Capture):
            return self._weight(node.item, places, forward)
        if isinstance(node, Choice):
            return sum(self._weight(item, places, forward) for item in node.items)
        if isinstance(node, Sequence):
            return sum(self._weight(item, places, forward) for item in node.items)
        symbol = self.shape.symbol(node)
        if symbol is None:
            return 0
        if symbol.body is None:
            return len(places) * (_TERMINAL_WEIGHT if isinstance(node, (Substring, Terminal)) else 1)
        index = self._by_start if forward else self._by_end
        return sum(len(index[place].get(symbol, ())) + symbol.nullable for place in places)

    def _find_rounds(self, node: Repeat, start: int, end: int, whole: bool) -> Rounds:
        begin = (0, start)
        seen = {begin}
        stack = [begin]
        sources: dict[tuple[int, int], list[tuple[int, int]]] = {}
        while stack:
            state = count, place = stack.pop()
            if count == node.maximum:
                continue
            following = node.minimum if node.maximum is None and count >= node.minimum else count + 1
            for target in self.ends(node.item, place):
                self.spend(1)
                if target > end or (target == place and count >= node.minimum):
                    continue
                if not whole and (place, target) == (start, end):
                    continue
                after = (following, target)
                sources.setdefault(after, []).append(state)
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
        result: Rounds = {}
        goals = [state for state in seen if state[1] == end and state[0] >= node.minimum]
        alive = set(goals)
        while goals:
            state = goals.pop()
            result.setdefault(state, [])
            for source in sources.get(state, ()):
                result.setdefault(source, []).append(state[1])
                if source not in alive:
                    alive.add(source)
                    goals.append(source)
        return result if begin in alive else {}
