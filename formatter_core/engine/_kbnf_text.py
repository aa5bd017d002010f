"""Productions -> the text of a grammar that the kbnf package reads.

Two things are put around them. `start` ends in a sentinel, because the package ends a text at its first complete
parse: with it, a text may stop exactly where the sentinel is allowed. And each alternative that ends in a
nonterminal gets a *twin* that goes on with a terminal which no token spells. The package folds chains of such
endings (Leo 1991) and, when it compacts its state, mistakes where a folded rule began; a twin is never derived,
and where there are two ways on there is nothing to fold.
"""

from __future__ import annotations

from collections.abc import Iterator

from formatter_core.engine._kbnf_productions import Literal, Production, Regex, Rules, Symbol
from formatter_core.engine._kbnf_regular import SENTINEL, TWIN

__all__ = ["regex_text", "written"]


def written(rules: Rules) -> str:
    """The grammar's text; `rules` derive at least one text."""
    end = _quoted(SENTINEL)
    starts = [] if rules.start is None else [f"{_symbol(rules.start)} {end}"]
    if rules.nullable:
        starts.append(end)
    lines = [f"start ::= {' | '.join(starts)};"]
    for nonterminal, alternatives in enumerate(rules.productions):
        texts = [text for production in alternatives for text in _alternative(production)]
        lines.append(f"n{nonterminal} ::= {' | '.join(texts)};")
    return "\n".join(lines)


def regex_text(pattern: str) -> str:
    """A pattern as the package reads it: its own escapes are undone before those of the pattern."""
    return '#"' + pattern.replace("\\", "\\\\") + '"'


def _alternative(production: Production) -> Iterator[str]:
    text = " ".join(_symbol(symbol) for symbol in production)
    yield text
    if isinstance(production[-1], int):
        yield f"{text} {_quoted(TWIN)}"


def _symbol(symbol: Symbol) -> str:
    if isinstance(symbol, Literal):
        return _quoted(symbol.text)
    return regex_text(symbol.pattern) if isinstance(symbol, Regex) else f"n{symbol}"


def _quoted(text: str) -> str:
    """Everything but letters and digits escaped: the package's reader looks for brackets inside of quotes too."""
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\u{{{ord(c):X}}}" for c in text) + '"'
