"""KBNF text <-> grammar: the only place that quotes and escapes.

KBNF is the notation of the kbnf package (Koishi's BNF, a kind of EBNF). This is an independent reader of it: it reads
what that package reads, adds bounded repeats and captures, and reports faults with line and column. The whole language
is in `docs/kbnf.md`.
"""

from formatter_core.syntax.kbnf.reader import parse_kbnf
from formatter_core.syntax.kbnf.writer import to_kbnf

__all__ = ["parse_kbnf", "to_kbnf"]
