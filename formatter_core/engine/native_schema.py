"""JSON Schemas that the native library lowers, without the GIL."""

from __future__ import annotations

import ctypes
import marshal
from collections.abc import Hashable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from formatter_core.engine.native_calls import LibraryBytes, MakingCalls, SchemaFound, making_calls, program_bytes
from formatter_core.engine.native_library import Handle, check, fail, load
from formatter_core.errors import EngineUnavailable
from formatter_core.grammar import Program
from formatter_core.limits import Limits

__all__ = [
    "Blanks",
    "CommonTerminals",
    "NativeJson",
    "NativeProgram",
    "NativeSchema",
    "Refused",
    "begun",
    "bounds_of_schema",
    "native_json",
    "refusals_in",
    "schemas_memory",
]

#: A bound beyond any memory and any acceptable time.
_MOST, _MOST_REPEATS, _MOST_BLANKS = 2**48, 2**31, 2**32 - 1
#: The memory of a program in the library besides its bytes and names.
_BYTES_OF_A_PROGRAM = 88
#: End a text, and why something is refused: no UTF-8 has these bytes.
_END, _END_OF_REFUSAL = b"\xff", b"\xfe"
#: In the order of the library.
_WHITESPACE = "flexible", "compact", "one_line"
#: The names of the rules of any value, which come last.
_ANY_RULES = "any value", "any object", "any entries", "any array", "any items"


@cache
def _library() -> tuple[ctypes.CDLL, MakingCalls]:
    library = load()
    return library, making_calls(library)


class Blanks(NamedTuple):
    """Whitespace that has no name.

    Attributes:
        comma: the exact text between two entries, if there is one.
        colon: the exact text between a name and its value, if there is one.
        spaces: the most spaces in a gap on one line.
        indent: the most spaces after a newline.
        lines: whether a gap may be a newline.
    """

    comma: str | None
    colon: str | None
    spaces: int
    indent: int
    lines: bool


class _Blanks(ctypes.Structure):
    """`Blanks` in the library."""

    _fields_ = (
        ("comma", ctypes.c_char_p),
        ("comma_length", ctypes.c_size_t),
        ("colon", ctypes.c_char_p),
        ("colon_length", ctypes.c_size_t),
        ("spaces", ctypes.c_uint32),
        ("indent", ctypes.c_uint32),
        ("lines", ctypes.c_uint32),
    )


def _passed_on(blanks: Blanks) -> _Blanks:
    exact: list[Any] = []
    for text in (blanks.comma, blanks.colon):
        exact += [None, 0] if text is None else [text.encode(), len(text)]
    counts = (min(count, _MOST_BLANKS) for count in (blanks.spaces, blanks.indent))
    return _Blanks(*exact, *counts, blanks.lines)


class CommonTerminals(Handle):
    """The rules and terminals that schemas with the same options share.

    Args:
        is_canonical: whether texts have only their canonical spelling.
        whitespace: its name, or its value.
        in_any_order: whether the members of objects may come in any order.
        enforces_formats: whether the formats that JSON Schema defines are constraints.
        escaped: characters that listed texts must escape.
        markers: texts that must not occur.

    Raises:
        EngineUnavailable: the library is not there.
    """

    __slots__ = ()

    def __init__(
        self,
        is_canonical: bool,
        whitespace: str | Blanks,
        in_any_order: bool,
        enforces_formats: bool,
        escaped: str = "",
        markers: Sequence[str] = (),
    ) -> None:
        library = load()
        flags = is_canonical + 2 * in_any_order + 4 * enforces_formats
        texts = b"".join(text.encode() + b"\0" for text in (escaped, *markers))
        if isinstance(whitespace, str):
            kind, blanks = _WHITESPACE.index(whitespace), None
        else:
            kind, blanks = len(_WHITESPACE), ctypes.byref(_passed_on(whitespace))
        options = flags, kind, texts, len(texts), blanks
        super().__init__(library.fcn_schema_common_free, None, library.fcn_schema_common_new, *options)


