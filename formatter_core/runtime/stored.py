"""Compiled formats as bytes: a header, the grammar's program, and the format as JSON.

The bytes, version 2: a magic number, the version (16 bits), the fingerprint of the vocabulary (32 bytes), numbers of 32
bits (the number of nodes, the lengths of the names of captures, of the program and of the format, the numbers of
regions and of tokens that the grammar names, whether the format names a Python type, those tokens), the names as JSON,
the program, the format as JSON, and CRC-32 of all that. All are little-endian. The program has a version of its own,
which the engine checks.
"""

from __future__ import annotations

import json
import struct
from zlib import crc32

from formatter_core.errors import InvalidFormat
from formatter_core.grammar import Program

__all__ = ["read_stored", "stored_text", "write_stored"]

_MAGIC = b"\x89FCF\r\n\x1a\n"
_VERSION = 2
_BEGINNING = struct.pack("<8sH", _MAGIC, _VERSION)
_SIZES = struct.Struct("<32s7I")
_CHECKSUM = struct.Struct("<I")
#: Where the sizes begin, and what follows them; how long the checksum is.
_SIZES_AT = len(_BEGINNING)
_REST_AT = _SIZES_AT + _SIZES.size
_AFTER = _CHECKSUM.size
#: CRC-32 of whatever its own CRC-32 follows.
_SOUND = 0x2144DF1C
#: Occurs in the JSON of every format that names a Python type.
_PYTHON_TYPE = b'"python_type"'


def write_stored(vocabulary: bytes, program: Program, format: bytes) -> bytes:
    """The bytes of a compiled format.

    Args:
        vocabulary: the fingerprint of the vocabulary.
        program: the grammar as engines read it.
        format: the format as JSON text.
    """
    names = json.dumps(program.names).encode() if program.names else b""
    tokens = struct.pack(f"<{len(program.tokens)}I", *program.tokens)
    sizes = program.nodes, len(names), len(program.data), len(format), program.regions, len(program.tokens)
    head = _BEGINNING + _SIZES.pack(vocabulary, *sizes, _PYTHON_TYPE in format)
    data = head + tokens + names + program.data + format
    return data + _CHECKSUM.pack(crc32(data))


def read_stored(data: bytes) -> tuple[bytes, Program, int, bool]:
    """What the bytes of a compiled format say: the fingerprint of the vocabulary, the program, where the format begins
    (see `stored_text`), and whether that names a Python type.

    The program and the JSON are not read here.

    Raises:
        InvalidFormat: bytes of another kind or version, or damaged ones.
    """
    if data[:_SIZES_AT] != _BEGINNING:
        raise _foreign(data)
    if crc32(data) != _SOUND:
        raise _damaged()
    try:
        vocabulary, nodes, naming, program, text, regions, tokens, has_type = _SIZES.unpack_from(data, _SIZES_AT)
        numbers = struct.unpack_from(f"<{tokens}I", data, _REST_AT) if tokens else ()
    except (struct.error, MemoryError) as error:
        raise _damaged() from error
    begin = _REST_AT + 4 * tokens + naming
    end = begin + program
    if len(data) != end + text + _AFTER:
        raise _damaged()
    names = _names(data[begin - naming : begin]) if naming else ()
    # A tuple becomes a named one in half the time that it takes to make one of the values.
    made = tuple.__new__(Program, (data[begin:end], nodes, numbers, names, regions, False))
    return vocabulary, made, end, has_type != 0


def stored_text(data: bytes, begin: int) -> bytes:
    """The format, as JSON text."""
    return data[begin:-_AFTER]


def _foreign(data: bytes) -> InvalidFormat:
    """Why bytes that begin in another way are not read."""
    magic, version = data[: len(_MAGIC)], data[len(_MAGIC) : _SIZES_AT]
    if magic != _MAGIC:
        return InvalidFormat(
            "the bytes are not those of a compiled format; give what CompiledFormat.to_bytes() returned"
        )
    return InvalidFormat(
        f"the bytes of the compiled format have version {int.from_bytes(version, 'little')}, and this release reads "
        f"{_VERSION}; compile the format again"
    )


def _names(text: bytes) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged() from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged()
    return tuple(names)


def _damaged() -> InvalidFormat:
    return InvalidFormat("the bytes of the compiled format are damaged; compile the format again")
