"""The reference recognizer: which bytes and tokens may follow a text, and whether it may end."""

from __future__ import annotations

from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.testing.chart import Chart, Rules

__all__ = ["Recognizer"]


class _Nothing:
    """An algebra that treats all derivations as equal: only their existence matters."""

    empty = ()

    def either(self, one: tuple[()], other: tuple[()]) -> tuple[()]:
        return ()

    def joined(self, first: tuple[()], second: tuple[()], begun: int, met: int, ended: int) -> tuple[()]:
        return ()

    def chosen(self, value: tuple[()], choice: int) -> tuple[()]:
        return ()

    def marked(self, value: tuple[()], opens: bool, name: str, column: int) -> tuple[()]:
        return ()

    def named(self, value: tuple[()], rule: str) -> tuple[()]:
        return ()


class Recognizer(Chart[tuple[()]]):
    """A recognizer that judges grammar engines: a chart without values.

    Raises:
        InvalidGrammar: the grammar derives no text.
        LimitExceeded: the grammar exceeds a limit.
    """

    def __init__(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(Rules.of(grammar, limits), _Nothing(), limits)

    def copy(self) -> Recognizer:
        """Make an independent recognizer with the same history."""
        other = object.__new__(Recognizer)
        vars(other).update(vars(self), columns=list(self.columns), _places={}, _agenda=[], _ended={})
        return other

    def next_bytes(self) -> list[int]:
        """List the bytes that may come next, sorted."""
        found: set[int] = set()
        for call, state in self.columns[-1].running:
            for ranges, _ in self.rules.automaton(call.node).transitions(state):
                for low, high in ranges:
                    found.update(range(low, high + 1))
        return sorted(found)

    def next_tokens(self) -> list[int]:
        """List the ids of the tokens that the grammar names and that may come next, sorted."""
        return sorted({token_id for _, token_id in self.columns[-1].waiting})
