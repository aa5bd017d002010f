"""Counts the texts that a regular node matches, and tells whether there are any, by the native library."""

from __future__ import annotations

import ctypes

from formatter_core.engine.native_library import bounds_of, check, load
from formatter_core.errors import LimitExceeded
from formatter_core.grammar import Node, Terminal
from formatter_core.grammar.program import write
from formatter_core.limits import Limits

__all__ = ["count_texts", "decide_empty"]


def decide_empty(node: Node, limits: Limits) -> tuple[bool, int]:
    """Whether a regular node is known to match nothing, and how many elementary steps it took to find out.

    It is not known if `limits` do not suffice.
    """
    steps = ctypes.c_uint64()
    try:
        return _count(node, limits, 1, steps) == 0, steps.value
    except LimitExceeded:
        return False, steps.value


def count_texts(node: Node, limits: Limits, most: int) -> tuple[int, int]:
    """How many texts a regular node matches, at most `most`, and how many elementary steps it took to find out.

    Raises:
        LimitExceeded: `limits` do not suffice.
    """
    steps = ctypes.c_uint64()
    return _count(node, limits, most, steps), steps.value


def _count(node: Node, limits: Limits, most: int, steps: ctypes.c_uint64) -> int:
    library = load()
    program = write({"": Terminal(node)}, "", limits).data
    return check(library.fcn_regular_count(program, len(program), bounds_of(limits), most, ctypes.byref(steps)), limits)
