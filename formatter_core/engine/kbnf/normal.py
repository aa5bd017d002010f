"""Productions -> productions that the kbnf package computes right masks for.

The package hangs, aborts or lies on rules that derive nothing, on rules that derive themselves, and on very long
rules; and it is slow where a rule is ambiguous without need. None of that is left after `normalized`.
"""

from __future__ import annotations

from collections.abc import Iterator

from formatter_core.engine.kbnf.graph import components
from formatter_core.engine.kbnf.productions import ENGINE, Production, Rules, Symbol
from formatter_core.engine.kbnf.regular import Work
from formatter_core.errors import UnsupportedByEngine

__all__ = ["normalized"]

#: The package's reader recurses over the alternatives of a rule and over the symbols of an alternative.
_MAX_RECURSION = 500
#: The maximum length and number of rounds of inlining rule bodies into a rule.
_INLINED = 16
#: It numbers rules, and their productions, with 16 bits.
_MAX_NONTERMINALS = 60_000
_MAX_SYMBOLS = 1_000_000


def normalized(rules: Rules, work: Work) -> Rules:
    """Normalize rules without changing the language; `start` is None if no non-empty text is derived.

    Nonterminals are renumbered from 0.

    Raises:
        UnsupportedByEngine: more rules than the package can number.
    """
    productions, start = rules.productions, rules.start
    productions = _without_unproductive(productions, work)
    productions, start = _without_unit_cycles(productions, start, work)
    _flatten_operators(productions)
    _inline_endings(productions, work)
    _turn_right_recursion(productions)
    productions, start = _with_synonyms_replaced(productions, start, work)
    if isinstance(start, int) and not productions[start]:
        start = None
    _split_long(productions)
    productions, start = _reachable(productions, start)
    if len(productions) > _MAX_NONTERMINALS or sum(len(p) for a in productions for p in a) > _MAX_SYMBOLS:
        raise UnsupportedByEngine(
            f"it needs {len(productions)} rules, but the package copes with {_MAX_NONTERMINALS} of moderate length",
            engine=ENGINE,
            node="this grammar",
        )
    return Rules(productions, start, rules.nullable)


def _nonterminals(production: Production) -> Iterator[int]:
    return (symbol for symbol in production if isinstance(symbol, int))


def _without_unproductive(productions: list[list[Production]], work: Work) -> list[list[Production]]:
    """Drop productions with a symbol that derives no string."""
    missing: list[tuple[int, list[int]]] = []  # per production: its nonterminal, and how many symbols are in doubt
    users: list[list[int]] = [[] for _ in productions]
    productive = [False] * len(productions)
    ready: list[int] = []
    for nonterminal, alternatives in enumerate(productions):
        for production in alternatives:
            needed = set(_nonterminals(production))
            for symbol in needed:
                users[symbol].append(len(missing))
            missing.append((nonterminal, [len(needed)]))
            work.add(len(production))
            if not needed:
                ready.append(nonterminal)
    while ready:
        nonterminal = ready.pop()
        if productive[nonterminal]:
            continue
        productive[nonterminal] = True
        for index in users[nonterminal]:
            user, count = missing[index]
            count[0] -= 1
            if count[0] == 0:
                ready.append(user)
    return [
        [production for production in alternatives if all(productive[symbol] for symbol in _nonterminals(production))]
        for alternatives in productions
    ]


def _without_unit_cycles(
    productions: list[list[Production]], start: Symbol | None, work: Work
) -> tuple[list[list[Production]], Symbol | None]:
    """Merge nonterminals that derive each other alone: without empty strings their languages are equal."""
    units = [[p[0] for p in alternatives if len(p) == 1 and isinstance(p[0], int)] for alternatives in productions]
    component = components(units)
    merged: list[dict[Production, None]] = [{} for _ in productions]
    for nonterminal, alternatives in enumerate(productions):
        head = component[nonterminal]
        for production in alternatives:
            renamed = tuple(component[symbol] if isinstance(symbol, int) else symbol for symbol in production)
            work.add(len(renamed))
            if renamed != (head,):
                merged[head][renamed] = None
    return [list(alternatives) for alternatives in merged], component[start] if isinstance(start, int) else start


