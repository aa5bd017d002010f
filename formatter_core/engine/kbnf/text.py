"""Productions -> the text of a grammar that the kbnf package reads.

Two things are put around them. `start` ends in a sentinel, because the package ends a text at its first complete
parse: with it, a text may stop exactly where the sentinel is allowed. And each alternative that ends in a
nonterminal gets a *twin* that continues with a terminal which no token spells. The package folds chains of such
endings (Leo 1991) and, when it compacts its state, mistakes where a folded rule began; a twin is never derived,
and where there are two ways on there is nothing to fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from formatter_core.engine.kbnf.productions import Literal, Production, Regex, Rules, Symbol
from formatter_core.engine.kbnf.regular import SENTINEL, TWIN

__all__ = ["regex_text", "written"]


def written(rules: Rules) -> str:
    """Write the text of a grammar; `rules` derive at least one text."""
    return _Writer(rules).text()


def regex_text(pattern: str) -> str:
    """Return a pattern as the package reads it: the package undoes its own escapes before those of the pattern."""
    return '#"' + pattern.replace("\\", "\\\\") + '"'


class _Writer:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        # The package parses a pattern at each occurrence, which takes longer than anything else; it inlines rules that
        # are only a pattern.
        uses = Counter(
            symbol
            for alternatives in rules.productions
            for production in alternatives
            for symbol in production
            if isinstance(symbol, Regex)
        )
        self._names = {symbol: f"t{index}" for index, (symbol, count) in enumerate(uses.items()) if count > 1}

    def text(self) -> str:
        end = _quoted(SENTINEL)
        starts = [] if self._rules.start is None else [f"{self._symbol(self._rules.start)} {end}"]
        if self._rules.nullable:
            starts.append(end)
        lines = [f"start ::= {' | '.join(starts)};"]
        for nonterminal, alternatives in enumerate(self._rules.productions):
            texts = [text for production in alternatives for text in self._alternative(production)]
            lines.append(f"n{nonterminal} ::= {' | '.join(texts)};")
        lines.extend(f"{name} ::= {regex_text(symbol.pattern)};" for symbol, name in self._names.items())
        return "\n".join(lines)

    def _alternative(self, production: Production) -> Iterator[str]:
        text = " ".join(map(self._symbol, production))
        yield text
        if isinstance(production[-1], int):
            yield f"{text} {_quoted(TWIN)}"

    def _symbol(self, symbol: Symbol) -> str:
        if isinstance(symbol, int):
            return f"n{symbol}"
        if isinstance(symbol, Literal):
            return _quoted(symbol.text)
        return self._names.get(symbol) or regex_text(symbol.pattern)


def _quoted(text: str) -> str:
    """Escape everything but letters and digits: the package's reader also looks for brackets inside quotes."""
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\u{{{ord(c):X}}}" for c in text) + '"'
