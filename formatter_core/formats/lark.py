"""A context-free grammar in llguidance's Lark as a format."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.limits import Limits
from formatter_core.schema import lower_schema
from formatter_core.syntax.lark import parse_lark

__all__ = ["LarkFormat", "lark"]


@dataclass(frozen=True)
class LarkFormat(Alternatives):
    """The whole text is derived by the rule `start` of a grammar in Lark."""

    source: str

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(parse_lark(self.source, lambda schema: lower_schema(schema, limits=limits), limits))

    def to_json(self) -> dict[str, Any]:
        return {"type": "lark", "text": self.source}

    def key(self) -> Hashable:
        return ("lark", self.source)


def lark(text: str) -> LarkFormat:
    """A context-free grammar in Lark as llguidance takes it.

    Faults are reported with line and column when the format is compiled.
    """
    if not isinstance(text, str):
        raise InvalidFormat("lark takes the grammar's text, a str")
    return LarkFormat(text)