def _flatten_operators(productions: list[list[Production]]) -> None:
    """Rewrite `a = a x a | rest` as `a = a x b | b; b = rest`: left recursion, with one parse instead of many."""
    for nonterminal in range(len(productions)):
        alternatives = productions[nonterminal]
        operators = [p for p in alternatives if len(p) > 1 and p[0] == p[-1] == nonterminal]
        if not operators:
            continue
        rest = [p for p in alternatives if p not in set(operators)]
        operand = len(productions)
        productions.append(rest)
        productions[nonterminal] = [(*p[:-1], operand) for p in operators] + [(operand,)]


def _inline_endings(productions: list[list[Production]], work: Work) -> None:
    """Put the one short body of a rule where an alternative ends in it: `a = x b; b = y a` recurses directly."""
    for nonterminal, alternatives in enumerate(productions):
        for index, production in enumerate(alternatives):
            for _ in range(_INLINED):
                last = production[-1]
                if len(production) == 1 or not isinstance(last, int) or last == nonterminal:
                    break
                body = productions[last]
                if len(body) != 1 or not 1 < len(body[0]) <= _INLINED or body[0][-1] == last:
                    break
                production = (*production[:-1], *body[0])
                work.add(len(production))
            alternatives[index] = production


def _turn_right_recursion(productions: list[list[Production]]) -> None:
    """Rewrite `a = x a | rest` as `a = xs b | b; xs = xs x | x; b = rest`: open right recursions accumulate."""
    for nonterminal in range(len(productions)):
        alternatives = productions[nonterminal]
        repeated = [p[:-1] for p in alternatives if len(p) > 1 and p[-1] == nonterminal]
        if not repeated:
            continue
        rest = [p for p in alternatives if len(p) == 1 or p[-1] != nonterminal]
        end, run = len(productions), len(productions) + 1
        productions.append(rest)
        productions.append(repeated + [(run, *p) for p in repeated])
        productions[nonterminal] = [(run, end), (end,)]


def _with_synonyms_replaced(
    productions: list[list[Production]], start: Symbol | None, work: Work
) -> tuple[list[list[Production]], Symbol | None]:
    """Put the symbol itself where a nonterminal has no other derivation than that one symbol."""
    meaning: dict[int, Symbol] = {
        nonterminal: alternatives[0][0]
        for nonterminal, alternatives in enumerate(productions)
        if len(alternatives) == 1 and len(alternatives[0]) == 1
    }

    def resolved(symbol: Symbol) -> Symbol:
        chain = []
        while isinstance(symbol, int) and symbol in meaning:
            chain.append(symbol)
            symbol = meaning[symbol]
        for synonym in chain:
            meaning[synonym] = symbol
        return symbol

    replaced: list[list[Production]] = []
    for alternatives in productions:
        work.add(sum(map(len, alternatives)))
        replaced.append(list(dict.fromkeys(tuple(resolved(symbol) for symbol in p) for p in alternatives)))
    return replaced, None if start is None else resolved(start)


def _split_long(productions: list[list[Production]]) -> None:
    """Break up rules with very many alternatives and very long alternatives."""
    nonterminal = 0
    while nonterminal < len(productions):  # grows as it goes: the parts may be too long in their turn
        alternatives = productions[nonterminal]
        for index, production in enumerate(alternatives):
            if len(production) > _MAX_RECURSION:
                parts: list[Symbol] = []
                for low in range(0, len(production), _MAX_RECURSION):
                    productions.append([production[low : low + _MAX_RECURSION]])
                    parts.append(len(productions) - 1)
                alternatives[index] = tuple(parts)
        if len(alternatives) > _MAX_RECURSION:
            groups: list[Production] = []
            for low in range(0, len(alternatives), _MAX_RECURSION):
                productions.append(alternatives[low : low + _MAX_RECURSION])
                groups.append((len(productions) - 1,))
            productions[nonterminal] = groups
        nonterminal += 1


def _reachable(
    productions: list[list[Production]], start: Symbol | None
) -> tuple[list[list[Production]], Symbol | None]:
    """Drop what no text uses, and number the rest in order of first use."""
    if not isinstance(start, int):
        return [], start
    numbers = {start: 0}
    order = [start]
    kept: list[list[Production]] = []
    for nonterminal in order:  # grows as it goes
        alternatives: list[Production] = []
        for production in productions[nonterminal]:
            for symbol in _nonterminals(production):
                if symbol not in numbers:
                    numbers[symbol] = len(order)
                    order.append(symbol)
            alternatives.append(tuple(numbers[s] if isinstance(s, int) else s for s in production))
        kept.append(alternatives)
    return kept, 0
