"""JSON Schemas that the native library lowers by itself, without the GIL: those that need no algebra."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence

from formatter_core.engine.native_library import Handle, check, load
from formatter_core.errors import EngineUnavailable
from formatter_core.limits import Limits

__all__ = ["NativeSchema"]

_SIZE = ctypes.c_size_t


class NativeSchema(Handle):
    """The schemas in one text that need no algebra, on their way to rules of a program. One thread's at a time."""

    __slots__ = ("_library",)

    def __init__(self, text: bytes, draft: int) -> None:
        self._library = library = load()
        super().__init__(lambda made: library.fcn_schema_new(text, len(text), draft, made), library.fcn_schema_free)

    @staticmethod
    def read(text: bytes, draft: int) -> NativeSchema | None:
        """Read a schema's text, which is JSON in UTF-8; None if the library cannot."""
        try:
            made = NativeSchema(text, draft)
        except EngineUnavailable:
            return None
        return made if made.pointer else None

    def goal(self, pointer: str) -> int | None:
        """The number of the goal to satisfy the schema at a pointer; None if that needs the algebra."""
        data = pointer.encode()
        number = check(self._library.fcn_schema_goal(self.pointer, data, len(data)))
        return number - 1 if number else None

    def holes(self) -> list[str]:
        """The JSON Pointers of the schemas that goals lead to, but that need the algebra, by the numbers of holes."""
        length = _SIZE()
        check(self._library.fcn_schema_find_holes(self.pointer, ctypes.byref(length)))
        return self._copied(self._library.fcn_schema_holes, length.value).decode().split("\0")[:-1]

    def lower(self, wants_any: bool, limits: Limits) -> tuple[int, int]:
        """Make the rules of all goals, by their numbers, then those that these need, but for holes.

        Returns:
            how many there are, or 0 if that takes too much; and the number of the rule of any value, which is there if
            it is used or wanted.
        """
        any_rule = ctypes.c_uint32()
        count = self._library.fcn_schema_lower(self.pointer, wants_any, limits.nodes, ctypes.byref(any_rule))
        return check(count), any_rule.value

    def all_derive(self, holes: bytes, goals: int) -> tuple[bool, bytes]:
        """Whether every rule derives something, given for each hole whether it does; if not, which goals do."""
        found = array("B", bytes(goals))
        answer = self._library.fcn_schema_all_derive(self.pointer, holes, len(holes), found.buffer_info()[0], goals)
        return bool(check(answer)), found.tobytes()

    def wanted(self) -> list[bytes]:
        """Schemas of scalars, as texts, whose terminals the rules need."""
        length = _SIZE()
        check(self._library.fcn_schema_find_wanted(self.pointer, ctypes.byref(length)))
        return self._copied(self._library.fcn_schema_wanted, length.value).split(b"\0")[:-1]

    def write(self, first: int, holes: Sequence[int], given: bytes, written: bytes) -> tuple[bytes, int]:
        """The program of the rules, and the number of their nodes.

        Args:
            first: the number of the first rule.
            holes: those of the rules of holes.
            given: what stands inside the terminals that come from outside, see `write_inside`: of the tokens, the
                colon, the body of any string, any character of one, and what is wanted.
            written: the programs of the terminals that stand in earlier rules, by number.
        """
        length, nodes = _SIZE(), ctypes.c_uint64()
        rules = array("I", holes)
        wanted = (first, rules.buffer_info()[0], len(rules), given, len(given), written, len(written))
        found = (ctypes.byref(length), ctypes.byref(nodes))
        check(self._library.fcn_schema_write(self.pointer, *wanted, *found))
        return self._copied(self._library.fcn_schema_program, length.value), nodes.value

    def _copied(self, copy: Callable[[int, int], int], length: int) -> bytes:
        data = array("B", bytes(length))
        check(copy(self.pointer, data.buffer_info()[0]))
        return data.tobytes()
