"""The operations of programs, one byte each, and their numbers; `program` says what they mean."""

from __future__ import annotations

__all__ = [
    "AGAIN", "BYTES", "CANONICAL_TEXT", "CAPTURE", "CHARS", "CHOICE", "COMPLEMENT", "INTERSECTION", "JSON_TEXT", "KEPT",
    "LAZY_REPEAT", "MAGIC", "MEMBERS", "MULTIPLES", "REFERENCE", "REGION", "REPEAT", "RULES", "RULE_END", "SEQUENCE",
    "SHORTEST", "SUBSTRING", "TERMINAL", "TOKEN", "read_number", "written_number",
]  # fmt: skip

#: The first bytes of a program.
MAGIC = b"FCG6"
RULE_END, BYTES, CHARS, SEQUENCE, CHOICE, REPEAT, INTERSECTION, COMPLEMENT, SHORTEST, SUBSTRING, TERMINAL = range(11)
AGAIN, REFERENCE, TOKEN, JSON_TEXT, KEPT, MEMBERS, CAPTURE, LAZY_REPEAT, REGION, MULTIPLES, RULES = range(12, 23)
CANONICAL_TEXT = 23

_SMALL = tuple(bytes((value,)) for value in range(0x80))


def written_number(value: int) -> bytes:
    """Write a number as LEB128."""
    if value < 0x80:
        return _SMALL[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    return bytes((value & 0x7F | 0x80,)) + written_number(value >> 7)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read the LEB128 number at a place; returns it and the place after it."""
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
