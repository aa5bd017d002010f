"""JSON Schemas that the native library lowers, without the GIL."""

from __future__ import annotations

import ctypes
import marshal
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
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
    "native_json",
]

#: More than memory can hold, and than anybody waits for.
_MOST, _MOST_REPEATS, _MOST_BLANKS = 2**48, 2**31, 2**32 - 1
#: Ends a text: no UTF-8 has this byte.
_END = b"\xff"
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
    """What schemas with the same options share.

    Args:
        is_canonical: whether texts have their canonical spelling alone.
        whitespace: its name, or what it is.
        in_any_order: whether the members of objects may come in any order.
        enforces_formats: whether the formats that JSON Schema defines are constraints.
        escaped: characters that listed texts have escaped, and not as they are.
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
    """An object in JSON, read by the library. Immutable, shared between threads.

    Args:
        source: its text, or what `marshal` writes of it in version 3.
        is_data: whether it is the latter.

    Attributes:
        content: the object as JSON text, the same for the same values with keys in the same order; None if a number in
            it could be spelt differently.
        key: the same with the documents that it may refer to.
    """

    __slots__ = ("content", "key")

    def __init__(self, source: bytes, *, is_data: bool) -> None:
        self.pointer, self._owner, content, is_exact = _library()[1].read_json(source, is_data)
        if self.pointer < 0:
            fail(self.pointer, None)
        self.content = content if is_exact else None
        self.key: Hashable = self.content

    def refer(self, documents: Mapping[str, NativeJson]) -> None:
        """Let a schema refer to others by their URIs, before anybody else has it."""
        for uri, document in documents.items():
            name = uri.encode()
            check(load().fcn_json_refer(self.pointer, name, len(name), document.pointer))
        keys = tuple((uri, document.key) for uri, document in documents.items())
        are_known = self.key is not None and all(key is not None for _, key in keys)
        self.key = (self.content, keys) if are_known else None


def native_json(source: Any, registry: Mapping[str, Any] | None = None) -> NativeJson | None:
    """An object in JSON, from its text or as data; None for anything else, and where only Python can tell: keys that
    occur twice, halves of surrogate pairs, floats in data, deep nesting, data that contains itself, or without the
    library. `registry` has the texts of schemas that it may refer to, by their URIs; they must be objects, too.
    """
    try:
        if isinstance(source, str):
            found = NativeJson(source.encode(), is_data=False)
        else:
            # Before version 3, data that contains itself twice takes for ever.
            found = NativeJson(marshal.dumps(source, 3), is_data=True)
    except (EngineUnavailable, ValueError):  # what cannot be encoded, or is of a type that only Python has
        return None
    if not found.pointer:
        return None
    if registry:
        documents = {uri: each for uri, text in registry.items() if (each := native_json(text)) is not None}
        if len(documents) < len(registry):
            return None
        found.refer(documents)
    return found


def _names_in(text: bytes) -> list[str]:
    """The names of rules, then those of any value."""
    return [*(name.decode() for name in text.split(_END)[:-1]), *_ANY_RULES]


class NativeProgram(Program):
    """A program without captures that the library keeps; its bytes come out where somebody asks for them.

    Args:
        pointer: its handle.
        owner: what frees it.
        nodes: how many nodes there are.
    """

    def __init__(self, pointer: int, owner: object, nodes: int) -> None:
        self.pointer = pointer
        self._owner = owner
        self.nodes = nodes

    @property
    def data(self) -> bytes:
        """The bytes, copied."""
        return program_bytes(load(), self.pointer)

    def titles(self) -> list[str] | None:
        """See `Program`."""
        library, found = load(), LibraryBytes()
        check(library.fcn_program_names(self.pointer, ctypes.byref(found)))
        return _names_in(found.copied())


class Refused(NamedTuple):
    """Why the library refuses a schema.

    Attributes:
        kind: "Invalid", "Unsupported", "Unsatisfiable" or "Limit".
        why: a code for the sentence.
        pointer: the schema's, in whose resource it stands; empty for the root, and where a limit is not a schema's.
        keyword: empty if it is not one keyword.
        parts: what the sentence names.
    """

    kind: str
    why: str
    pointer: str
    keyword: str
    parts: tuple[str, ...]


def begun(
    json: NativeJson, common: CommonTerminals, limits: Limits, *, alone: bool
) -> NativeProgram | NativeSchema | Refused | None:
    """Lower a schema.

    Args:
        json: its text.
        common: for its options.
        limits: for the number of nodes and the work.
        alone: whether it is a whole grammar.

    Returns:
        its program if it is alone, else its rules, or why it is refused; None if only Python can tell.
    """
    bounds = min(limits.nodes, _MOST), min(limits.work, _MOST), min(limits.repeat, _MOST_REPEATS)
    handle, owner, count = _library()[1].new_schema(common.pointer, json.pointer, *bounds, alone)
    if not check(handle):
        return None
    if count < 0:
        kind, why, pointer, keyword, *parts = (text.decode() for text in program_bytes(load(), handle).split(_END)[:-1])
        return Refused(kind, why, pointer, keyword, tuple(parts))
    return NativeProgram(handle, owner, count) if alone else NativeSchema(handle, owner, len(json.content or b""))


class NativeSchema(Handle):
    """The rules of a schema. One thread's at a time.

    Args:
        pointer: the handle of the schema.
        owner: what frees it.
        size: see below.

    Attributes:
        size: how many bytes its text has.
    """

    __slots__ = ("size",)

    def __init__(self, pointer: int, owner: object, size: int) -> None:
        self.pointer = pointer
        self._owner = owner
        self.size = size

    def count(self) -> int:
        """Count the rules."""
        return check(load().fcn_schema_count(self.pointer))

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        """Write the rules.

        Returns:
            their program, and how many nodes it has; the programs of the terminals that stand in no earlier rule, and
            how many these are.

        Args:
            first: the number of the first rule.
            written: the programs of the terminals that stand in earlier rules, by number.
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
