"""Define a token by its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar, Token
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["TokenFormat", "token"]


@dataclass(frozen=True)
class TokenFormat(Alternatives):
    """A format of exactly this token, which adds no text; the value is its id."""

    kind: ClassVar = "token"
    id: int

    def to_grammar(self, limits: Limits) -> Lowered:
        def value(match: Match) -> int:
            return self.id

        return Lowered(Grammar({"token": Token(self.id)}, "token"), value=value)


def token(token_id: int) -> TokenFormat:
    """Return the format of exactly the token `token_id`, which may be a special token."""
    if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
        raise InvalidFormat(f"the token id is {shown(token_id)}; give a whole number from 0")
    return TokenFormat(token_id)
