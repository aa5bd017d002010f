"""Define the protocol of formats: they lower to a grammar and turn a parse into a value."""

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

#: The internal capture of the part that is the value, unless that is the whole text.
VALUE = ".value"

#: The value of a text of which nothing is certain yet.
NOTHING = object()


Converter: TypeAlias = Callable[[Match], Any]


def text_of(match: Match) -> str:
    """Return the text of a match: the converter of a capture without its own."""
    return match.text


def value_part(match: Match) -> Match:
    """Return the part that `VALUE` marks directly inside `match`, or `match` itself."""
    for child in match.children:
        if child.name == VALUE:
            return child
    return match


class Unfinished(Protocol):
    """A way to show the value of an unfinished text; `formats.unfinished` has the kinds."""


@value()
class Lowered:
    """A grammar, with the conversion of its parse to values.

    `converters` maps a capture's name to the function that turns its match into a value (text by default); `value`
    turns the match of the whole text into `Result.value`. A grammar engine that finds that the grammar matches no text
    calls `why_empty`, which returns an error with the reason in the format's own words, or None. `unfinished` says what
    a snapshot shows of an unfinished text; None shows the text so far if the value is text, and nothing otherwise.
    """

    grammar: Grammar
    converters: Mapping[str, Converter] = field(default_factory=dict)
    value: Converter = text_of
    why_empty: Callable[[], FormatterError | None] = lambda: None
    unfinished: Unfinished | None = None


def first_reason(whys: Iterable[Callable[[], FormatterError | None]]) -> Callable[[], FormatterError | None]:
    """Return the `why_empty` of a format with parts: the first reason of any part."""
    parts = tuple(whys)
    return lambda: next((reason for why in parts if (reason := why()) is not None), None)


@runtime_checkable
class Format(Protocol):
    """A format. `Compiler.compile` also takes shorthands; see `as_format`."""

    def to_grammar(self, limits: Limits) -> Lowered:
        """Lower to a grammar; may be slow, never runs user code, and ends within `limits`."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the format as JSON data, from which `formats.from_json` makes an equal format."""
        ...

    def key(self) -> Hashable:
        """Return a cache key, equal for formats with the same meaning."""
        ...
