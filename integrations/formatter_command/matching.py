"""`match`: whether texts are in a format, and if not, where they leave it and what was expected there.

A file is read block by block and only as far as it matches, so a file of any size or kind costs little.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO

from formatter_command.reading import CommandError, opened, read_for_texts
from formatter_core.errors import TokenRejected
from formatter_core.runtime.compiler import Compiler, compile_to_read
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.without_vocabulary import parse
from formatter_core.vocabulary import Vocabulary

__all__ = ["match"]

_BLOCK = 1 << 16
#: Bytes read after the place where a text stops matching; they may show why: a later key, for example.
_READ_ON = 1 << 12
#: Bytes; after a longer text, the expected text is not reported, because that takes a parse in Python.
_LONGEST_EXPLAINED = 100_000


def match(options: Namespace) -> int:
    """Print a line for each file; 0 if all match, else 1."""
    format = read_for_texts(options)
    compiled = compile_to_read(Compiler(Vocabulary.of_bytes()), format)
    failures = 0
    for name in options.files:
        with opened(name) as file:
            fault = _fault(format, compiled.formatter(), _blocks(file, name, options))
        failures += fault is not None
        sys.stdout.write(f"{name}: matches\n" if fault is None else f"{name}{fault}\n")
    return int(failures > 0)


def _blocks(file: BinaryIO, name: str, options: Namespace) -> Iterator[bytes]:
    """Return the content without a byte order mark and without a final line break, which editors add."""
    left: int = options.max_bytes
    held, is_first = b"", not options.exact
    while block := file.read(_BLOCK):
        left -= len(block)
        if left < 0:
            raise CommandError(f"{name}: matches so far, but is longer than {options.max_bytes} bytes; see --max-bytes")
        if is_first:
            block, is_first = block.removeprefix(BOM_UTF8), False
        block = held + block
        text = block if options.exact else block.removesuffix(b"\n").removesuffix(b"\r")
        held = block[len(text) :]
        yield text
    if held == b"\r":  # no line break
        yield held


def _fault(format: Any, formatter: Formatter, blocks: Iterator[bytes]) -> str | None:
    """Describe where and why the text does not match the format, to follow the file's name; None if it matches."""
    for block in blocks:
        if _accepts(formatter, block):
            continue
        rejected = next(at for at in range(len(block)) if not _accepts(formatter, block[at : at + 1]))
        before, after = formatter.bytes, block[rejected : rejected + _READ_ON]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        return f":{line}:{column}: {_missing(format, before, after) or f'does not match at byte {len(before)}'}"
    if formatter.can_stop:
        return None
    return f": {_missing(format, formatter.bytes) or 'the text ends too early'}"


def _accepts(formatter: Formatter, data: bytes) -> bool:
    try:
        formatter.accept_bytes(data)
    except TokenRejected:
        return False
    return True


def _missing(format: Any, before: bytes, after: bytes = b"") -> str | None:
    return parse(format, before + after).missing if len(before) <= _LONGEST_EXPLAINED else None
