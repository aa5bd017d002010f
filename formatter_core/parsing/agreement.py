"""What every surviving parse of an unfinished text agrees on, as far as captures go.

Each parse that the text so far leaves alive opens and closes captures in some order: its trail. The longest common
beginning of all trails is agreed, whatever comes. It is worked out inside Earley's algorithm: each item carries the
trail since its origin, and where two ways lead to the same item, which from there on share their future, what is left
of the trails is their common beginning and the offset at which they part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Capture, Choice, Grammar, Node, Repeat, Sequence
from formatter_core.grammar.automaton import DEAD
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.remainders import Symbol, Tables, tables_of
from formatter_core.parsing.shape import Shape, shape_of

__all__ = ["Agreement", "Mark"]


class Mark(NamedTuple):
    """A capture that opens or closes at a byte offset."""

    opens: bool
    name: str
    offset: int


class Trail:
    """Marks in order, as a list that shares its beginning with others; equal lists are one object.

    `parted` is the offset from which on nothing is agreed; None while all is.
    """

    __slots__ = ("length", "mark", "parent", "parted")

    def __init__(self, parent: Trail | None, mark: Mark | None, parted: int | None) -> None:
        self.parent = parent
        self.mark = mark
        self.parted = parted
        self.length: int = 0 if parent is None else parent.length + (mark is not None)

    def marks(self) -> list[Mark]:
        """The marks, first one first."""
        found: list[Mark] = []
        trail: Trail | None = self
        while trail is not None:
            if trail.mark is not None:
                found.append(trail.mark)
            trail = trail.parent
        found.reverse()
        return found


class _Close(NamedTuple):
    """Stands in a remainder where a capture ends."""

    name: str


class _Rounds(NamedTuple):
    """Stands in a remainder where more rounds of a repeat may follow."""

    item: Node
    minimum: int
    maximum: int | None


_Part: TypeAlias = "Node | _Close | _Rounds"


class _Rest:
    """What is left of a rule: a part, then another rest. Equal ones are one object."""

    __slots__ = ("after", "part")

    def __init__(self, part: _Part, after: _Rest | None) -> None:
        self.part = part
        self.after = after


_Item: TypeAlias = "tuple[Symbol, _Rest | None, int]"  # rule, what is left of it, origin


class _Waiting(NamedTuple):
    item: _Item
    trail: Trail


class _Running(NamedTuple):
    symbol: Symbol
    state: int
    item: _Item
    trail: Trail


class _Column:
    __slots__ = ("complete", "offset", "running", "waiting")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.running: dict[tuple[Symbol, int, _Item], _Running] = {}
        self.waiting: dict[Symbol, dict[_Item, _Waiting]] = {}
        self.complete: Trail | None = None  # of the whole text


class Agreement:
    """Follows a text byte by byte, or token by token for tokens that the grammar names.

    Only texts that the recognizer takes may be pushed.

    Raises:
        LimitExceeded: `push` needs more than `Limits.work` steps.
    """

    def __init__(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._tables: Tables = tables_of(grammar, limits)
        self._shape: Shape = shape_of(grammar, self._tables)
        self._start = self._tables.start
        self._work = 0
        self._empty = Trail(None, None, None)
        self._trails: dict[tuple[Trail, Mark | None, int | None], Trail] = {}
        self._rests: dict[tuple[int, _Rest | None], _Rest] = {}
        self._kept: list[_Part] = []  # keeps what `_rests` knows by identity alive
        self._close_of: dict[str, _Close] = {}
        self._rounds_of: dict[tuple[int, int, int | None], _Rounds] = {}
        first = _Column(0)
        self._columns = [first]
        body = self._rest(self._shape.body(grammar.start), None)
        first.complete = self._expand(first, self._start, body, 0, self._empty)
        self._predict(first)

    @property
    def length(self) -> int:
        """The number of steps pushed."""
        return len(self._columns) - 1

    def push(self, byte: int) -> None:
        """Append a byte."""
        last = self._columns[-1]
        self._work = 0
        column = _Column(last.offset + 1)
        ended: dict[_Item, Trail] = {}
        for symbol, state, item, trail in last.running.values():
            automaton = symbol.automaton
            state = DEAD if automaton is None else automaton.step(state, byte)
            if automaton is None or state == DEAD:
                continue
            key = (symbol, state, item)
            known = column.running.get(key)
            trail = trail if known is None else self._common(known.trail, trail)
            column.running[key] = _Running(symbol, state, item, trail)
            if automaton.accepting(state):
                ended[item] = trail if item not in ended else self._common(ended[item], trail)
        self._append(column, ended)

    def push_token(self, token_id: int) -> None:
        """Append a token that the grammar names by its id."""
        last = self._columns[-1]
        self._work = 0
        ended = {
            waiting.item: waiting.trail
            for symbol, found in last.waiting.items()
            if symbol.token_id == token_id
            for waiting in found.values()
        }
        self._append(_Column(last.offset), ended)

    def pop(self, steps: int) -> None:
        """Undo the last `steps` steps."""
        del self._columns[len(self._columns) - steps :]

    def agreed(self) -> tuple[list[Mark], int]:
        """The marks that every surviving parse begins with, and the offset up to which there are no others."""
        column = self._columns[-1]
        ends = [
            (item[0], item[2], trail)
            for symbol, state, item, trail in column.running.values()
            if symbol.automaton is not None and symbol.automaton.transitions(state)  # it may go on, not only have ended
        ]
        ends += [
            (waiting.item[0], waiting.item[2], waiting.trail)
            for symbol, found in column.waiting.items()
            if symbol.token_id is not None
            for waiting in found.values()
        ]
        contexts = self._contexts({(rule, origin) for rule, origin, _ in ends})
        total = column.complete
        for rule, origin, trail in ends:
            whole = self._joined(contexts[rule, origin], trail)
            total = whole if total is None else self._common(total, whole)
        if total is None:
            return [], 0
        return total.marks(), column.offset if total.parted is None else total.parted

    # --- one column --------------------------------------------------------------------------------------------

    def _append(self, column: _Column, ended: dict[_Item, Trail]) -> None:
        self._columns.append(column)
        known: dict[_Item, Trail] = {}
        completed: dict[tuple[Symbol, int], Trail] = {}
        work = list(ended.items())
        while work:
            item, trail = work.pop()
            self._spend(1)
            before = known.get(item)
            trail = trail if before is None else self._common(before, trail)
            if trail is before:
                continue
            known[item] = trail
            rule, rest, origin = item
            done = self._expand(column, rule, rest, origin, trail)
            if done is None:
                continue
            earlier = completed.get((rule, origin))
            done = done if earlier is None else self._common(earlier, done)
            if done is earlier:
                continue
            completed[rule, origin] = done
            if rule is self._start and origin == 0:
                column.complete = done
            for outer, outer_trail in self._columns[origin].waiting.get(rule, {}).values():
                work.append((outer, self._joined(outer_trail, done)))
        self._predict(column)

    def _predict(self, column: _Column) -> None:
        """Begin the rules that are waited for in this column, and those that are waited for then."""
        position = len(self._columns) - 1
        begun: set[Symbol] = set()
        while rules := [rule for rule in column.waiting if rule.token_id is None and rule not in begun]:
            begun.update(rules)
            for rule in rules:
                body = self._rest(self._shape.body(rule.name), None)
                self._expand(column, rule, body, position, self._empty)

    def _expand(self, column: _Column, rule: Symbol, rest: _Rest | None, origin: int, trail: Trail) -> Trail | None:
        """Let an item wait for whatever it can go on with; the trail with which the rule is complete, if it is."""
        reached: dict[_Rest | None, Trail] = {}
        work: list[tuple[_Rest | None, Trail]] = [(rest, trail)]
        while work:
            rest, trail = work.pop()
            self._spend(1)
            before = reached.get(rest)
            trail = trail if before is None else self._common(before, trail)
            if trail is before:
                continue
            reached[rest] = trail
            if rest is None:
                continue
            for symbol, after in self._go_on(rest, trail, column.offset, work):
                item = (rule, after, origin)
                if symbol.automaton is not None:
                    state = symbol.automaton.start
                    same = column.running.get((symbol, state, item))
                    merged = trail if same is None else self._common(same.trail, trail)
                    column.running[symbol, state, item] = _Running(symbol, state, item, merged)
                    continue
                waiting = column.waiting.setdefault(symbol, {})
                other = waiting.get(item)
                waiting[item] = _Waiting(item, trail if other is None else self._common(other.trail, trail))
        return reached.get(None)

    def _go_on(
        self, rest: _Rest, trail: Trail, offset: int, work: list[tuple[_Rest | None, Trail]]
    ) -> Iterator[tuple[Symbol, _Rest | None]]:
        """The symbols that may come next with what is left after them; other rests at the same place go to `work`."""
        part, after = rest.part, rest.after
        if isinstance(part, Sequence):
            for item in reversed(part.items):
                after = self._rest(item, after)
            work.append((after, trail))
        elif isinstance(part, Choice):
            work.extend((self._rest(item, after), trail) for item in part.items)
        elif isinstance(part, Capture):
            opened = self._marked(trail, Mark(True, part.name, offset))
            work.append((self._rest(part.item, self._rest(self._close(part.name), after)), opened))
        elif isinstance(part, _Close):
            work.append((after, self._marked(trail, Mark(False, part.name, offset))))
        elif isinstance(part, (Repeat, _Rounds)):
            if part.minimum == 0:
                work.append((after, trail))
            elif self._shape.nullable(part.item):
                work.append((after, self._skipped(part.item, trail, offset)))
            if part.maximum != 0:
                maximum = None if part.maximum is None else part.maximum - 1
                rounds = self._rest(self._rounds(part.item, max(0, part.minimum - 1), maximum), after)
                work.append((self._rest(part.item, rounds), trail))
        else:
            symbol = self._shape.symbol(part)
            if symbol is None or (symbol.automaton is not None and symbol.automaton.is_empty()):
                return
            yield symbol, after
            if symbol.nullable:
                work.append((after, self._skipped(part, trail, offset)))

    # --- trails ------------------------------------------------------------------------------------------------

    def _marked(self, trail: Trail, mark: Mark) -> Trail:
        return trail if trail.parted is not None else self._trail(trail, mark, None)

    def _parted(self, trail: Trail, offset: int) -> Trail:
        return trail if trail.parted is not None else self._trail(trail, None, offset)

    def _skipped(self, node: Node, trail: Trail, offset: int) -> Trail:
        """The trail after a node that matched nothing: which captures it met on the way is left open."""
        return self._parted(trail, offset) if self._shape.captures(node) else trail

    def _joined(self, first: Trail, second: Trail) -> Trail:
        if first is self._empty or first.parted is not None:
            return second if first is self._empty else first
        for mark in second.marks():
            self._spend(1)
            first = self._trail(first, mark, None)
        return first if second.parted is None else self._trail(first, None, second.parted)

    def _common(self, first: Trail, second: Trail) -> Trail:
        """What two trails begin with, parted where they first differ."""
        if first is second:
            return first
        parted = [trail.parted for trail in (first, second) if trail.parted is not None]
        left, right = (trail if trail.parted is None else trail.parent or self._empty for trail in (first, second))
        while left is not right:
            self._spend(1)
            if left.length < right.length:
                left, right = right, left
            if left.mark is not None:  # only the empty trail has none, and it is never the longer one of two
                parted.append(left.mark.offset)
            left = left.parent or self._empty
        return left if not parted else self._trail(left, None, min(parted))

    def _trail(self, parent: Trail, mark: Mark | None, parted: int | None) -> Trail:
        key = (parent, mark, parted)
        known = self._trails.get(key)
        if known is None:
            known = self._trails[key] = Trail(parent, mark, parted)
        return known

    def _contexts(self, places: set[tuple[Symbol, int]]) -> dict[tuple[Symbol, int], Trail]:
        """The common trail from the beginning of the text up to where each rule began."""
        users: dict[tuple[Symbol, int], list[tuple[tuple[Symbol, int], Trail]]] = {}
        work = list(places)
        while work:
            place = work.pop()
            if place in users:
                continue
            users[place] = []
            rule, origin = place
            for (outer, _, outer_origin), trail in self._columns[origin].waiting.get(rule, {}).values():
                self._spend(1)
                users[place].append(((outer, outer_origin), trail))
                work.append((outer, outer_origin))
        inner: dict[tuple[Symbol, int], list[tuple[tuple[Symbol, int], Trail]]] = {}
        for place, found in users.items():
            for outer_place, trail in found:
                inner.setdefault(outer_place, []).append((place, trail))
        root = (self._start, 0)
        contexts = {root: self._empty}
        changed = [root]
        while changed:
            outer_place = changed.pop()
            for place, trail in inner.get(outer_place, ()):
                self._spend(1)
                whole = self._joined(contexts[outer_place], trail)
                known = contexts.get(place)
                merged = whole if known is None else self._common(known, whole)
                if merged is not known:
                    contexts[place] = merged
                    changed.append(place)
        return contexts

    # --- rests -------------------------------------------------------------------------------------------------

    def _rest(self, part: _Part, after: _Rest | None) -> _Rest:
        key = (id(part), after)
        known = self._rests.get(key)
        if known is None:
            known = self._rests[key] = _Rest(part, after)
            self._kept.append(part)
        return known

    def _close(self, name: str) -> _Close:
        return self._close_of.setdefault(name, _Close(name))

    def _rounds(self, item: Node, minimum: int, maximum: int | None) -> _Rounds:
        return self._rounds_of.setdefault((id(item), minimum, maximum), _Rounds(item, minimum, maximum))

    def _spend(self, steps: int) -> None:
        self._work += steps
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "one step of the parser")
