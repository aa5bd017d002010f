"""Define a part of a given text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar, Substring, Terminal, literal
from formatter_core.limits import Limits

__all__ = ["SubstringFormat", "substring_of"]


@dataclass(frozen=True)
class SubstringFormat(Alternatives):
    """A format whose text is a run of characters of `text`."""

    kind: ClassVar = "substring_of"
    text: str

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(Grammar({"substring": Terminal(Substring(self.text))}, "substring"))


def substring_of(text: str) -> SubstringFormat:
    """Return the format of a quotation: any run of whole characters that occurs in `text`, or nothing."""
    if not isinstance(text, str):
        raise InvalidFormat(f"expected a text as a str, found {type(text).__name__}")
    literal(text)  # reject lone surrogates now, where the caller sees which text has them
    return SubstringFormat(text)
