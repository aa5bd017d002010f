"""What may come next, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from formatter_core.grammar import is_internal

__all__ = ["LITERAL_SHOWN", "Expected", "listed", "place", "quoted", "what_follows"]

#: How many bytes of the text that must come are shown at most.
LITERAL_SHOWN = 40
_RANGES_SHOWN = 6
_EXCEPTIONS_SHOWN = 4
_ASCII = frozenset(range(0x80))
_CONTROLS = frozenset({*range(0x20), 0x7F})
_FIRST_OF_MANY = range(0xC2, 0xF5)  # the bytes that begin a character beyond ASCII
_DIGITS = frozenset(b"0123456789")


class Expected(NamedTuple):
    """Something that may come next, and where in the format it stands: "inside `name`", "in rule `x`", or ""."""

    what: str
    where: str


def quoted(text: str) -> str:
    """A text between backquotes, with escapes for what does not print."""
    return "`" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + "`"


def what_follows(forced: bytes, first: Iterable[int]) -> list[str]:
    """What may come next in a terminal: the text that must come, else the characters that may, by their first bytes."""
    return [quoted(forced.decode("utf-8", "backslashreplace"))] if forced else _characters(frozenset(first))


def place(captures: Iterable[str], rule: str, *, is_start: bool) -> str:
    """Where something stands: the innermost open capture, else the rule."""
    shown = next((name for name in captures if not is_internal(name)), None)
    if shown is not None:
        return f"inside {quoted(shown)}"
    if rule.startswith("#"):  # the rule of a schema
        return f"at {rule}" if len(rule) > 1 else ""
    return "" if is_start else f"in rule {quoted(rule)}"


def _characters(first_bytes: frozenset[int]) -> list[str]:
    """The characters that begin with one of these bytes."""
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
    """The words with commas, and `last` before the last one."""
    return " ".join([", ".join(words[:-1]), last, words[-1]]) if len(words) > 1 else words[0]
