"""Productions that never hold a symbol which derives the empty string, and how they are put together.

A run of k symbols that may be left out costs O(k) productions, not 2**k. Repeats become left recursion, bounded ones
O(log n) nonterminals: their count is read as a binary number, highest digit first, so that each count has one
derivation.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TypeAlias, Union

from formatter_core.engine.kbnf.regular import Work

__all__ = ["ENGINE", "Literal", "Production", "Productions", "Regex", "Rules", "Symbol"]

ENGINE = "kbnf"

#: Nonterminals of up to this many alternatives are made once; longer ones hardly ever come twice.
_SHARED = 8


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly these letters; at least one."""

    text: str


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern that does not match the empty string."""

    pattern: str


Symbol: TypeAlias = Union[int, Literal, Regex]  # noqa: UP007 (int is a nonterminal)
Production: TypeAlias = tuple[Symbol, ...]


@dataclass
class Rules:
    """Productions by nonterminal; `start` derives the non-empty texts, `nullable` says whether "" is a text."""

    productions: list[list[Production]]
    start: Symbol | None
    nullable: bool


class Productions:
    """Alternatives by nonterminal, growing."""

    def __init__(self, work: Work) -> None:
        self.alternatives: list[list[Production]] = []
        self._shared: dict[tuple[Production, ...], int] = {}
        self._work = work

    def fresh(self) -> int:
        """Make a new nonterminal, whose alternatives are added later."""
        self.alternatives.append([])
        return len(self.alternatives) - 1

    def add(self, nonterminal: int, production: Production) -> None:
        self._work.add(len(production) + 1)
        self.alternatives[nonterminal].append(production)

    def new(self, alternatives: Iterable[Production]) -> int:
        """Return the nonterminal with exactly these alternatives; equal short lists share one nonterminal."""
        key = tuple(alternatives)
        known = self._shared.get(key) if len(key) <= _SHARED else None
        if known is not None:
            return known
        nonterminal = self.fresh()
        for production in key:
            self.add(nonterminal, production)
        if len(key) <= _SHARED:
            self._shared[key] = nonterminal
        return nonterminal

    def row(self, items: list[tuple[Symbol, bool]]) -> list[Production]:
        """Return productions for the non-empty strings of the items in a row, where some items may be left out."""
        kept: list[Symbol] = []
        run: list[Symbol] = []
        for symbol, nullable in items:
            if nullable:
                run.append(symbol)
            elif run:
                kept.append(self.new([(self._run(run), symbol), (symbol,)]))
                run = []
            else:
                kept.append(symbol)
        if run and kept:
            last = kept.pop()
            kept.append(self.new([(last, self._run(run)), (last,)]))
        elif run:
            kept.append(self._run(run))
        return [tuple(kept)] if kept else []

    def _run(self, symbols: Items[Symbol]) -> Symbol:
        """Make a symbol that derives one or more of the symbols, in their order."""
        before = symbols[0]
        for symbol in symbols[1:]:
            before = self.new([(before, symbol), (before,), (symbol,)])
        return before

    def repeated(self, item: Symbol, minimum: int, maximum: int | None) -> Symbol:
        """Return a symbol for the item from `minimum` (at least 1) to `maximum` times."""
        powers: dict[int, Symbol] = {1: item}
        if maximum is None:
            nonterminal = self.fresh()
            self.add(nonterminal, (self._power(minimum, powers),))
            self.add(nonterminal, (nonterminal, item))
            return nonterminal
        more = self._up_to(maximum - minimum + 1, powers)
        return more if minimum == 1 else self.new([(self._power(minimum - 1, powers), more)])

    def _power(self, count: int, powers: dict[int, Symbol]) -> Symbol:
        """Return a symbol for the item exactly `count` times."""
        if count not in powers:
            half = self._power(count // 2, powers)
            tail = (half,) if count % 2 == 0 else (half, powers[1])
            powers[count] = self.new([(half, *tail)])
        return powers[count]

    def _up_to(self, count: int, powers: dict[int, Symbol]) -> Symbol:
        """Return a symbol for the item 1 to `count` times."""
        digits = (count + 1).bit_length() - 1
        below: Symbol = powers[1]  # 1 to 2**k - 1 times
        for digit in range(1, digits):
            power = self._power(2**digit, powers)
            below = self.new([(below,), (power,), (power, below)])
        rest = count - (2**digits - 1)
        if rest == 0:
            return below
        power = self._power(2**digits, powers)
        alternatives: list[Production] = [(below,), (power,)]
        if rest > 1:
            alternatives.append((power, self._up_to(rest - 1, powers)))
        return self.new(alternatives)
