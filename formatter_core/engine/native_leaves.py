"""Texts and numbers of schemas, as the native library reports them, for notations other than JSON."""

from __future__ import annotations

import ctypes
from decimal import Decimal
from typing import Any, NamedTuple

from formatter_core.engine.native_calls import LibraryBytes
from formatter_core.engine.native_library import check, load
from formatter_core.engine.native_schema import NativeJson, Refused, bounds_of_schema, refusals_in
from formatter_core.grammar import ANY_TEXT, Intersection, Node
from formatter_core.grammar.read import regular_node
from formatter_core.limits import Limits

__all__ = ["Plain", "number_node", "plain"]

#: Types besides text, in the order of the library's bits.
_OTHERS = "null", "boolean", "number", "array", "object"


class Plain(NamedTuple):
    """The values of a schema apart from JSON objects and lists.

    Attributes:
        text: its decoded texts, as a regular node; None if it has none.
        others: the further JSON types that it allows.
        holds: whether the given text is among its texts.
    """

    text: Node | None
    others: tuple[str, ...]
    holds: bool


class _Found(ctypes.Structure):
    """`PlainFound` in the library."""

    _fields_ = (
        ("program", LibraryBytes),
        ("texts", ctypes.c_uint32),
        ("others", ctypes.c_uint32),
        ("holds", ctypes.c_uint32),
        ("is_refused", ctypes.c_uint32),
    )


def plain(json: NativeJson, limits: Limits, *, enforce_formats: bool, text: str | None = None) -> Plain | Refused:
    """Read what a schema allows, and whether that is a text; or why the schema is refused."""
    found, asked = _Found(), None if text is None else text.encode()
    nodes, work, _, depth = bounds_of_schema(limits)
    bounds = nodes, work, depth
    check(load().fcn_schema_texts(json.pointer, enforce_formats, *bounds, *_text(asked), ctypes.byref(found)))
    if found.is_refused:
        return refusals_in(found.program.copied())[0]
    others = tuple(kind for place, kind in enumerate(_OTHERS) if found.others >> place & 1)
    texts: Node | None = ANY_TEXT if found.texts else None
    if found.texts == 1:
        texts = Intersection((ANY_TEXT, regular_node(found.program.copied())))
    return Plain(texts, others, bool(found.holds))


def number_node(low: int | Decimal | None, high: int | Decimal | None, *, whole: bool, canonical: bool) -> Node:
    """Return a node for the decimals between two bounds, without exponents.

    Args:
        low: the least one; None for no bound.
        high: the greatest one; None for no bound.
        whole: whether only whole numbers.
        canonical: whether they have the usual number of digits, or as many as the bounds need; else any number of them.
    """
    found = LibraryBytes()
    bounds = (None if bound is None else format(Decimal(bound), "f").encode() for bound in (low, high))
    given = [part for bound in bounds for part in _text(bound)]
    check(load().fcn_number_program(*given, whole, canonical, ctypes.byref(found)))
    return regular_node(found.copied())


def _text(text: bytes | None) -> tuple[Any, int]:
    return text, 0 if text is None else len(text)
