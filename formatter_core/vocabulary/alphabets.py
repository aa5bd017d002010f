"""Spellings of bytes as text in tokenizers: the byte-level alphabet, byte pieces, and the mark for a space."""

from __future__ import annotations

import re

__all__ = ["BYTE_CHARACTERS", "BYTE_PIECES", "SPACE_MARK", "byte_level", "byte_piece"]

SPACE_MARK = "\u2581"
"""The character that SentencePiece and its descendants write for a space."""


def _byte_characters() -> str:
    # The alphabet of GPT-2's encoder: printable Latin-1 bytes are spelled by themselves, the other bytes by characters
    # from U+0100 on.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))


BYTE_CHARACTERS = _byte_characters()
"""The characters of byte-level vocabularies: the one at index i spells byte i."""

BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The pieces of vocabularies with byte fallback: the one at index i spells byte i."""

# To Latin-1, whose encoder is one fast call. Latin-1 characters that are not in the alphabet go where it cannot follow.
_TO_LATIN_1 = dict.fromkeys(range(256), 0xFFFF) | {ord(char): byte for byte, char in enumerate(BYTE_CHARACTERS)}
_BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_level(piece: str) -> bytes:
    """Return the bytes of a byte-level piece. A piece with any character outside the alphabet spells its own UTF-8."""
    try:
        return piece.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return piece.encode("utf-8")


def byte_piece(piece: str) -> bytes | None:
    """Return the byte that a piece such as `<0x0A>` spells; None for any other piece."""
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes((int(match[1], 16),)) if match else None
