"""Make a grammar engine of a notation: each grammar is written in it and read again."""

from __future__ import annotations

from collections.abc import Callable

from formatter_core.engine.protocol import EngineGrammar, GrammarEngine
from formatter_core.errors import InvalidGrammar, UnsupportedByEngine
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.syntax.bnf import parse_gbnf, to_gbnf
from formatter_core.syntax.kbnf import parse_kbnf, to_kbnf
from formatter_core.vocabulary import Vocabulary

__all__ = ["ReadBack", "read_back_gbnf", "read_back_kbnf"]


class ReadBack:
    """Write each grammar, read what was written, and give that to another engine.

    Args:
        name: the notation.
        again: writes a grammar and reads it.
        engine: computes the masks.
    """

    def __init__(self, name: str, again: Callable[[Grammar, Limits], Grammar], engine: GrammarEngine) -> None:
        self.name = name
        self._again = again
        self._engine = engine

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        """See `GrammarEngine.compile`; what the notation cannot express is unsupported."""
        try:
            again = self._again(grammar, limits)
        except InvalidGrammar as error:
            if "derives no text" in error.reason:
                raise
            node = error.reason.partition(",")[0].partition("(")[0]
            raise UnsupportedByEngine("the notation cannot express it", engine=self.name, node=node) from error
        return self._engine.compile(again, vocabulary, limits)


def read_back_gbnf(engine: GrammarEngine) -> ReadBack:
    """Write grammars in GBNF and read them again."""
    return ReadBack("gbnf", lambda grammar, limits: parse_gbnf(to_gbnf(grammar, limits), limits=limits), engine)


def read_back_kbnf(engine: GrammarEngine) -> ReadBack:
    """Write grammars in KBNF and read them again."""
    return ReadBack("kbnf text", lambda grammar, limits: parse_kbnf(to_kbnf(grammar, limits), limits=limits), engine)
