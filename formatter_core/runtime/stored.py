"""Store compiled formats as bytes: a header, the grammar's program, and the format as JSON.

The bytes, version 4, are: a magic number; the version (16 bits); the fingerprint of the vocabulary (32 bytes); 32-bit
numbers (where the program begins and ends, how many nodes, regions and named tokens it has, whether the format names a
Python type, and the ids of those tokens); the names of captures as JSON; the program; the format as JSON; and a
checksum: all bytes before it, read as one number, modulo the largest prime below 2^32. All numbers are little-endian.
The program has its own version, which the engine checks.
"""

from __future__ import annotations

import json
import struct

from formatter_core.errors import InvalidFormat
from formatter_core.grammar import Program

__all__ = [
    "UNNAMED_AT", "beginning_of", "check_stored", "foreign", "read_stored", "stored_program", "stored_text",
    "write_stored",
]  # fmt: skip

_MAGIC = b"\x89FCF\r\n\x1a\n"
_VERSION = 4
_BEGINNING = struct.pack("<8sH", _MAGIC, _VERSION)
_CONTENTS = struct.Struct("<6I")
_CHECKSUM = struct.Struct("<I")
#: The offset of the numbers; the offset after them, where a program that names nothing begins; and the length of the
#: checksum.
_CONTENTS_AT = len(_BEGINNING) + 32
UNNAMED_AT = _CONTENTS_AT + _CONTENTS.size
_AFTER = _CHECKSUM.size
_PRIME = 2**32 - 5
#: This text occurs in the JSON of every format that names a Python type.
_PYTHON_TYPE = b'"python_type"'


def write_stored(vocabulary: bytes, program: Program, format: bytes) -> bytes:
    """Return a compiled format as bytes.

    Args:
        vocabulary: the fingerprint of the vocabulary.
        program: the grammar as a program for engines.
        format: the format as JSON text.
    """
    names = json.dumps(program.names).encode() if program.names else b""
    tokens = struct.pack(f"<{len(program.tokens)}I", *program.tokens)
    begin = UNNAMED_AT + len(tokens) + len(names)
    numbers = begin, begin + len(program.data), program.nodes, program.regions, len(program.tokens)
    head = beginning_of(vocabulary) + _CONTENTS.pack(*numbers, _PYTHON_TYPE in format)
    data = head + tokens + names + program.data + format
    return data + _CHECKSUM.pack(_checksum(data))


def beginning_of(vocabulary: bytes) -> bytes:
    """Return the first bytes of all formats that were compiled for the vocabulary with this fingerprint."""
    return _BEGINNING + vocabulary


def read_stored(data: bytes) -> tuple[int, ...]:
    """Return where the program in the bytes begins and ends (it begins at `UNNAMED_AT` if it names no tokens or
    captures), how many nodes, regions and named tokens it has, and whether the format names a Python type; none of this
    is certain before `check_stored`.

    Raises:
        InvalidFormat: the bytes are too few.
    """
    try:
        return _CONTENTS.unpack_from(data, _CONTENTS_AT)
    except struct.error as error:
        raise _damaged() from error


def check_stored(data: bytes) -> None:
    """Check the checksum; engines that read programs do this themselves.

    Raises:
        InvalidFormat: the checksum is wrong.
    """
    if data[-_AFTER:] != _CHECKSUM.pack(_checksum(data[:-_AFTER])):
        raise _damaged()


def stored_program(data: bytes) -> Program:
    """Return the program.

    Raises:
        InvalidFormat: the tokens or the names of captures are invalid.
    """
    begin, end, nodes, regions, count, _ = read_stored(data)
    if begin == UNNAMED_AT:
        return Program(data[begin:end], nodes, (), (), regions)
    names_at = UNNAMED_AT + 4 * count
    try:
        tokens = struct.unpack(f"<{count}I", data[UNNAMED_AT:names_at])
    except struct.error as error:
        raise _damaged() from error
    return Program(data[begin:end], nodes, tokens, _names(data[names_at:begin]), regions)


def stored_text(data: bytes) -> bytes:
    """Return the format, as JSON text."""
    return data[read_stored(data)[1] : -_AFTER]


def foreign(data: bytes, vocabulary: object) -> InvalidFormat:
    """Return the error for bytes that do not begin like those for a vocabulary."""
    if not data.startswith(_MAGIC):
        return InvalidFormat(
            "the bytes are not those of a compiled format; give what CompiledFormat.to_bytes() returned"
        )
    if not data.startswith(_BEGINNING):
        version = int.from_bytes(data[len(_MAGIC) : len(_BEGINNING)], "little")
        return InvalidFormat(
            f"the bytes of the compiled format have version {version}, and this release reads {_VERSION}; "
            "compile the format again"
        )
    try:
        check_stored(data)
    except InvalidFormat as error:
        return error
    return InvalidFormat(
        f"the format was compiled for another vocabulary, not for {vocabulary!r}; compile it for this one"
    )


def _checksum(data: bytes) -> int:
    return int.from_bytes(data, "little") % _PRIME


def _names(text: bytes) -> tuple[str, ...]:
    try:
        names = json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise _damaged() from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged()
    return tuple(names)


def _damaged() -> InvalidFormat:
    return InvalidFormat("the bytes of the compiled format are damaged; compile the format again")