class NativeJson(Handle):
    """An object or a boolean in JSON, read by the library. Immutable, shared between threads.

    Args:
        source: its text, or what `marshal` writes of it in version 3.
        is_data: whether it is the latter.

    Attributes:
        content: the value as JSON text, equal for equal values with keys in the same order; None if a number in it has
            several spellings.
        key: the content together with the documents that it may refer to.
    """

    __slots__ = ("content", "key")

    def __init__(self, source: bytes, *, is_data: bool) -> None:
        self.pointer, self._owner, content, is_exact = _library()[1].read_json(source, is_data)
        if self.pointer < 0:
            fail(self.pointer, None)
        self.content = content if is_exact else None
        self.key: Hashable = self.content

    def refer(self, documents: Mapping[str, NativeJson]) -> None:
        """Let a schema refer to other schemas by URI; call this before the schema is shared."""
        for uri, document in documents.items():
            name = uri.encode()
            check(load().fcn_json_refer(self.pointer, name, len(name), document.pointer))
        keys = tuple((uri, document.key) for uri, document in documents.items())
        are_known = self.key is not None and all(key is not None for _, key in keys)
        self.key = (self.content, keys) if are_known else None


def native_json(source: Any) -> NativeJson | None:
    """Read an object or a boolean in JSON, from its text or as data; return None if only Python can read it.

    Python reads everything else: keys that occur twice, floats and halves of surrogate pairs in data, very deep
    nesting, data that contains itself. The result is also None without the library.
    """
    try:
        if isinstance(source, str):
            found = NativeJson(source.encode(), is_data=False)
        else:
            # Before version 3, data that contains itself twice takes for ever.
            found = NativeJson(marshal.dumps(source, 3), is_data=True)
    except (EngineUnavailable, ValueError):  # what cannot be encoded, or is of a type that only Python has
        return None
    return found if found.pointer else None


def schemas_memory() -> dict[str, int]:
    """Count the bytes that the library has of schemas in this process, and of what patterns consist of."""
    found = (ctypes.c_size_t * 2)()
    check(load().fcn_schemas_memory(found))
    return dict(zip(("schemas", "patterns"), found, strict=True))


def _names_in(text: bytes) -> list[str]:
    """Return the names of rules, followed by those of the rules for any value."""
    return [*(name.decode() for name in text.split(_END)[:-1]), *_ANY_RULES]


class NativeProgram(Program):
    """A program without captures that the library keeps; its bytes are copied on request.

    Args:
        pointer: its handle.
        owner: what frees it.
        nodes: how many nodes there are.
        dropped: see below.

    Attributes:
        dropped: the keywords that are not enforced.
    """

    def __init__(self, pointer: int, owner: object, nodes: int, dropped: tuple[Refused, ...] = ()) -> None:
        self.pointer = pointer
        self._owner = owner
        self.nodes = nodes
        self.dropped = dropped

    @property
    def data(self) -> bytes:
        """The bytes, copied."""
        return program_bytes(load(), self.pointer)

    def memory(self) -> int:
        """See `Program`."""
        library, program, names = load(), LibraryBytes(), LibraryBytes()
        check(library.fcn_program_bytes(self.pointer, ctypes.byref(program)))
        check(library.fcn_program_names(self.pointer, ctypes.byref(names)))
        return int(_BYTES_OF_A_PROGRAM + program.length + names.length)

    def titles(self) -> list[str] | None:
        """See `Program`."""
        library, found = load(), LibraryBytes()
        check(library.fcn_program_names(self.pointer, ctypes.byref(found)))
        return _names_in(found.copied())


