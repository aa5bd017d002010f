"""Descriptions of what may come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from formatter_core.errors.pointers import unescaped
from formatter_core.grammar import is_internal

__all__ = ["Expected", "listed", "place", "place_in_words", "quoted", "what_follows"]

_RANGES_SHOWN = 6
_EXCEPTIONS_SHOWN = 4
_ASCII = frozenset(range(0x80))
_CONTROLS = frozenset({*range(0x20), 0x7F})
_FIRST_OF_MANY = range(0xC2, 0xF5)  # the bytes that begin a character beyond ASCII
_DIGITS = frozenset(b"0123456789")


#: The words for the values of an array or object that have no names.
_ITEMS = {
    "items": "an item",
    "prefixItems": "an item",
    "contains": "an item",
    "unevaluatedItems": "an item",
    "additionalItems": "an item",
    "additionalProperties": "a value",
    "patternProperties": "a value",
    "unevaluatedProperties": "a value",
}
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


class Expected(NamedTuple):
    """Something that may come next, and its place in the format: "inside `name`", "in rule `x`", or ""."""

    what: str
    where: str


def quoted(text: str) -> str:
    """Quote a text in backquotes, with escapes for characters that do not print."""
    return "`" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + "`"


def what_follows(forced: bytes, first: Iterable[int]) -> list[str]:
    """Describe what may come next in a terminal: the text that must come, else the possible characters by byte."""
    return [quoted(forced.decode("utf-8", "backslashreplace"))] if forced else _characters(frozenset(first))


def place(captures: Iterable[str], rule: str, *, is_start: bool) -> str:
    """Describe a place in the output: the innermost open capture, else the rule."""
    shown = next((name for name in captures if not is_internal(name)), None)
    if shown is not None:
        return f"inside {quoted(shown)}"
    if rule.startswith("#"):  # the rule of a schema
        return f"at {rule}" if len(rule) > 1 else ""
    return "" if is_start else f"in rule {quoted(rule)}"


def place_in_words(where: str) -> str:
    """Describe a place of a schema by property names: "in `person.age`"; return other places unchanged."""
    if not where.startswith("at #/"):
        return where
    names: list[str] = []
    holder, item = "", ""
    segments = iter(where.removeprefix("at #/").split("/"))
    for segment in segments:
        if segment in ("properties", "$defs", "definitions"):
            name = unescaped(next(segments, ""))
            if segment == "properties":
                if item:
                    names[-1:] = [f"{names[-1]}[]" if names else "[]"]
                names.append(name)
            else:
                names, holder = [], quoted(name)
            item = ""
        elif segment in _ITEMS:
            item = _ITEMS[segment]
            if segment in ("prefixItems", "patternProperties"):
                next(segments, "")
        elif segment in _ALTERNATIVES:
            next(segments, "")
        elif segment not in ("if", "then", "else"):
            return where
    inside = quoted(".".join(names)) if names else holder
    return " ".join(word for word in ("in", item, "of" if item and inside else "", inside) if word)


def _characters(first_bytes: frozenset[int]) -> list[str]:
    """Return the characters that begin with one of these bytes, in words."""
    plain = first_bytes & _ASCII
    wide = first_bytes - _ASCII
    if not plain:
        begins = bool(wide & {*_FIRST_OF_MANY})
        return ["a character beyond ASCII" if begins else "the rest of a character"] if wide else []
    if wide.issuperset(_FIRST_OF_MANY):
        exceptions = _ASCII - plain
        controls = ["control characters"] if exceptions >= _CONTROLS - {0x7F} else []
        shown = [quoted(chr(byte)) for byte in sorted(exceptions - _CONTROLS if controls else exceptions)] + controls
        if not shown:
            return ["any character"]
        if len(shown) <= _EXCEPTIONS_SHOWN:
            return [f"any character except {listed(shown, 'and')}"]
    if plain == _DIGITS and not wide:
        return ["a digit"]
    shown = [_span(low, high) for low, high in _spans(sorted(plain))]
    others = ["other characters"] if wide or len(shown) > _RANGES_SHOWN else []
    return [*shown[:_RANGES_SHOWN], *others]


def _spans(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def _span(low: int, high: int) -> str:
    return quoted(chr(low)) if low == high else f"{quoted(chr(low))}–{quoted(chr(high))}"


def listed(words: Sequence[str], last: str) -> str:
    """Join words with commas, and `last` before the last one."""
    return " ".join([", ".join(words[:-1]), last, words[-1]]) if len(words) > 1 else words[0]
