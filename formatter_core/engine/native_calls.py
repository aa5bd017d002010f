"""The calls of every step, format and sequence: CPython calls them by itself, in a fraction of the time of ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref
from functools import cache
from typing import Any, NamedTuple

from formatter_core.engine.native_library import check, made, owner_of

__all__ = [
    "LibraryBytes", "MakingCalls", "SchemaFound", "StepCalls", "ctypes_calls", "ctypes_making_calls", "making_calls",
    "program_bytes", "step_calls",
]  # fmt: skip

#: The functions of Python that the library needs, all in the stable ABI, in the order of its struct `Python`.
_NEEDED = (
    "PyBytes_AsStringAndSize", "PyBytes_FromStringAndSize", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyTuple_New",
    "PyTuple_SetItem", "PyEval_SaveThread", "PyEval_RestoreThread", "PyCapsule_New", "PyCapsule_GetPointer",
    "PyErr_CheckSignals",
)  # fmt: skip


class StepCalls(NamedTuple):
    """Functions of the library that take the bytes of a target and, but for `fill`, a token id that is known to fit.

    They free the GIL, and answer as the library's `fcn_sequence_...` of the same name.
    """

    fill: Callable[[bytes], int]
    accept_token: Callable[[bytes, int], int]
    step: Callable[[bytes, int], int]
    advance: Callable[[bytes, int], int]
    step_kept: Callable[[bytes, int], int]


class MakingCalls(NamedTuple):
    """Functions that are called once for each format or sequence. They free the GIL.

    Each makes a handle as a number (a fault is negative), and an object that frees the handle when it is freed itself.

    Attributes:
        read_json: from the text, or data, and whether it is data, an object or a boolean; 0 for anything else. Then the
            text as the library writes it, and whether that is exact.
        new_schema: from the handles of common terminals and of JSON, the most nodes, steps, repeats and levels, whether
            keywords may be dropped, and whether it is a whole grammar, its program or else a schema. Then the number of
            the program's nodes, or -1 where the program says why the schema is refused.
        new_grammar: from the handle of a vocabulary, bytes, where in them a program begins and ends, and the limits as
            bytes, a grammar. Bytes that hold more than that must end with their checksum, as stored formats do.
        load_program: the same from the handles of a vocabulary and of a program, and the limits as bytes.
        new_sequence: from the handle of a grammar, a sequence.
    """

    read_json: Callable[[bytes, bool], tuple[int, object, bytes, int]]
    new_schema: Callable[[int, int, int, int, int, int, bool, bool], tuple[int, object, int]]
    new_grammar: Callable[[int, bytes, int, int, bytes], tuple[int, object]]
    load_program: Callable[[int, int, bytes], tuple[int, object]]
    new_sequence: Callable[[int], tuple[int, object]]


_STEPS, _MAKING = tuple(StepCalls.__annotations__), tuple(MakingCalls.__annotations__)


class LibraryBytes(ctypes.Structure):
    """Bytes that the library keeps."""

    _fields_ = (("data", ctypes.POINTER(ctypes.c_char)), ("length", ctypes.c_size_t))

    def copied(self) -> bytes:
        """Copy the library's bytes into a Python object."""
        # Not by ctypes.string_at: its audit event for each schema would drown the events that an auditor watches for.
        return self.data[: self.length]  # type: ignore[no-any-return]


class SchemaFound(ctypes.Structure):
    """`Found` in the library."""

    _fields_ = (("program", LibraryBytes), ("nodes", ctypes.c_uint64), ("is_refused", ctypes.c_uint32))


class _JsonRead(ctypes.Structure):
    """`Json` in the library."""

    _fields_ = (
        ("text", ctypes.c_char_p),
        ("is_exact", ctypes.c_uint32),
    )


class _Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def step_calls(library: ctypes.CDLL) -> StepCalls:
    """Return the fastest functions that this Python can call."""
    return StepCalls(*_python_calls(library)[: len(_STEPS)]) if _IS_CPYTHON else ctypes_calls(library)


@cache
def making_calls(library: ctypes.CDLL) -> MakingCalls:
    """Return the functions of the library that make objects."""
    return MakingCalls(*_python_calls(library)[len(_STEPS) :]) if _IS_CPYTHON else ctypes_making_calls(library)


_IS_CPYTHON = sys.implementation.name == "cpython"


@cache
def _python_calls(library: ctypes.CDLL) -> list[Any]:
    python = ctypes.pythonapi
    addresses = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value for name in _NEEDED]
    methods = library.fcn_python_methods((ctypes.c_void_p * len(addresses))(*addresses))
    create = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCFunction_NewEx", python))
    return [create(methods + place * ctypes.sizeof(_Method), None, None) for place in range(len(_STEPS + _MAKING))]


def ctypes_calls(library: ctypes.CDLL) -> StepCalls:
    """Return the step functions through ctypes, for any Python."""
    # Without prototypes, which take ctypes as long again as the call.
    functions = [library[f"fcn_sequence_{name}"] for name in _STEPS]
    functions[_STEPS.index("step_kept")].restype = ctypes.c_int64
    return StepCalls(*functions)


def ctypes_making_calls(library: ctypes.CDLL) -> MakingCalls:
    """Return the functions that make objects through ctypes."""

    def owned(free: str, answer: int) -> tuple[int, object]:
        return answer, owner_of(answer, getattr(library, free))

    def read_json(source: bytes, is_data: bool) -> tuple[int, object, bytes, int]:
        found = _JsonRead()
        handle, owner = owned("fcn_json_free", made(library.fcn_json_read, source, len(source), is_data, byref(found)))
        text: bytes = found.text or b""
        return handle, owner, text, found.is_exact

    def new_schema(common: int, tree: int, *options: int) -> tuple[int, object, int]:
        found, schema = SchemaFound(), ctypes.c_void_p()
        written = made(library.fcn_schema_new, common, tree, *options, byref(found), byref(schema))
        if written:
            return *owned("fcn_program_free", written), -1 if found.is_refused else found.nodes
        return *owned("fcn_schema_free", schema.value or 0), found.nodes

    def new_grammar(vocabulary: int, data: bytes, begin: int, end: int, limits: bytes) -> tuple[int, object]:
        grammar = made(library.fcn_grammar_new, vocabulary, data, len(data), begin, end, limits)
        return owned("fcn_grammar_free", grammar)

    def load_program(vocabulary: int, program: int, limits: bytes) -> tuple[int, object]:
        data = program_bytes(library, program)
        return new_grammar(vocabulary, data, 0, len(data), limits)

    def new_sequence(grammar: int) -> tuple[int, object]:
        return owned("fcn_sequence_free", made(library.fcn_sequence_new, grammar))

    return MakingCalls(read_json, new_schema, new_grammar, load_program, new_sequence)


def program_bytes(library: ctypes.CDLL, program: int) -> bytes:
    """Return the bytes of a program that the library keeps, by its handle."""
    found = LibraryBytes()
    check(library.fcn_program_bytes(program, byref(found)))
    return found.copied()
