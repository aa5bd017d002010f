"""JSON Schemas that the native library lowers by itself, without the GIL: those that need no algebra."""

from __future__ import annotations

import ctypes
import marshal
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from formatter_core.engine.native_calls import (
    NOT_PLAIN,
    WRITTEN,
    LibraryBytes,
    MakingCalls,
    SchemaFound,
    making_calls,
    program_bytes,
)
from formatter_core.engine.native_library import Handle, check, fail, load
from formatter_core.errors import EngineUnavailable
from formatter_core.grammar import Program
from formatter_core.limits import Limits

__all__ = ["CommonTerminals", "Markers", "NativeJson", "NativeProgram", "NativeSchema", "begun", "native_json"]

#: More than memory can hold.
_MOST_NODES = 2**48
#: Ends a JSON Pointer, in which names may have any character: no UTF-8 has this byte.
_POINTER_END = b"\xff"
#: In the titles of rules: between two pointers, and before what the rule is of these.
_AND, _PART = b"\xfd", b"\xfe"
#: The names of the rules of any value, which come last.
_ANY_RULES = "any value", "any object", "any entries", "any array", "any items"


@cache
def _library() -> tuple[ctypes.CDLL, MakingCalls]:
    library = load()
    return library, making_calls(library)


class Markers(NamedTuple):
    """What must not occur in a text: the characters that it begins with, which `escaped` may be escaped, `others` not.

    `given` are the programs of the escapes, and of what a terminal that may hold a marker must match, too; see
    `write_kept`.
    """

    escaped: str
    others: str
    given: bytes


class CommonTerminals(Handle):
    """What stands inside terminals that are there before any schema, for one draft; see `write_inside`.

    Args:
        draft: that of the schemas.
        is_canonical: whether texts have their canonical spelling alone.
        levels: for how many depths there is punctuation of its own.
        in_any_order: whether the members of objects may come in any order.
        fixed: of the tokens, the colon, the body of any string, any character of one, all numbers, all whole ones, and
            the punctuation of each depth.
        formats: of the texts that have formats, by name, with one of these texts; None where that is not given. Other
            formats are annotations.
        scalars: of scalars, by the texts of their schemas.
        markers: what occurs in none of these, nor in what the library makes with them; None for nothing.

    Raises:
        EngineUnavailable: the library is not there.
    """

    __slots__ = ()

    def __init__(
        self,
        draft: int,
        is_canonical: bool,
        levels: int,
        in_any_order: bool,
        fixed: bytes,
        formats: Mapping[str, tuple[bytes, str] | None],
        scalars: Mapping[bytes, bytes],
        markers: Markers | None = None,
    ) -> None:
        library = load()
        given = fixed + b"".join(each[0] for each in formats.values() if each) + b"".join(scalars.values())
        firsts = b""
        if markers is not None:
            given += markers.given
            firsts = f"{markers.escaped}\0{markers.others}".encode()
        texts = b"".join(text + b"\0" for text in scalars)
        names = "".join(f"{name} {each[1]}\0" if each else f"{name}\0" for name, each in formats.items()).encode()
        sizes = (draft, is_canonical, levels, in_any_order, given, len(given), texts, len(texts), names, len(names))
        made = library.fcn_schema_common_new
        super().__init__(library.fcn_schema_common_free, None, made, *sizes, firsts, len(firsts))


class NativeJson(Handle):
    """An object in JSON, read by the library. Immutable, shared between threads.

    Args:
        source: its text, or what `marshal` writes of it in version 3.
        is_data: whether it is the latter.

    Attributes:
        content: the object as JSON text, the same for the same values with keys in the same order; None if a number in
            it could be spelt differently.
        dialect: the value of `$schema` as JSON; empty if there is none.
    """

    __slots__ = ("content", "dialect")

    def __init__(self, source: bytes, *, is_data: bool) -> None:
        self.pointer, self._owner, content, is_exact, self.dialect = _library()[1].read_json(source, is_data)
        if self.pointer < 0:
            fail(self.pointer, None)
        self.content = content if is_exact else None


