"""Schemas to programs by the native library, which reads and lowers them without the GIL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from json import dumps
from threading import Lock
from typing import Any, NamedTuple, cast

from formatter_core.engine.native_library import load
from formatter_core.engine.native_schema import (
    Blanks,
    CommonTerminals,
    NativeJson,
    NativeProgram,
    NativeSchema,
    Refused,
    begun,
    native_json,
)
from formatter_core.engine.shortest import is_empty_program
from formatter_core.errors import LimitExceeded
from formatter_core.grammar.json_text import Spelling
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.limits.forking import hold_during_fork
from formatter_core.schema.data import MAX_LEVELS, own_json, write_value
from formatter_core.schema.refusals import Dropped, as_dropped, error_of, not_a_schema
from formatter_core.schema.whitespace import Whitespace, WhitespaceName

__all__ = [
    "LibraryOptions", "SchemaPart", "common_terminals", "document", "documents", "forget_schemas", "is_unsatisfiable",
    "not_enforced", "prepare", "schema_program",
]  # fmt: skip

#: Bytes of schemas in formats that are kept. We estimate those in the library by their texts.
_BYTES_OF_PARTS, _BYTES_OF_A_BYTE, _BYTES_OF_A_SCHEMA = 32 * 2**20, 40, 2000
#: Codes for rules that are past a bound: then all keywords have been read.
_PAST_BOUNDS = frozenset(["Repeat", "RuleDepth"])
#: Formats that schemas often have, and whose terminals take long to make; the first `\\s` reads Unicode's tables.
_USUAL_FORMATS = ("date-time", "date", "time", "email", "uri", "uuid", "ipv4", "ipv6")
_USUAL_PATTERNS = (r"^\S+$", r"^[\w .-]+$", r"^\d+$")


class LibraryOptions(NamedTuple):
    """The options of writing a schema.

    These are whitespace, spelling, the order of members, string formats, the characters to escape in listed texts, the
    markers that must not occur, and limits. Escaped characters and markers are used only in canonical spelling.
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
    json = native_json(dumps(schema))
    if json is not None:
        options = LibraryOptions("flexible", "canonical", False, True, "", (), DEFAULT_LIMITS)
        begun(json, common_terminals(options), DEFAULT_LIMITS, alone=True)


def schema_program(
    json: NativeJson, options: tuple[Any, ...], *, lenient: bool, alone: bool
) -> NativeProgram | SchemaPart:
    """Lower a schema to its program if it is `alone`, a whole grammar; else to its rules.

    In its texts no marker occurs. `options` are those of `LibraryOptions`; if it is `lenient`, keywords that cannot be
    enforced are dropped.

    Raises:
        InvalidSchema: not a schema.
        UnsupportedSchema: a keyword that cannot be enforced exactly.
        UnsatisfiableSchema: no document satisfies the schema.
        LimitExceeded: lowering needs more than the limits allow.
    """
    global _latest
    before, common = _latest
    if common is None or options != before:
        common = common_terminals(LibraryOptions(*options))
        _latest = options, common
    limits = options[-1]
    if alone:
        found: Any = begun(json, common, limits, alone=True, lenient=lenient)
    elif json.key is None:
        found = _part_of(json, common, limits, lenient)
    else:
        found = _parts.get((json.key, options, lenient), _part_of, json, common, limits, lenient)
    if isinstance(found, Refused):
        raise error_of(found, limits, lenient=lenient)
    return cast("NativeProgram | SchemaPart", found)


def document(schema: Any, registry: Mapping[str, NativeJson] | None = None) -> NativeJson:
    """Read a schema as this project's JSON data; it may refer to other schemas by URI.

    Raises:
        InvalidSchema: it is not a schema, or it contains something that is not JSON data.
        LimitExceeded: it is nested too deeply.
    """
    try:
        found = native_json(write_value(schema))
    except (TypeError, RecursionError):
        found = None
    if found is None:
        own_json(schema)  # says what is wrong
        if not isinstance(schema, (dict, bool)):
            raise not_a_schema(schema)
        load()  # which may be why
        raise LimitExceeded("levels", MAX_LEVELS, "the nesting of the schema", is_fixed=True)
    if registry:
        found.refer(registry)
    return found


