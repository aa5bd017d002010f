"""A context-free grammar in GBNF as a format."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.syntax.bnf import parse_gbnf

__all__ = ["GbnfFormat", "gbnf"]


@dataclass(frozen=True)
class GbnfFormat(Alternatives):
    """The whole text is derived by the rule `start` of a GBNF grammar."""

    source: str
    start: str = "root"

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(parse_gbnf(self.source, self.start, limits))

    def to_json(self) -> dict[str, Any]:
        return {"type": "gbnf", "text": self.source, "start": self.start}

    def key(self) -> Hashable:
        return ("gbnf", self.source, self.start)


def gbnf(text: str, start: str = "root") -> GbnfFormat:
    """A context-free grammar in GBNF, llama.cpp's notation; faults are reported with line and column when the format is
    compiled.
    """
    if not isinstance(text, str) or not isinstance(start, str):
        raise InvalidFormat("gbnf takes the grammar's text and the name of its start rule, both str")
    return GbnfFormat(text, start)