class Refused(NamedTuple):
    """The reason why the library refuses a schema or drops a keyword.

    Attributes:
        kind: "Invalid", "Droppable" or "Unsupported" (of a keyword that can be dropped, or cannot), "Unsatisfiable" or
            "Limit".
        why: a code for the sentence.
        pointer: a pointer into the schema's resource; None if a limit is not a schema's.
        keyword: empty if it is not one keyword.
        parts: what the sentence names.
        dropped: the keywords that had been dropped before.
    """

    kind: str
    why: str
    pointer: str | None
    keyword: str
    parts: tuple[str, ...]
    dropped: tuple[Refused, ...] = ()


def refusals_in(data: bytes) -> tuple[Refused, ...]:
    """Read what the library writes of refusals."""
    found = []
    for each in data.split(_END_OF_REFUSAL)[:-1]:
        kind, why, at, pointer, keyword, *parts = (text.decode() for text in each.split(_END)[:-1])
        found.append(Refused(kind, why, pointer if at else None, keyword, tuple(parts)))
    return tuple(found)


def begun(
    json: NativeJson, common: CommonTerminals, limits: Limits, *, alone: bool, lenient: bool = False
) -> NativeProgram | NativeSchema | Refused:
    """Lower a schema.

    Args:
        json: its text.
        common: for its options.
        limits: for the number of nodes, the work, repeats and nesting.
        alone: whether it is a whole grammar.
        lenient: whether keywords that cannot be enforced are dropped.

    Returns:
        its program if it is alone, else its rules, or why it is refused.
    """
    bounds = bounds_of_schema(limits)
    handle, owner, count = _library()[1].new_schema(common.pointer, json.pointer, *bounds, lenient, alone)
    check(handle)
    if count < 0:
        refused = refusals_in(program_bytes(load(), handle))[0]
        return Refused(*refused[:-1], _dropped("fcn_program_dropped", handle)) if lenient else refused
    if alone:
        dropped = _dropped("fcn_program_dropped", handle) if lenient else ()
        return NativeProgram(handle, owner, count, dropped)
    dropped = _dropped("fcn_schema_dropped", handle) if lenient else ()
    return NativeSchema(handle, owner, len(json.content or b""), dropped)


@lru_cache(maxsize=16)
def bounds_of_schema(limits: Limits) -> tuple[int, int, int, int]:
    """Cut the limits to numbers that the library takes."""
    repeat, depth = min(limits.repeat, _MOST_REPEATS), min(limits.depth, _MOST_REPEATS)
    return min(limits.nodes, _MOST), min(limits.work, _MOST), repeat, depth


def _dropped(call: str, handle: int) -> tuple[Refused, ...]:
    library, found = load(), LibraryBytes()
    check(getattr(library, call)(handle, ctypes.byref(found)))
    return refusals_in(found.copied()) if found.length else ()


class NativeSchema(Handle):
    """The rules of a schema. One thread's at a time.

    Args:
        pointer: the handle of the schema.
        owner: what frees it.
        size: see below.
        dropped: see below.

    Attributes:
        size: how many bytes its text has.
        dropped: the keywords that are not enforced.
    """

    __slots__ = ("dropped", "size")

    def __init__(self, pointer: int, owner: object, size: int, dropped: tuple[Refused, ...] = ()) -> None:
        self.pointer = pointer
        self._owner = owner
        self.size = size
        self.dropped = dropped

    def count(self) -> int:
        """Count the rules."""
        return check(load().fcn_schema_count(self.pointer))

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        """Write the rules.

        Returns:
            their program, and how many nodes it has; the programs of the terminals that no earlier rule uses, and
            how many these are.

        Args:
            first: the number of the first rule.
            written: the programs of the terminals of earlier rules, by number.
        """
        found, new = SchemaFound(), LibraryBytes()
        check(load().fcn_schema_write(self.pointer, first, written, len(written), ctypes.byref(found)))
        count = check(load().fcn_schema_new_terminals(self.pointer, ctypes.byref(new)))
        return found.program.copied(), found.nodes, new.copied(), count

    def names(self) -> list[str]:
        """List the names of the rules."""
        found = LibraryBytes()
        check(load().fcn_schema_names(self.pointer, ctypes.byref(found)))
        return _names_in(found.copied())
