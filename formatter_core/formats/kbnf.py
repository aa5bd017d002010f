"""A context-free grammar in KBNF as a format."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.syntax.kbnf import parse_kbnf

__all__ = ["KbnfFormat", "kbnf"]


@dataclass(frozen=True)
class KbnfFormat(Alternatives):
    """The whole text is derived by the rule `start` of a KBNF grammar."""

    source: str
    start: str = "start"

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(parse_kbnf(self.source, self.start, limits))

    def to_json(self) -> dict[str, Any]:
        return {"type": "kbnf", "text": self.source, "start": self.start}

    def key(self) -> Hashable:
        return ("kbnf", self.source, self.start)


def kbnf(text: str, start: str = "start") -> KbnfFormat:
    """A context-free grammar in KBNF; faults are reported with line and column when the format is compiled."""
    if not isinstance(text, str) or not isinstance(start, str):
        raise InvalidFormat("expected the text of a grammar and the name of its start rule, both str")
    return KbnfFormat(text, start)
