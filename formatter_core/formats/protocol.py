"""The protocol of formats: they lower to a grammar and turn a parse into a value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from formatter_core.errors import FormatterError
from formatter_core.grammar import Grammar
from formatter_core.grammar.values import value
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["NOTHING", "VALUE", "Converter", "Format", "Lowered", "Unfinished", "first_reason", "text_of", "value_part"]

#: The internal capture of the part that is the value, if not the whole text is.
VALUE = ".value"

#: The value of a text of which nothing is certain yet.
NOTHING = object()


Converter: TypeAlias = Callable[[Match], Any]


def text_of(match: Match) -> str:
    """The converter of a capture that has none of its own."""
    return match.text


def value_part(match: Match) -> Match:
    """The part that `VALUE` marks directly inside `match`, or `match` itself."""
    for child in match.children:
        if child.name == VALUE:
            return child
    return match


class Unfinished(Protocol):
    """How the value of a text that is not complete is shown; `formats.unfinished` has the kinds."""


@value()
class Lowered:
    """A grammar, and how its parse becomes values.

    `converters` maps a capture's name to what turns its match into a value (text where there is none);
    `value` turns the match of the whole text into `Result.value`. `why_empty`, asked where a grammar engine finds that
    the grammar derives no text, gives an error that says why in the format's own words, or None. `unfinished` says what
    a snapshot shows of a text that is not complete: the text so far if it is None and the value is text, nothing if it
    is None and the value is something else.
    """

    grammar: Grammar
    converters: Mapping[str, Converter] = field(default_factory=dict)
    value: Converter = text_of
    why_empty: Callable[[], FormatterError | None] = lambda: None
    unfinished: Unfinished | None = None


def first_reason(whys: Iterable[Callable[[], FormatterError | None]]) -> Callable[[], FormatterError | None]:
    """The `why_empty` of a format whose parts have these."""
    parts = tuple(whys)
    return lambda: next((reason for why in parts if (reason := why()) is not None), None)


@runtime_checkable
class Format(Protocol):
    """A format. `Compiler.compile` also takes shorthands; see `as_format`."""

    def to_grammar(self, limits: Limits) -> Lowered:
        """Lower to a grammar; may be slow, never runs user code, and ends within `limits`."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The format as JSON data; `formats.from_json` makes an equal format of it."""
        ...

    def key(self) -> Hashable:
        """A cache key, equal for formats with the same meaning."""
        ...
