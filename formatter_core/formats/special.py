"""Define a special token by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar, Special, literal
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["SpecialFormat", "special"]


@dataclass(frozen=True)
class SpecialFormat(Alternatives):
    """A format of exactly the special token with this name; it adds no text, and the value is its name."""

    kind: ClassVar = "special"
    name: str

    def to_grammar(self, limits: Limits) -> Lowered:
        def value(match: Match) -> str:
            return self.name

        return Lowered(Grammar({"special": Special(self.name)}, "special"), value=value)


def special(name: str) -> SpecialFormat:
    """Return the format of the special token that the tokenizer calls `name`, such as `"<|tool_call|>"`.

    Compiling looks it up in `Vocabulary.special_tokens`. In a text that is parsed without tokens, its name is the text.

    Raises:
        InvalidFormat: `name` is not a non-empty text. Compiling rejects a vocabulary without such a token.
    """
    if not isinstance(name, str) or not name:
        raise InvalidFormat(f"special needs the name of a special token, such as '<|tool_call|>', found {shown(name)}")
    literal(name)  # reject lone surrogates now, where the caller sees which text has them
    return SpecialFormat(name)
