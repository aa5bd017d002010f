"""How the value of a text that is not complete is shown, by kind of format; `runtime.growth` reads them.

An array or object shows what is complete in it and what has begun; text as far as it is written.
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
    """Shows what a `JsonReader` has read as something else than JSON data."""

    def snapshot(self, open_numbers: bool) -> Any:
        """The value so far; `NOTHING` before there is one."""
        ...


@value()
class WhenComplete:
    """Nothing before it is complete."""


@value()
class TextSoFar:
    """The text; with `of_value` that of the part which the capture `VALUE` marks."""

    of_value: bool = False


@value(eq=False)
class JsonSoFar:
    """A JSON value; `view` shows it in another way."""

    view: Callable[[JsonReader], JsonView] | None = None


@value(eq=False)
class NamedParts:
    """A dict of captures by name, each with its format; those that may occur several times become tuples.

    `names` gives some of them another name there, and `make` makes something else of the dict, but for JSON data.
    """

    parts: Mapping[str, Lowered]
    several: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    make: Callable[[dict[str, Any]], Any] | None = None


@value(eq=False)
class ListedParts:
    """Captures in their order, as a list or tuple; others than these are left out."""

    parts: Mapping[str, Lowered]
    make: type[list[Any]] | type[tuple[Any, ...]]


@value(eq=False)
class ChosenPart:
    """The first of these captures."""

    parts: Mapping[str, Lowered]


Kind: TypeAlias = WhenComplete | TextSoFar | JsonSoFar | NamedParts | ListedParts | ChosenPart


def kind_of(lowered: Lowered) -> Kind:
    """Return how a format's unfinished value is shown."""
    if lowered.unfinished is not None:
        return cast("Kind", lowered.unfinished)
    return TextSoFar() if lowered.value is text_of else WhenComplete()