def native_json(source: Any) -> NativeJson | None:
    """An object in JSON, from its text or as data; None for anything else, and where only Python can tell: keys that
    occur twice, halves of surrogate pairs, floats in data, deep nesting, data that contains itself, or without the
    library.
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


def _titles_in(text: bytes) -> list[str]:
    """The names of rules: the pointers of the schemas that they stand for, each name once; then those of any value."""
    found: dict[str, None] = {}
    for rule in text.split(_POINTER_END)[:-1]:
        pointers, _, part = rule.partition(_PART)
        wanted = " and ".join("#" + pointer.decode() for pointer in pointers.split(_AND)) + part.decode()
        name, count = wanted, 1
        while name in found:
            count += 1
            name = f"{wanted} ({count})"
        found[name] = None
    return [*found, *_ANY_RULES]


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
        check(library.fcn_program_titles(self.pointer, ctypes.byref(found)))
        return _titles_in(found.copied())


def begun(
    json: NativeJson, common: CommonTerminals, limits: Limits, *, alone: bool
) -> NativeProgram | NativeSchema | None:
    """Do all that needs no others for a schema.

    Args:
        json: its text.
        common: for the draft of the whole text.
        limits: for the number of nodes.
        alone: whether it is a whole grammar.

    Returns:
        the program, if the schema is plain and alone; else what is there of it; None if only
        others can tell what it allows.
    """
    most = min(limits.nodes, _MOST_NODES)
    handle, owner, progress, nodes = _library()[1].new_schema(common.pointer, json.pointer, most, alone)
    if not check(handle):
        return None
    if progress == WRITTEN:
        return NativeProgram(handle, owner, nodes)
    return NativeSchema(handle, owner, len(json.content or b""), is_plain=progress != NOT_PLAIN)


class NativeSchema(Handle):
    """The schemas in one text that need no algebra, on their way to rules of a program. One thread's at a time.

    Args:
        pointer: the handle of the schema.
        owner: what frees it.
        size: see below.
        is_plain: see below.

    Attributes:
        size: how many bytes its text has.
        is_plain: whether no part of the schema needs the algebra; None if only others can tell what it allows.
    """

    __slots__ = ("is_plain", "size")

    def __init__(self, pointer: int, owner: object, size: int, *, is_plain: bool) -> None:
        self.pointer = pointer
        self._owner = owner
        self.size = size
        self.is_plain = is_plain

    def goal(self, *pointers: str) -> int | None:
        """The number of the goal to satisfy the schemas at one pointer or two; None if that needs the algebra."""
        data = b"".join(pointer.encode() + _POINTER_END for pointer in pointers)
        number = check(load().fcn_schema_goal(self.pointer, data, len(data)))
        return number - 1 if number else None

    def holes(self) -> list[str]:
        """The JSON Pointers of the schemas that goals lead to, but that need the algebra, by the numbers of holes."""
        pointers = self._bytes_of(load().fcn_schema_holes).split(_POINTER_END)
        return [pointer.decode() for pointer in pointers[:-1]]

    def lower(self, wants_any: bool, limits: Limits) -> tuple[int, int]:
        """Make the rules of all goals, by their numbers, then those that these need, but for holes.

        Returns:
            how many there are, or 0 if that takes too much; and the number of the rule of any value, which is there if
            it is used or wanted.
        """
        any_rule, nodes = ctypes.c_uint32(), min(limits.nodes, _MOST_NODES)
        count = load().fcn_schema_lower(self.pointer, wants_any, nodes, ctypes.byref(any_rule))
        return check(count), any_rule.value

    def all_derive(self, holes: bytes, goals: int) -> tuple[bool, bytes]:
        """Whether every rule derives something, given for each hole whether it does; if not, which goals do."""
        found = array("B", bytes(goals))
        answer = load().fcn_schema_all_derive(self.pointer, holes, len(holes), found.buffer_info()[0], goals)
        return bool(check(answer)), found.tobytes()

    def depths(self, goals: bytes, holes: int) -> bytes:
        """The depths that holes stand at, given those of goals; both plus one, or 0 for what stands nowhere."""
        found = array("B", bytes(holes))
        check(load().fcn_schema_depths(self.pointer, goals, len(goals), found.buffer_info()[0], holes))
        return found.tobytes()

    def wanted(self) -> list[bytes]:
        """Schemas of scalars, as texts, whose terminals the rules need and nobody has given."""
        return self._bytes_of(load().fcn_schema_wanted).split(b"\0")[:-1]

    def count(self) -> int:
        """Count the rules."""
        return check(load().fcn_schema_count(self.pointer))

    def write(self, first: int, holes: Sequence[int], given: bytes, written: bytes) -> tuple[bytes, int, bytes, int]:
        """Write the rules.

        Returns:
            their program, and how many nodes it has; the programs of the terminals that stand in no earlier rule, and
            how many these are.

        Args:
            first: the number of the first rule.
            holes: those of the rules of holes.
            given: what stands inside the terminals that are wanted, see `write_inside`.
            written: the programs of the terminals that stand in earlier rules, by number.
        """
        rules, found = array("I", holes), SchemaFound()
        wanted = (first, rules.buffer_info()[0], len(rules), given, len(given), written, len(written))
        check(load().fcn_schema_write(self.pointer, *wanted, ctypes.byref(found)))
        new = LibraryBytes()
        count = check(load().fcn_schema_new_terminals(self.pointer, ctypes.byref(new)))
        return found.program.copied(), found.nodes, new.copied(), count

    def titles(self) -> list[str]:
        """The names of the rules."""
        library, found = load(), LibraryBytes()
        titles = Handle(library.fcn_titles_free, None, library.fcn_schema_titles, self.pointer)
        check(library.fcn_titles_text(titles.pointer, ctypes.byref(found)))
        return _titles_in(found.copied())

    def _bytes_of(self, find: Callable[..., int]) -> bytes:
        found = LibraryBytes()
        check(find(self.pointer, ctypes.byref(found)))
        return found.copied()
