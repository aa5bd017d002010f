"""Compiled formats as bytes: a header, the grammar's program, and the format as JSON.

The bytes, version 1: a magic number, the version (16 bits), SHA-256 of the rest; then the fingerprint of the vocabulary
(32 bytes), numbers of 32 bits (the number of nodes, the lengths of the names of captures, of the program and of the
format, the numbers of regions and of tokens that the grammar names, those tokens), the names as JSON, the program, and
the format as JSON. All are little-endian. The program has a version of its own, which the engine checks.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import NamedTuple

from formatter_core.errors import InvalidFormat
from formatter_core.grammar import Program

__all__ = ["StoredFormat"]

_MAGIC = b"\x89FCF\r\n\x1a\n"
_VERSION = 1
_HEADER = struct.Struct("<8sH32s")
_SIZES = struct.Struct("<32s6I")


class StoredFormat(NamedTuple):
    """What the bytes of a compiled format say.

    Attributes:
        vocabulary: the fingerprint of the vocabulary.
        program: the grammar as engines read it.
        format: the format as JSON text.
    """

    vocabulary: str
    program: Program
    format: bytes

    def to_bytes(self) -> bytes:
        """The inverse of `from_bytes`."""
        program, tokens = self.program, self.program.tokens
        names = json.dumps(program.names).encode() if program.names else b""
        sizes = program.nodes, len(names), len(program.data), len(self.format), self.program.regions, len(tokens)
        numbers = struct.pack(f"<{len(tokens)}I", *tokens)
        content = _SIZES.pack(bytes.fromhex(self.vocabulary), *sizes) + numbers + names + program.data + self.format
        return _HEADER.pack(_MAGIC, _VERSION, hashlib.sha256(content).digest()) + content

    @staticmethod
    def from_bytes(data: bytes) -> StoredFormat:
        """Read the bytes; the program and the JSON in them are not read here.

        Raises:
            InvalidFormat: bytes of another kind or version, or damaged ones.
        """
        if data[: len(_MAGIC)] != _MAGIC:
            raise InvalidFormat(
                "the bytes are not those of a compiled format; give what CompiledFormat.to_bytes() returned"
            )
        try:
            _, version, digest = _HEADER.unpack_from(data)
            if version != _VERSION:
                raise InvalidFormat(
                    f"the bytes of the compiled format have version {version}, and this release reads {_VERSION}; "
                    "compile the format again"
                )
            content = data[_HEADER.size :]
            if hashlib.sha256(content).digest() != digest:
                raise _damaged()
            vocabulary, nodes, naming, program, text, regions, tokens = _SIZES.unpack_from(content)
            numbers = struct.unpack_from(f"<{tokens}I", content, _SIZES.size) if tokens else ()
        except (struct.error, MemoryError) as error:
            raise _damaged() from error
        begin = _SIZES.size + 4 * tokens + naming
        end = begin + program
        if len(content) != end + text:
            raise _damaged()
        names = _names(content[begin - naming : begin]) if naming else ()
        made = Program(content[begin:end], nodes, numbers, names, regions)
        return StoredFormat(vocabulary.hex(), made, content[end:])


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
