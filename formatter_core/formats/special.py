"""One special token by its name."""

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
    """Exactly the special token of this name; it adds no text, and the value is its name."""

    kind: ClassVar = "special"
    name: str

    def to_grammar(self, limits: Limits) -> Lowered:
        def value(match: Match) -> str:
            return self.name

        return Lowered(Grammar({"special": Special(self.name)}, "special"), value=value)


def special(name: str) -> SpecialFormat:
    """The special token that the tokenizer calls `name`, such as `"<|tool_call|>"`.

    It is looked up in `Vocabulary.special_tokens` when the format is compiled. If a text is parsed without tokens,
    it stands for its name.

    Raises:
        InvalidFormat: `name` is not a non-empty text. A vocabulary without such a token is refused when compiling.
    """
    if not isinstance(name, str) or not name:
        raise InvalidFormat(f"special needs the name of a special token, such as '<|tool_call|>', found {shown(name)}")
    literal(name)  # refuses lone surrogates now, where the caller can see which text it was
    return SpecialFormat(name)
