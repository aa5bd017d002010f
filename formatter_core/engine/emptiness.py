"""Whether a regular node matches anything: by the native library where it is built."""

from __future__ import annotations

import ctypes

from formatter_core.engine.native_library import bounds_of, check, load
from formatter_core.errors import EngineUnavailable, LimitExceeded
from formatter_core.grammar import Grammar, Node, Terminal, automaton
from formatter_core.limits import Limits

__all__ = ["decide_empty"]


def decide_empty(node: Node, limits: Limits) -> tuple[bool, int]:
    """Whether a regular node is known to match nothing, and how many elementary steps it took to find out.

    It is not known if `limits` do not suffice.
    """
    try:
        library = load()
    except EngineUnavailable:
        return automaton.decide_empty(node, limits)
    try:
        program = Grammar({"": Terminal(node)}, "").check(limits).data
    except LimitExceeded:
        return False, 0
    bounds = bounds_of(limits)
    steps = ctypes.c_uint64()
    answer = check(library.fcn_regular_is_empty(program, len(program), bounds, ctypes.byref(steps)), limits)
    return bool(answer), steps.value
