"""Define a format with its own budget of tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from formatter_core.errors.arguments import whole_number
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Grammar, Reference, Region
from formatter_core.limits import Limits

__all__ = ["WithinFormat", "limited"]


@dataclass(frozen=True)
class WithinFormat(Alternatives):
    """A format limited to `max_tokens` tokens; its value is that of the format."""

    kind: ClassVar = "within"
    part: Format
    max_tokens: int

    def to_grammar(self, limits: Limits) -> Lowered:
        lowered = self.part.to_grammar(limits)
        grammar = lowered.grammar.renamed("within.")
        rules = {**grammar.rules, "within": Region(Reference(grammar.start), self.max_tokens)}
        return replace(lowered, grammar=Grammar(rules, "within"))


def limited(format: Format, max_tokens: int | None) -> Format:
    """Return the format with this budget; None for none.

    Raises:
        InvalidArgument: `max_tokens` is not a whole number of at least 1.
    """
    if max_tokens is None:
        return format
    return WithinFormat(format, whole_number(max_tokens, "max_tokens", 1))
