"""Define a choice between several texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Choice, Grammar, Terminal, literal
from formatter_core.limits import Limits

__all__ = ["ChoiceFormat", "choice"]


@dataclass(frozen=True)
class ChoiceFormat(Alternatives):
    """A format whose text is one of these options; its value is that option."""

    kind: ClassVar = "choice"
    options: tuple[str, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(
            Grammar({"choice": Terminal(Choice(tuple(literal(option) for option in self.options)))}, "choice")
        )

    def key(self) -> Hashable:
        return ("choice", self.options)


def choice(options: Iterable[str]) -> ChoiceFormat:
    """Return the format of one of `options`; duplicate options count once.

    Raises:
        InvalidFormat: there are no options, or an option is not a str.
    """
    if isinstance(options, str):
        raise InvalidFormat(f"expected a list of texts, found the str {options!r}; put it in a list")
    given = tuple(elements_of(options, "options", "texts"))
    for option in given:
        if not isinstance(option, str):
            raise InvalidFormat(f"the option {shown(option)} is not a str; {_remedy(option)}")
    if not given:
        raise InvalidFormat("the choice has no options; give at least one text")
    return ChoiceFormat(tuple(dict.fromkeys(given)))


def _remedy(option: object) -> str:
    if isinstance(option, Format):
        return "use formats.one_of(...) for a choice between formats"
    return "pass str(option), or use `enum` in formats.json_schema"
