"""What every surviving parse of an unfinished text agrees on, as far as captures go.

Earley's algorithm over the nodes of the grammar: each node is called in a column and goes on in places, and each place
keeps what the parses that lead to it from the beginning of its call agree on. All derivations count in which no round
of a repeat beyond its minimum is empty.
"""

from __future__ import annotations

from typing import NamedTuple

from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Capture, Choice, Grammar, Node, Reference, Repeat, Sequence
from formatter_core.grammar.automaton import DEAD, Automaton
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.marks import Mark, News
from formatter_core.parsing.remainders import tables_of
from formatter_core.parsing.shape import Shape, shape_of
from formatter_core.parsing.trails import EMPTY, NO_MARKS, Trail, Trails, either, list_of, parting

__all__ = ["Agreement"]


class _Call:
    """A node in a column, the places that it is called from, and what leads to it from the beginning of the text."""

    __slots__ = ("callers", "column", "context", "node")

    def __init__(self, node: Node, column: int) -> None:
        self.node = node
        self.column = column
        self.callers: dict[_Place, Trail] = {}
        self.context: Trail | None = None


class _Place(NamedTuple):
    """How far a call has come: the number of items of a sequence, or rounds of a repeat, as far as it matters."""

    call: _Call
    done: int


class _Column:
    """What is possible after a step.

    Attributes:
        offset: the number of bytes before it.
        running: the terminals under way, with their states.
        complete: the parses of the whole text.
    """

    __slots__ = ("calls", "complete", "offset", "running", "waiting")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.calls: dict[int, _Call] = {}
        self.running: dict[tuple[_Call, Automaton, int], None] = {}
        self.waiting: list[tuple[_Call, int]] = []
        self.complete: Trail | None = None


