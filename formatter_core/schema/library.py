"""Schemas to programs by the native library, which reads and lowers them without the GIL.

What it refuses, or cannot read, `lower_schema` lowers, or says what is wrong.
"""

from __future__ import annotations

from functools import cache, lru_cache
from json import dumps
from threading import Lock
from typing import Any, NamedTuple

from formatter_core.engine.native_schema import (
    Blanks,
    CommonTerminals,
    NativeJson,
    NativeProgram,
    NativeSchema,
    begun,
    native_json,
)
from formatter_core.errors import EngineUnavailable
from formatter_core.grammar import Program, SchemaRules
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.limits.forking import hold_during_fork
from formatter_core.schema.spelling import Spelling
from formatter_core.schema.whitespace import Whitespace, WhitespaceName

__all__ = ["LibraryOptions", "common_terminals", "prepare", "schema_program"]

#: Bytes of schemas in formats that are kept. We estimate those in the library by their texts.
_BYTES_OF_PARTS, _BYTES_OF_A_BYTE, _BYTES_OF_A_SCHEMA = 32 * 2**20, 40, 2000
#: Formats that schemas often have, and whose terminals take long to make; the first `\\s` reads Unicode's tables.
_USUAL_FORMATS = ("date-time", "date", "time", "email", "uri", "uuid", "ipv4", "ipv6")
_USUAL_PATTERNS = (r"^\S+$", r"^[\w .-]+$", r"^\d+$")


class LibraryOptions(NamedTuple):
    """How a schema is written: its blanks, spelling, order and string formats, with which characters of listed texts
    escaped, without which markers, in what limits.

    There are escaped characters and markers only in canonical spelling.
    """

    whitespace: WhitespaceName | Whitespace
    spelling: Spelling
    in_any_order: bool
    enforce_formats: bool
    escaped: str
    markers: tuple[str, ...]
    limits: Limits


#: The options of the latest schema, mostly those of the next one, and what schemas with these share.
_latest: tuple[tuple[Any, ...], CommonTerminals | None] = (), None


@cache
def prepare() -> None:
    """Make what most schemas need of scalars, so that no request waits for it."""
    strings: list[dict[str, str]] = [{"format": name} for name in _USUAL_FORMATS]
    strings += [{"pattern": pattern} for pattern in _USUAL_PATTERNS]
    scalars = [{"type": name} for name in ("integer", "number", "string")]
    schema = {"properties": {str(number): each for number, each in enumerate(strings + scalars)}}
    common = common_terminals(LibraryOptions("flexible", "canonical", False, True, "", (), DEFAULT_LIMITS))
    json = native_json(dumps(schema))
    if common is not None and json is not None:
        begun(json, common, DEFAULT_LIMITS, alone=True)


def schema_program(json: NativeJson, options: tuple[Any, ...], *, alone: bool) -> Program | SchemaRules | None:
    """The program of a schema if it is `alone`, a whole grammar; else its rules.

    None if only `lower_schema` can tell. In its texts no marker occurs. `options` are those of `LibraryOptions`.
    """
    global _latest
    before, common = _latest
    if options != before:
        common = common_terminals(LibraryOptions(*options))
        _latest = options, common
    if common is None:
        return None
    limits = options[-1]
    if alone:
        native = begun(json, common, limits, alone=True)
        return native if isinstance(native, NativeProgram) else None
    if json.key is None:
        return _part_of(json, common, limits)
    return _parts.get((json.key, options), _part_of, json, common, limits)


def _part_of(json: NativeJson, common: CommonTerminals, limits: Limits) -> _Rules | None:
    """The rules of a schema that stands in another format."""
    native = begun(json, common, limits, alone=False)
    return _Rules(native) if isinstance(native, NativeSchema) else None


class _Rules:
    """See `SchemaRules`."""

    def __init__(self, native: NativeSchema) -> None:
        self.count = native.count()
        self._native = native

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        with _writing:
            return self._native.write(first, written)

    def names(self) -> list[str]:
        with _writing:
            return self._native.names()

    def bytes_used(self) -> int:
        """Estimate the bytes that it takes in the library."""
        return self._native.size * _BYTES_OF_A_BYTE + _BYTES_OF_A_SCHEMA


#: Equal schemas in formats are lowered once for the process, as the tools of one request are those of the next one.
_parts: ByteBoundedCache[_Rules | None] = ByteBoundedCache(
    _BYTES_OF_PARTS, lambda rules: _BYTES_OF_A_SCHEMA if rules is None else rules.bytes_used()
)
#: One thread at a time writes rules that several may have.
_writing = Lock()
hold_during_fork(_writing)


@lru_cache(maxsize=64)
def common_terminals(options: LibraryOptions) -> CommonTerminals | None:
    """What schemas with the same options share; None if with these the library lowers none."""
    whitespace, spelling, in_any_order, enforce_formats, escaped, markers, limits = options
    blanks: str | Blanks
    if isinstance(whitespace, str):
        blanks = whitespace
    else:
        own = whitespace
        blanks = Blanks(own.comma, own.colon, own.spaces, own.indent, own.lines)
    if limits.depth < DEFAULT_LIMITS.depth:
        return None
    try:
        return CommonTerminals(spelling == "canonical", blanks, in_any_order, enforce_formats, escaped, markers)
    except EngineUnavailable:
        return None
