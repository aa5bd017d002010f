"""Every JSON spelling (RFC 8259, section 7) of single characters and of texts, as regular nodes.

A character has up to three kinds of spelling: itself, a short escape, and `\\u` escapes, two of them (UTF-16
surrogates) beyond U+FFFF. Reading a spelling back is unambiguous, so intersections and differences stay exact.
"""

from __future__ import annotations

from functools import lru_cache

from formatter_core.grammar import Bytes, Chars, Choice, Grammar, JsonText, Node, Sequence, map_children

__all__ = ["shortest_spelling", "spell_chars", "spelled", "without_json_texts"]

Ranges = tuple[tuple[int, int], ...]

_RAW = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))
_SHORT = {0x22: '"', 0x5C: "\\", 0x2F: "/", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}


@lru_cache(maxsize=4096)
def spell_chars(ranges: Ranges) -> Node:
    """Every spelling of one character out of sorted, disjoint, inclusive ranges without surrogates."""
    options: list[Node] = []
    raw = _overlap(ranges, _RAW)
    if raw:
        options.append(Chars(raw))
    escapes: list[Node] = []
    short = [ord(letter) for code, letter in _SHORT.items() if any(low <= code <= high for low, high in ranges)]
    if short:
        escapes.append(Chars.of((code, code) for code in short))
    hexadecimal: list[Node] = []
    for low, high in ranges:
        if low <= 0xFFFF:
            hexadecimal.extend(_hex(low, min(high, 0xFFFF)))
        if high > 0xFFFF:
            hexadecimal.extend(_surrogate_pairs(max(low, 0x10000), high))
    escapes.append(_sequence((Bytes(b"u"), _choice(hexadecimal))))
    options.append(_sequence((Bytes(b"\\"), _choice(escapes))))
    return _choice(options)


def spelled(text: str) -> Node:
    """What a `JsonText` stands for, out of other nodes; the same object for the same character."""
    items = tuple(_PLAIN.get(char) or spell_chars(((ord(char), ord(char)),)) for char in text)
    return _sequence(items)


def shortest_spelling(text: str) -> int:
    """The length in bytes of the shortest spelling."""
    return len(text.encode()) + sum(text.count(char) * more for char, more in _ESCAPED.items())


def without_json_texts(grammar: Grammar) -> Grammar:
    """The same grammar with every `JsonText` written out, for what cannot read them. What is shared stays shared."""
    made: dict[int, Node] = {}  # by identity: the grammar keeps its nodes alive

    def written_out(node: Node) -> Node:
        known = made.get(id(node))
        if known is None:
            known = spelled(node.text) if isinstance(node, JsonText) else map_children(node, written_out)
            made[id(node)] = known
        return known

    return Grammar({name: written_out(body) for name, body in grammar.rules.items()}, grammar.start)


def _spell_plain(code: int) -> Node:
    char = chr(code)
    options = [char] if char not in '"\\' else []
    options += ["\\" + _SHORT[code]] if code in _SHORT else []
    options += sorted({f"\\u{code:04x}", f"\\u{code:04X}"})
    return Choice(tuple(Bytes(option.encode()) for option in options))


#: What has to be escaped, with the bytes that this adds.
_ESCAPED = {chr(code): 1 if code in _SHORT else 5 for code in (*range(0x20), 0x22, 0x5C)}
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
    """The numbers from `low` to `high` as products of ranges of digits, most significant first."""
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
