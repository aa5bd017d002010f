"""GBNF and EBNF text -> grammar, and grammar -> GBNF text.

GBNF is the notation of llama.cpp, EBNF that of XGrammar, which began as GBNF. What both mean in the same way is read by
one reader; each construct is enforced as its own documentation means it, or refused with its place.
"""

from formatter_core.syntax.bnf.ebnf import parse_ebnf
from formatter_core.syntax.bnf.gbnf import parse_gbnf
from formatter_core.syntax.bnf.macros import parse_xgrammar_regex
from formatter_core.syntax.bnf.writer import to_gbnf

__all__ = ["parse_ebnf", "parse_gbnf", "parse_xgrammar_regex", "to_gbnf"]
