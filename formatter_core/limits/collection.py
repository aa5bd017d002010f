"""Pauses Python's cyclic garbage collector while many long-lived objects are made."""

from __future__ import annotations

import gc
import os
from threading import Lock, get_ident

__all__ = ["collect_new", "paused_collection"]

_pausing = Lock()
_paused_by = 0  # a thread, where `_pausing` is locked


class paused_collection:  # noqa: N801 - it is used as a function is
    """Pause the garbage collector; garbage made meanwhile is collected afterwards.

    In a process with many objects one full collection takes longer than compiling most formats. Only one thread pauses
    at a time, and nothing is paused where the collector is off anyway, so that it is never off for long.
    """

    __slots__ = ("_pauses",)

    def __enter__(self) -> None:
        global _paused_by
        self._pauses = gc.isenabled() and _pausing.acquire(blocking=False)
        if self._pauses:
            _paused_by = get_ident()
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._pauses:
            gc.enable()
            _pausing.release()


def collect_new() -> None:
    """Collect what is new where this thread has paused the collector: all of it at once, later, would take long."""
    if _pausing.locked() and _paused_by == get_ident():
        gc.collect(0)


def _end_pause_of_others() -> None:
    """Resume garbage collection in a forked child if another thread paused it: only the forking thread survives."""
    if _pausing.locked() and _paused_by != get_ident():
        gc.enable()
        _pausing.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_end_pause_of_others)
