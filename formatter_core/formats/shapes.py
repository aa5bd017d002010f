"""Describe a Python type for JSON: its schema, its conversion, and how an unfinished instance is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from formatter_core.formats.arms import Arms

__all__ = ["HIDDEN", "Convert", "Inside", "JsonKind", "Shaped", "opened"]

#: Converts a JSON value; also takes its JSON Pointer, for errors, and the object that decides between alternatives.
Convert: TypeAlias = Callable[[Any, str, Arms], Any]
#: The kinds of JSON values that can be unfinished and still be shown.
JsonKind: TypeAlias = Literal["string", "array", "object"]


@dataclass(frozen=True)
class Inside:
    """A description of how to show unfinished values of one kind.

    Attributes:
        kind: the kind of the JSON values.
        is_shown: whether an unfinished string is shown; an `Enum` or a date is not.
        part: returns the shape of the item at an index, or of the value of a key; None if it is not known.
        name: converts a key for `show`.
        show: makes the view from the items or members so far.
    """

    kind: JsonKind
    is_shown: bool = True
    part: Callable[[Any], Shaped | None] = lambda place: None
    name: Callable[[Any], Any] = lambda key: key
    show: Callable[[Any], Any] = lambda parts: parts


#: The insides of an unknown type: strings are hidden, arrays and objects are shown as JSON data.
HIDDEN = (Inside("string", is_shown=False), Inside("array"), Inside("object"))


@dataclass
class Shaped:
    """A JSON Schema, the conversion of its values to instances, and how an unfinished value is shown."""

    schema: dict[str, Any]
    convert: Convert
    insides: Callable[[], Sequence[Inside]] = lambda: ()


def opened(shaped: Shaped, kind: JsonKind) -> Inside | None:
    """Return how to show an unfinished value of this kind; None if several alternatives of a union are possible."""
    ways = [way for way in shaped.insides() if way.kind == kind]
    return ways[0] if len(ways) == 1 else None
