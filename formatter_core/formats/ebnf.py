"""A context-free grammar in XGrammar's EBNF as a format."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.syntax.bnf import parse_ebnf

__all__ = ["EbnfFormat", "ebnf"]


@dataclass(frozen=True)
class EbnfFormat(Alternatives):
    """The whole text is derived by the rule `start` of an EBNF grammar."""

    source: str
    start: str = "root"

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(parse_ebnf(self.source, self.start, limits))

    def to_json(self) -> dict[str, Any]:
        return {"type": "ebnf", "text": self.source, "start": self.start}

    def key(self) -> Hashable:
        return ("ebnf", self.source, self.start)


def ebnf(text: str, start: str = "root") -> EbnfFormat:
    """A context-free grammar in EBNF, XGrammar's notation; faults are reported with line and column when the format is
    compiled.
    """
    if not isinstance(text, str) or not isinstance(start, str):
        raise InvalidFormat("ebnf takes the grammar's text and the name of its start rule, both str")
    return EbnfFormat(text, start)
