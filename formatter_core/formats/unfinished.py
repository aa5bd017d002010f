"""Describe how the value of an unfinished text is shown, by kind of format; `runtime.growth` uses this.

An array or object shows its complete parts and the part that has begun; text is shown as far as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeAlias, cast

from formatter_core.formats.json_reader import JsonReader
from formatter_core.formats.protocol import Lowered, text_of
from formatter_core.grammar.values import value

__all__ = [
    "ChosenPart",
    "JsonSoFar",
    "JsonView",
    "Kind",
    "ListedParts",
    "NamedParts",
    "TextSoFar",
    "WhenComplete",
    "kind_of",
]


class JsonView(Protocol):
    """A view that shows what a `JsonReader` has read in a form other than JSON data."""

    def snapshot(self, open_numbers: bool) -> Any:
        """Return the value so far; `NOTHING` before it begins."""
        ...


@value()
class WhenComplete:
    """A kind whose value is not shown before it is complete."""


@value()
class TextSoFar:
    """A kind that shows the text so far; with `of_value`, that of the part that the capture `VALUE` marks."""

    of_value: bool = False


@value(eq=False)
class JsonSoFar:
    """A kind that shows a JSON value as far as it is written; `view` shows it in another form."""

    view: Callable[[JsonReader], JsonView] | None = None


@value(eq=False)
class NamedParts:
    """A kind that shows captures as a dict by name, each with its format; those that may occur several times become
    tuples.

    `names` renames some of them in the dict, and `make` converts the dict, except for JSON data.
    """

    parts: Mapping[str, Lowered]
    several: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    make: Callable[[dict[str, Any]], Any] | None = None


@value(eq=False)
class ListedParts:
    """A kind that shows these captures in order, as a list or tuple."""

    parts: Mapping[str, Lowered]
    make: type[list[Any]] | type[tuple[Any, ...]]


@value(eq=False)
class ChosenPart:
    """A kind that shows the first of these captures."""

    parts: Mapping[str, Lowered]


Kind: TypeAlias = WhenComplete | TextSoFar | JsonSoFar | NamedParts | ListedParts | ChosenPart


def kind_of(lowered: Lowered) -> Kind:
    """Return how to show a format's unfinished value."""
    if lowered.unfinished is not None:
        return cast("Kind", lowered.unfinished)
    return TextSoFar() if lowered.value is text_of else WhenComplete()
