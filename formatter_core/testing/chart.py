"""The reference parser: Earley's algorithm over the nodes of a grammar, slow, short and legible.

It defines what the native parser must answer. It shares grammars, limits and the automata of terminals with production
code, and nothing else.

Each node is called in a column (one for each step of the text, and one before them) and goes on in places. A place
keeps a value for all derivations that lead to it from the beginning of its call; an `Algebra` says what values are:
nothing, where only the language matters, the first derivation, or what all of them agree on. All derivations count in
which no round of a repeat beyond its minimum is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    Capture,
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Token,
    holds_of_parts,
    rules_where,
)
from formatter_core.limits import Limits
from formatter_core.parsing.parts import Part
from formatter_core.testing.automaton import DEAD, Automaton

__all__ = ["Algebra", "Call", "Chart", "Rules"]

V = TypeVar("V")

#: The cost of an elementary step of the chart; `Limits.work` counts shorter ones.
_COST = 10


class Rules:
    """The analysis of a grammar before any text is read; nodes are distinguished by identity.

    Args:
        bodies: the node of each rule, without `Members` and `Schema`.
        start: the rule that derives the whole text.
        limits: for the automata of its terminals.

    Raises:
        InvalidGrammar: it derives no text.
    """

    def __init__(self, bodies: Mapping[str, Node], start: str, limits: Limits) -> None:
        self.bodies = bodies
        self.start = Reference(start)
        self._limits = limits
        self._automata: dict[Node, Automaton] = {}
        self._automaton_of: dict[int, Automaton] = {}
        self.productive = rules_where(bodies, self._derives)
        self._is_productive: dict[int, bool] = {}
        if start not in self.productive:
            raise InvalidGrammar("the grammar derives no text at all; give its start rule an alternative that ends")

    @classmethod
    def of(cls, grammar: Grammar, limits: Limits) -> Rules:
        """Make the rules of a grammar: members are written out, schemas are what the library lowered them to."""
        grammar.check(limits)
        grammar = grammar.written_out
        return cls(grammar.rules, grammar.start, limits)

    def automaton(self, leaf: Node) -> Automaton:
        """Find or make the automaton of a regular node."""
        known = self._automaton_of.get(id(leaf))
        if known is None:
            known = self._automata.get(leaf) or self._automata.setdefault(leaf, Automaton(leaf, self._limits))
            self._automaton_of[id(leaf)] = known
        return known

    def is_productive(self, node: Node) -> bool:
        """Tell whether a node derives anything."""
        known = self._is_productive.get(id(node))
        if known is None:
            known = self._is_productive[id(node)] = self._derives(node, self.productive)
        return known

    def _derives(self, node: Node, rules: Set[str]) -> bool:
        found = holds_of_parts(node, lambda part: self._derives(part, rules))
        if found is not None:
            return found
        if isinstance(node, Reference):
            return node.name in rules
        return isinstance(node, Token) or not self.automaton(node).is_empty()


class Algebra(Protocol[V]):
    """An algebra that combines the values of derivations. `either` is commutative, associative and idempotent.

    Attributes:
        empty: the value of the derivation of nothing.
    """

    empty: V

    def either(self, one: V, other: V) -> V:
        """Combine two sets of derivations into one."""
        ...

    def joined(self, first: V, second: V, begun: int, met: int, ended: int) -> V:
        """Follow each of the first ones, from `begun` to `met`, by each of the second ones, from there to `ended`."""
        ...

    def chosen(self, value: V, choice: int) -> V:
        """Add a choice at the end; a smaller number is preferred."""
        ...

    def marked(self, value: V, opens: bool, name: str, column: int) -> V:
        """Add a capture that opens or closes in a column."""
        ...

    def named(self, value: V, rule: str) -> V | None:
        """End the rule that they derive; None if none of them may."""
        ...


class Call(Generic[V]):
    """A call of a node in a column, from places, each with the value of the derivations that lead there."""

    __slots__ = ("callers", "column", "node")

    def __init__(self, node: Node, column: int) -> None:
        self.node = node
        self.column = column
        self.callers: dict[_Place, V] = {}


class _Place(NamedTuple):
    """The progress of a call: items of a sequence, or rounds of a repeat as far as their number matters."""

    call: Call[Any]
    done: int


class Column(Generic[V]):
    """The possibilities after a step.

    Attributes:
        calls: the nodes that are called there, by identity.
        running: the terminals under way, with their states.
        waiting: the tokens that may come next.
        complete: the value of the whole text's derivations; None if there are none.
    """

    __slots__ = ("calls", "complete", "running", "waiting")

    def __init__(self) -> None:
        self.calls: dict[int, Call[V]] = {}
        self.running: list[tuple[Call[V], int]] = []
        self.waiting: list[tuple[Call[V], int]] = []
        self.complete: V | None = None


class Chart(Generic[V]):
    """A chart parser that reads a text step by step: a byte, or a token that the grammar names.

    Raises:
        LimitExceeded: a step needs more than `Limits.work`; nothing is changed then.
    """

    def __init__(self, rules: Rules, algebra: Algebra[V], limits: Limits) -> None:
        self.rules = rules
        self._algebra = algebra
        self._limits = limits
        self._places: dict[_Place, V] = {}
        self._agenda: list[_Place] = []
        self._ended: dict[Call[V], V] = {}
        self._work = 0
        self.columns: list[Column[V]] = [Column()]
        self.root = self._begun(rules.start)
        self._close()

    @property
    def length(self) -> int:
        """The number of steps."""
        return len(self.columns) - 1

    def takes(self, byte: int) -> bool:
        """Tell whether something goes on with a byte."""
        running = self.columns[-1].running
        return any(self.rules.automaton(call.node).step(state, byte) != DEAD for call, state in running)

    def push(self, byte: int) -> bool:
        """Append a byte; False, with nothing changed, if nothing goes on with it."""
        column: Column[V] = Column()
        ended = []
        for call, state in self.columns[-1].running:
            automaton = self.rules.automaton(call.node)
            state = automaton.step(state, byte)
            if state != DEAD:
                column.running.append((call, state))
                if automaton.accepting(state):
                    ended.append(call)
        return bool(column.running) and self._append(column, ended)

    def push_token(self, token_id: int) -> bool:
        """Append a token that the grammar names by its id; return False, with nothing changed, if the token is not
        allowed here.
        """
        ended = [call for call, token in self.columns[-1].waiting if token == token_id]
        return bool(ended) and self._append(Column(), ended)

    def append(self, parts: Iterable[Part]) -> bool:
        """Append bytes and tokens, up to a step that nothing goes on with; False if there is one."""
        return all(self.push_token(part) if isinstance(part, int) else all(map(self.push, part)) for part in parts)

    def pop(self, steps: int) -> None:
        """Undo the last steps."""
        if not 0 <= steps <= self.length:
            raise ValueError(f"cannot undo {steps} of {self.length} steps")
        del self.columns[len(self.columns) - steps :]

    def can_stop(self) -> bool:
        """Tell whether the text is in the language."""
        return self.columns[-1].complete is not None

    # --- one column --------------------------------------------------------------------------------------------

    def _append(self, column: Column[V], ended: list[Call[V]]) -> bool:
        self.columns.append(column)
        self._work = 0
        try:
            for call in ended:
                # A terminal prefers its longest match.
                self._end(call, self._algebra.chosen(self._algebra.empty, -self.length))
            self._close()
        except LimitExceeded:
            self.pop(1)
            self._agenda.clear()
            self._forget()
            raise
        return True

    def _close(self) -> None:
        """Follow everything that takes no step."""
        while self._agenda:
            self._follow(self._agenda.pop())
        self._forget()

    def _forget(self) -> None:
        self._places.clear()
        self._ended.clear()

    def _follow(self, place: _Place) -> None:
        self._spend()
        (call, done), value = place, self._places[place]
        node, algebra = call.node, self._algebra
        if isinstance(node, Sequence):
            if done < len(node.items):
                self._call(node.items[done], place, value)
            else:
                self._end(call, value)
        elif isinstance(node, Repeat):
            if node.maximum is None or done < node.maximum:
                self._call(node.item, place, algebra.chosen(value, 0 if node.greedy else 1))
            if done >= node.minimum:
                self._end(call, algebra.chosen(value, 1 if node.greedy else 0))
        elif isinstance(node, Capture):
            value = algebra.marked(value, not done, node.name, self.length)
            if done:
                self._end(call, value)
            else:
                self._call(node.item, place, value)
        elif isinstance(node, Choice):
            if done:
                self._end(call, value)
            else:
                for index, item in enumerate(node.items):
                    self._call(item, place, algebra.chosen(value, index))
        elif isinstance(node, Reference):
            if done:
                named = algebra.named(value, node.name)
                if named is not None:
                    self._end(call, named)
            else:
                self._call(self.rules.bodies[node.name], place, value)
        elif isinstance(node, Token):
            self.columns[-1].waiting.append((call, node.token_id))
        else:
            automaton = self.rules.automaton(node)
            self.columns[-1].running.append((call, automaton.start))
            if automaton.accepting(automaton.start):
                self._end(call, algebra.chosen(value, -self.length))

    def _call(self, node: Node, place: _Place, value: V) -> None:
        """Call a node from a place."""
        if not self.rules.is_productive(node):
            return
        call = self.columns[-1].calls.get(id(node)) or self._begun(node)
        known = call.callers.get(place)
        call.callers[place] = value if known is None else self._algebra.either(known, value)
        if call in self._ended:
            self._go_on(call, place, self._ended[call])

    def _begun(self, node: Node) -> Call[V]:
        call = self.columns[-1].calls[id(node)] = Call(node, self.length)
        place = _Place(call, 0)
        self._places[place] = self._algebra.empty
        self._agenda.append(place)
        return call

    def _end(self, call: Call[V], value: V) -> None:
        """End a call and continue at the places that made it."""
        if call.column == self.length:
            known = self._ended.get(call)
            value = self._ended[call] = value if known is None else self._algebra.either(known, value)
        if call is self.root:
            known = self.columns[-1].complete
            self.columns[-1].complete = value if known is None else self._algebra.either(known, value)
        for place in list(call.callers):
            self._go_on(call, place, value)

    def _go_on(self, call: Call[V], place: _Place, value: V) -> None:
        """Go on in a place after a call that was made there."""
        self._spend()
        around, done = place
        node = around.node
        done += 1
        if isinstance(node, Repeat):
            if call.column == self.length and done > node.minimum:
                return  # an empty round
            if node.maximum is None:
                done = min(done, node.minimum)
        value = self._algebra.joined(call.callers[place], value, around.column, call.column, self.length)
        self._reach(_Place(around, done), value)

    def _reach(self, place: _Place, value: V) -> None:
        known = self._places.get(place)
        if known is not None:
            value = self._algebra.either(known, value)
        if value != known:
            self._places[place] = value
            self._agenda.append(place)

    def _spend(self) -> None:
        self._work += _COST
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._limits.work, "one step of the parser")
