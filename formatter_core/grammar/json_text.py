"""The JSON spellings (RFC 8259, section 7) of single characters and of texts, as regular nodes.

A character has up to three kinds of spelling: itself, a short escape, and `\\u` escapes, two of them (UTF-16
surrogates) beyond U+FFFF. Reading a spelling back is unambiguous, so intersections and differences stay exact.

In "any" spelling each character has all of them. "canonical" is what a careful writer writes: a character is written
raw unless it must be escaped, and then has its short escape, or where there is none its `\\u` escape; a character
beyond ASCII has either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

from formatter_core.grammar import (
    Bytes,
    Chars,
    Choice,
    Grammar,
    JsonText,
    Node,
    Sequence,
    map_children,
)

__all__ = [
    "Spelling", "long_escape", "spell_chars", "spelled", "unicode_escape", "without_json_texts",
]  # fmt: skip

Spelling: TypeAlias = Literal["any", "canonical"]
Ranges: TypeAlias = tuple[tuple[int, int], ...]

_RAW = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))
_SHORT = {0x22: '"', 0x5C: "\\", 0x2F: "/", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}


@lru_cache(maxsize=4096)
def spell_chars(ranges: Ranges, spelling: Spelling = "any") -> Node:
    """Return a node for the spellings of one character out of sorted, disjoint, inclusive ranges without surrogates."""
    options: list[Node] = []
    raw = _overlap(ranges, _RAW)
    if raw:
        options.append(Chars(raw))
    escapes: list[Node] = []
    short = [
        ord(letter)
        for code, letter in _SHORT.items()
        if any(low <= code <= high for low, high in ranges) and (spelling == "any" or letter != "/")
    ]
    if short:
        escapes.append(Chars.of((code, code) for code in short))
    hexadecimal: list[Node] = []
    for low, high in ranges if spelling == "any" else _overlap(ranges, _LONG):
        if low <= 0xFFFF:
            hexadecimal.extend(_hex(low, min(high, 0xFFFF)))
        if high > 0xFFFF:
            hexadecimal.extend(_surrogate_pairs(max(low, 0x10000), high))
    if hexadecimal or not (raw or short):
        escapes.append(_sequence((Bytes(b"u"), _choice(hexadecimal))))
    if escapes:
        options.append(_sequence((Bytes(b"\\"), _choice(escapes))))
    return _choice(options)


def long_escape(char: str) -> Node:
    """Return a node for the `\\u` escape of a character up to U+FFFF, with hexadecimal digits of both cases."""
    return _sequence((Bytes(b"\\u"), _choice(_hex(ord(char), ord(char)))))


def spelled(node: JsonText) -> Node:
    """Return the text as other nodes; equal characters get the same object."""
    if node.spelling == "any":
        items = tuple(_PLAIN.get(char) or spell_chars(((ord(char), ord(char)),)) for char in node.text)
    else:
        items = tuple(spell_chars(((ord(char), ord(char)),), "canonical") for char in node.text)
    return _sequence(items)


def without_json_texts(grammar: Grammar) -> Grammar:
    """Return the grammar with every `JsonText` written out, for readers that do not know it.

    Shared nodes stay shared.
    """
    made: dict[int, Node] = {}  # by identity: the grammar keeps its nodes alive

    def changed(node: Node) -> Node:
        known = made.get(id(node))
        if known is None:
            known = spelled(node) if isinstance(node, JsonText) else map_children(node, changed)
            made[id(node)] = known
        return known

    return Grammar({name: changed(body) for name, body in grammar.rules.items()}, grammar.start)


def unicode_escape(char: str) -> bytes:
    r"""Write a character as `\uNNNN`; as two escapes beyond the basic plane."""
    units = char.encode("utf-16-be")
    return b"".join(b"\\u" + units[place : place + 2].hex().encode() for place in range(0, len(units), 2))


def _spell_plain(code: int) -> Node:
    char = chr(code)
    options = [char] if char not in '"\\' else []
    options += ["\\" + _SHORT[code]] if code in _SHORT else []
    options += sorted({f"\\u{code:04x}", f"\\u{code:04X}"})
    return Choice(tuple(Bytes(option.encode()) for option in options))


#: Characters that have no spelling but `\\u`, or that may be escaped or written raw.
_LONG = ((0, 7), (0xB, 0xB), (0xE, 0x1F), (0x80, 0xD7FF), (0xE000, 0x10FFFF))
_PLAIN = {chr(code): _spell_plain(code) for code in range(0x20, 0x7F)}


def _hex(low: int, high: int) -> list[Node]:
    return [_sequence(tuple(_nibble(*pair) for pair in pairs)) for pairs in _digit_ranges(low, high, 4)]


def _surrogate_pairs(low: int, high: int) -> list[Node]:
    found: list[Node] = []
    for pairs in _digit_ranges(low - 0x10000, high - 0x10000, 2, 0x400):
        (lead_low, lead_high), (trail_low, trail_high) = pairs
        lead = _choice(_hex(0xD800 + lead_low, 0xD800 + lead_high))
        trail = _choice(_hex(0xDC00 + trail_low, 0xDC00 + trail_high))
        found.append(Sequence((lead, Bytes(b"\\u"), trail)))
    return found


def _digit_ranges(low: int, high: int, digits: int, base: int = 16) -> list[tuple[tuple[int, int], ...]]:
    """Yield the numbers from `low` to `high` as products of ranges of digits, most significant first."""
    if digits == 1:
        return [((low, high),)]
    size = base ** (digits - 1)
    (first, low_rest), (last, high_rest) = divmod(low, size), divmod(high, size)
    if first == last:
        return [((first, first), *rest) for rest in _digit_ranges(low_rest, high_rest, digits - 1, base)]
    found: list[tuple[tuple[int, int], ...]] = []
    if low_rest:
        found += [((first, first), *rest) for rest in _digit_ranges(low_rest, size - 1, digits - 1, base)]
        first += 1
    tail: list[tuple[tuple[int, int], ...]] = []
    if high_rest != size - 1:
        tail = [((last, last), *rest) for rest in _digit_ranges(0, high_rest, digits - 1, base)]
        last -= 1
    if first <= last:
        found.append(((first, last), *(((0, base - 1),) * (digits - 1))))
    return found + tail


@lru_cache(maxsize=256)
def _nibble(low: int, high: int) -> Node:
    ranges = [(0x30 + low, 0x30 + min(high, 9))] if low <= 9 else []
    if high >= 10:
        ranges += [(base + max(low, 10) - 10, base + high - 10) for base in (ord("A"), ord("a"))]
    return Chars.of(ranges)


def _overlap(first: Ranges, second: Ranges) -> Ranges:
    return tuple((max(a, c), min(b, d)) for a, b in first for c, d in second if max(a, c) <= min(b, d))


def _sequence(items: tuple[Node, ...]) -> Node:
    return items[0] if len(items) == 1 else Sequence(items)


def _choice(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Choice(tuple(items))