class Agreement:
    """Follows a text step by step: a byte, or a token that the grammar names.

    Only texts that the recognizer takes may be pushed.

    Raises:
        LimitExceeded: a step needs more than `Limits.work` elementary ones; nothing is changed then.
    """

    def __init__(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        grammar = grammar.lowered
        tables = tables_of(grammar, limits)
        self._shape: Shape = shape_of(grammar, tables)
        self._work = 0
        self._trails = Trails()
        self._reported = NO_MARKS
        self._columns = [_Column(0)]
        self._places: dict[_Place, Trail] = {}
        self._agenda: list[_Place] = []
        self._ended: dict[_Call, Trail] = {}
        self._root = self._call(self._shape.body(grammar.start))
        self._root.context = EMPTY
        self._close()

    def push(self, data: bytes) -> None:
        """Append bytes."""
        for pushed, byte in enumerate(data):
            before = self._columns[-1]
            ended = []
            column = _Column(before.offset + 1)
            for call, automaton, state in before.running:
                state = automaton.step(state, byte)
                if state != DEAD:
                    column.running[call, automaton, state] = None
                    if automaton.accepting(state):
                        ended.append(call)
            self._append(column, ended, pushed)

    def push_token(self, token_id: int) -> None:
        """Append a token that the grammar names by its id."""
        before = self._columns[-1]
        self._append(_Column(before.offset), [call for call, token in before.waiting if token == token_id], 0)

    def pop(self, steps: int) -> None:
        """Undo the last `steps` steps."""
        del self._columns[len(self._columns) - steps :]

    def news(self) -> News:
        """What is agreed that was not when this was asked last."""
        last = self._columns[-1]
        # A terminal that may continue, not only has ended.
        alive = (call for call, automaton, state in last.running if automaton.transitions(state))
        total = last.complete
        for call in (*alive, *(call for call, _ in last.waiting)):
            if call.context is not None:
                total = call.context if total is None else either(total, call.context)
        trail = Trail(NO_MARKS, 0, frozenset()) if total is None else total
        shared, _ = parting(self._reported, trail.marks)
        self._reported = trail.marks
        marks = [Mark(*mark.symbol, self._columns[mark.column].offset) for mark in list_of(trail.marks, shared)]
        parted = self._columns[trail.parted] if trail.parted < len(self._columns) else last
        return News(shared.length, marks, parted.offset)

    # --- one column --------------------------------------------------------------------------------------------

    def _append(self, column: _Column, ended: list[_Call], pushed: int) -> None:
        self._columns.append(column)
        self._work = 0
        try:
            for call in ended:
                self._end(call, EMPTY)
            self._close()
        except LimitExceeded:
            self.pop(pushed + 1)
            self._agenda.clear()
            self._forget()
            raise

    def _close(self) -> None:
        """Follow everything that takes no step."""
        while self._agenda:
            self._follow(self._agenda.pop())
        column = self._columns[-1]
        changes = True
        while changes:  # new calls may call one another
            changes = False
            for call in column.calls.values():
                for (around, _), trail in call.callers.items():
                    self._spend(1)
                    if around.context is None:
                        continue
                    whole = self._trails.joined(around.context, trail, around.column)
                    both = whole if call.context is None else either(call.context, whole)
                    changes |= both != call.context
                    call.context = both
        self._forget()

    def _forget(self) -> None:
        self._places.clear()
        self._ended.clear()

    def _follow(self, place: _Place) -> None:
        self._spend(1)
        (call, done), trail = place, self._places[place]
        node = call.node
        if isinstance(node, Sequence):
            if done == len(node.items):
                self._end(call, trail)
            else:
                self._called(node.items[done], place, trail)
        elif isinstance(node, Repeat):
            if node.maximum is None or done < node.maximum:
                self._called(node.item, place, trail)
            if done >= node.minimum:
                self._end(call, trail)
        elif isinstance(node, Capture):
            trail = self._trails.with_mark(trail, (done == 0, node.name), len(self._columns) - 1)
            if done == 0:
                self._called(node.item, place, trail)
            else:
                self._end(call, trail)
        elif done:
            self._end(call, trail)
        elif isinstance(node, Choice):
            for item in node.items:
                self._called(item, place, trail)
        elif isinstance(node, Reference):
            self._called(self._shape.body(node.name), place, trail)
        else:
            self._begin(call)

    def _begin(self, call: _Call) -> None:
        """Begin a terminal, or wait for a token."""
        column, symbol = self._columns[-1], self._shape.symbol(call.node)
        if symbol is None:
            return
        if symbol.token_id is not None:
            column.waiting.append((call, symbol.token_id))
        elif symbol.automaton is not None:
            column.running[call, symbol.automaton, symbol.automaton.start] = None
            if symbol.nullable:
                self._end(call, EMPTY)

    def _called(self, node: Node, place: _Place, trail: Trail) -> None:
        if not self._shape.productive(node):
            return
        call = self._columns[-1].calls.get(id(node)) or self._call(node)
        call.callers[place] = trail
        if call in self._ended:
            self._go_back(call, place, trail, self._ended[call])

    def _call(self, node: Node) -> _Call:
        call = self._columns[-1].calls[id(node)] = _Call(node, len(self._columns) - 1)
        self._reach(_Place(call, 0), EMPTY)
        return call

    def _end(self, call: _Call, trail: Trail) -> None:
        if call.column == len(self._columns) - 1:
            known = self._ended.get(call)
            trail = self._ended[call] = trail if known is None else either(known, trail)
        if call is self._root:
            known = self._columns[-1].complete
            self._columns[-1].complete = trail if known is None else either(known, trail)
        for place, before in list(call.callers.items()):
            self._go_back(call, place, before, trail)

    def _go_back(self, call: _Call, place: _Place, before: Trail, trail: Trail) -> None:
        """Go on after a call that has ended."""
        self._spend(1)
        around, done = place
        done += 1
        if isinstance(around.node, Repeat):
            if call.column == len(self._columns) - 1 and done > around.node.minimum:
                return
            if around.node.maximum is None:
                done = min(done, around.node.minimum)
        self._reach(_Place(around, done), self._trails.joined(before, trail, call.column))

    def _reach(self, place: _Place, trail: Trail) -> None:
        known = self._places.get(place)
        both = trail if known is None else either(known, trail)
        if both != known:
            self._places[place] = both
            self._agenda.append(place)

    def _spend(self, steps: int) -> None:
        self._work += steps
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "one step of the parser")
