"""The calls of every step: functions that CPython calls by itself, in a fraction of the time that ctypes takes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

__all__ = ["StepCalls", "ctypes_calls", "step_calls"]

#: What the library needs of Python, all of it in the stable ABI, in the order of its `Python`.
_NEEDED = "PyBytes_AsString", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread"


class StepCalls(NamedTuple):
    """Functions of the library that take the bytes of a target and, but for `fill`, a token id that is known to fit.

    They free the GIL, and answer as the library's `fcn_sequence_...` of the same name.
    """

    fill: Callable[[bytes], int]
    accept_token: Callable[[bytes, int], int]
    step: Callable[[bytes, int], int]
    advance: Callable[[bytes, int], int]
    step_kept: Callable[[bytes, int], int]


_NAMES = tuple(StepCalls.__annotations__)


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
    """The fastest functions that this Python can call."""
    return _python_calls(library) if sys.implementation.name == "cpython" else ctypes_calls(library)


def _python_calls(library: ctypes.CDLL) -> StepCalls:
    python = ctypes.pythonapi
    addresses = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value for name in _NEEDED]
    methods = library.fcn_python_methods((ctypes.c_void_p * len(addresses))(*addresses))
    create = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCFunction_NewEx", python))
    places = [methods + place * ctypes.sizeof(_Method) for place in range(len(_NAMES))]
    return StepCalls(*[create(place, None, None) for place in places])


def ctypes_calls(library: ctypes.CDLL) -> StepCalls:
    """The same functions for any Python."""
    # Without prototypes, which take ctypes as long again as the call.
    functions = [library[f"fcn_sequence_{name}"] for name in _NAMES]
    functions[_NAMES.index("step_kept")].restype = ctypes.c_int64
    return StepCalls(*functions)
