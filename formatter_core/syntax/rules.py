"""The rules of a grammar text: which are defined where, and which are used."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from formatter_core.errors import InvalidGrammar
from formatter_core.grammar import Grammar, Node
from formatter_core.limits import Limits
from formatter_core.syntax.source import Source

__all__ = ["Rules", "cut", "similar"]

_LONGEST_SHOWN = 60  # characters


class Rules:
    """The bodies of rules by name; each is defined once, and each that is used has to be defined."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._bodies: dict[str, Node] = {}
        self._places: dict[str, int] = {}
        self._uses: dict[str, int] = {}

    def use(self, name: str, offset: int) -> None:
        """Record that a rule is named at this place."""
        self._uses.setdefault(name, offset)

    def define(self, name: str, offset: int, body: Node) -> None:
        """Record that a rule is defined; its name is at `offset`.

        Raises:
            InvalidGrammar: it is defined already.
        """
        if name in self._bodies:
            where = self._source.where(self._places[name])
            reason = f"the rule `{cut(name)}` is defined twice, first at {where}; join them with `|`, or rename one"
            raise self._source.fault(offset, reason)
        self._bodies[name] = body
        self._places[name] = offset

    def grammar(self, start: str, limits: Limits) -> Grammar:
        """Return the checked grammar of all rules.

        Raises:
            InvalidGrammar: there is no rule, or one that is used or should be the start is not defined.
            LimitExceeded: too many nodes, too deep, or too large a repeat.
        """
        for name, offset in self._uses.items():
            if name not in self._bodies:
                hint = similar(name, self._bodies)
                raise self._source.fault(offset, f"the rule `{cut(name)}` is not defined{hint}; define it")
        if start not in self._bodies:
            hint = similar(start, self._bodies) or "; define it, or name another"
            raise InvalidGrammar(f"the start rule `{cut(start)}` is not defined{hint}")
        grammar = Grammar(self._bodies, start)
        grammar.check(limits)
        return grammar


def cut(text: str) -> str:
    """Show a name or a number in a message: whole, unless it is very long."""
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def similar(name: str, names: Iterable[str]) -> str:
    """Suggest the name that was probably meant, as a question, or return ""."""
    close = difflib.get_close_matches(name, names, 1) if cut(name) == name else []
    return f" (did you mean `{close[0]}`?)" if close else ""