def documents(registry: Mapping[str, Any] | None) -> dict[str, NativeJson]:
    """Read the schemas of a registry, by their URIs."""
    return {uri.rstrip("#"): document(each) for uri, each in (registry or {}).items()}


def is_unsatisfiable(json: NativeJson, options: LibraryOptions, *, lenient: bool, exactly: bool) -> bool:
    """Tell whether no document is known to satisfy a schema; with `exactly`, strings and numbers are looked at, too."""
    found = begun(json, _any_common(options), options.limits, alone=True, lenient=lenient)
    if isinstance(found, Refused):
        return found.kind == "Unsatisfiable"
    try:
        return exactly and is_empty_program(cast("NativeProgram", found), options.limits)
    except LimitExceeded:
        return False


def not_enforced(json: NativeJson, options: LibraryOptions) -> tuple[Dropped, ...]:
    """List the keywords of a schema that cannot be enforced.

    Raises:
        InvalidSchema: not a schema.
        UnsupportedSchema: it names a dialect that is not known.
        LimitExceeded: lowering needs more than the limits allow.
    """
    found = begun(json, _any_common(options), options.limits, alone=False, lenient=True)
    dropped = tuple(map(as_dropped, found.dropped))
    if not isinstance(found, Refused) or found.kind == "Unsatisfiable" or found.why in _PAST_BOUNDS:
        return dropped
    if found.kind in ("Droppable", "Unsupported") and found.why != "UnknownDialect":
        return *dropped, as_dropped(found)
    raise error_of(found, options.limits, lenient=True)


def _any_common(options: LibraryOptions) -> CommonTerminals:
    """Return the shared terminals for schemas that are lowered only to analyse them; limits make no difference."""
    return common_terminals(LibraryOptions(*options[:-1], DEFAULT_LIMITS))


def _part_of(json: NativeJson, common: CommonTerminals, limits: Limits, lenient: bool) -> SchemaPart | Refused:
    """Lower a schema inside another format."""
    native = begun(json, common, limits, alone=False, lenient=lenient)
    return native if isinstance(native, Refused) else SchemaPart(cast("NativeSchema", native))


class SchemaPart:
    """The rules of a schema inside another format, see `SchemaRules`, and the keywords that are dropped."""

    def __init__(self, native: NativeSchema) -> None:
        self.count = native.count()
        self.dropped = native.dropped
        self._native = native

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        """See `SchemaRules`."""
        with _writing:
            return self._native.write(first, written)

    def names(self) -> list[str]:
        """See `SchemaRules`."""
        with _writing:
            return self._native.names()

    def bytes_used(self) -> int:
        """Estimate the number of bytes that the schema takes in the library."""
        return self._native.size * _BYTES_OF_A_BYTE + _BYTES_OF_A_SCHEMA


#: Equal schemas in formats are lowered once for the process, as the tools of one request are those of the next one.
_parts: ByteBoundedCache[SchemaPart | Refused] = ByteBoundedCache(
    _BYTES_OF_PARTS, lambda found: _BYTES_OF_A_SCHEMA if isinstance(found, Refused) else found.bytes_used()
)
#: One thread at a time writes rules that several may have.
_writing = Lock()
hold_during_fork(_writing)


def forget_schemas() -> None:
    """Free the schemas inside other formats, and the parts that schemas with the same options share."""
    global _latest
    _parts.clear()
    common_terminals.cache_clear()
    _latest = (), None


@lru_cache(maxsize=64)
def common_terminals(options: LibraryOptions) -> CommonTerminals:
    """Make what schemas with the same options share."""
    whitespace, spelling, in_any_order, enforce_formats, escaped, markers, _ = options
    blanks: str | Blanks
    if isinstance(whitespace, str):
        blanks = whitespace
    else:
        own = whitespace
        blanks = Blanks(own.comma, own.colon, own.spaces, own.indent, own.lines)
    return CommonTerminals(spelling == "canonical", blanks, in_any_order, enforce_formats, escaped, markers)
