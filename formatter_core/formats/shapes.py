"""What a Python type is to JSON: its schema, what makes its instances, and how an unfinished one is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from formatter_core.formats.arms import Arms

__all__ = ["HIDDEN", "Convert", "Inside", "JsonKind", "Shaped", "opened"]

#: From a JSON value, the JSON Pointer to it, for an error to name, and what tells the alternatives of unions apart.
Convert: TypeAlias = Callable[[Any, str, Arms], Any]
#: JSON values that can be unfinished and show something.
JsonKind: TypeAlias = Literal["string", "array", "object"]


@dataclass(frozen=True)
class Inside:
    """How an unfinished value of a type is shown, where it is of one kind.

    Attributes:
        kind: which JSON values these are.
        is_shown: whether a string shows what has come of it; an `Enum` or a date does not.
        part: the shape of the item at an index, or of the value of a key; None where it is not known.
        name: what a key is called in what `show` gets.
        show: what the items or members so far are shown as.
    """

    kind: JsonKind
    is_shown: bool = True
    part: Callable[[Any], Shaped | None] = lambda place: None
    name: Callable[[Any], Any] = lambda key: key
    show: Callable[[Any], Any] = lambda parts: parts


#: A type of which nothing is known: strings are hidden, arrays and objects are shown as JSON data.
HIDDEN = (Inside("string", is_shown=False), Inside("array"), Inside("object"))


@dataclass
class Shaped:
    """A JSON Schema, what makes the instance of a JSON value that satisfies it, and how an unfinished one is shown."""

    schema: dict[str, Any]
    convert: Convert
    insides: Callable[[], Sequence[Inside]] = lambda: ()


def opened(shaped: Shaped, kind: JsonKind) -> Inside | None:
    """How an unfinished value of this kind is shown; None where several alternatives of a union could be meant."""
    ways = [way for way in shaped.insides() if way.kind == kind]
    return ways[0] if len(ways) == 1 else None
