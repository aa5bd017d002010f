"""Strings of a schema as they are, without quotes and escapes: for notations that write text that way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from formatter_core.grammar import ANY_TEXT, Choice, Intersection, Node
from formatter_core.limits import Limits
from formatter_core.schema.load import Loader
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.report import Refusals
from formatter_core.schema.shapes import Shape
from formatter_core.schema.strings import ANY_STRING, text_node

__all__ = ["Plain", "plain_strings"]


class Plain(NamedTuple):
    """A schema's texts as a regular node, None where it has none; and the other types of JSON that it allows.

    `holds` tells of a text whether the schema allows it.
    """

    text: Node | None
    others: tuple[str, ...]
    shape: Shape

    def holds(self, text: str) -> bool:
        """Whether the schema allows this text."""
        return any(text in strings for strings in self.shape.strings)


def plain_strings(
    schema: Mapping[str, Any] | bool, limits: Limits, *, registry: Mapping[str, Any] | None = None,
    enforce_formats: bool = True,
) -> Plain:  # fmt: skip
    """What a schema allows besides objects of JSON: its texts as they are, and its other types.

    Raises:
        InvalidSchema: it is not a schema.
        UnsupportedSchema: a keyword that cannot be enforced exactly.
        LimitExceeded: it needs more than the limits allow.
    """
    loader = Loader(schema, limits, registry)
    shape = Normalizer(loader, limits, Refusals(), enforce_formats).literal(loader.root)
    kinds = {
        "null": shape.null,
        "boolean": bool(shape.booleans),
        "number": bool(shape.numbers),
        "array": bool(shape.arrays),
        "object": bool(shape.objects),
    }
    return Plain(_text(shape), tuple(kind for kind, is_there in kinds.items() if is_there), shape)


def _text(shape: Shape) -> Node | None:
    if not shape.strings:
        return None
    if ANY_STRING in shape.strings:
        return ANY_TEXT
    return Intersection((ANY_TEXT, Choice(tuple(text_node(strings) for strings in shape.strings))))
