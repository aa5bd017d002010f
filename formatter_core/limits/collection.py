"""Pauses Python's cyclic garbage collector while many long-lived objects are made."""

from __future__ import annotations

import gc
import os
from threading import get_ident

__all__ = ["collect_new", "paused_collection"]

#: The mark of the pause that is under way, under the key None: a list of the thread's identifier.
_pause: dict[None, list[int]] = {}


class paused_collection:  # noqa: N801 - it is used as a function is
    """Pause the garbage collector; garbage made meanwhile is collected afterwards.

    In a process with many objects one full collection takes longer than compiling most formats. Only one thread pauses
    at a time, and nothing is paused where the collector is off anyway, so that it is never off for long.
    """

    _mark: list[int] = []  # noqa: RUF012 - no pause has this one

    def __enter__(self) -> None:
        self._mark = mark = [get_ident()]
        if gc.isenabled() and _pause.setdefault(None, mark) is mark:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if _pause.get(None) is self._mark:
            try:
                gc.enable()
            finally:
                _pause.clear()

    def __del__(self) -> None:
        """End a pause that did not end because a signal's handler raised an exception in one of the other methods."""
        self.__exit__()


def collect_new() -> None:
    """Collect what is new where this thread has paused the collector: all of it at once, later, would take long."""
    if _pause.get(None) == [get_ident()]:
        gc.collect(0)


def _end_pause_of_others() -> None:
    """Resume garbage collection in a forked child if another thread paused it: only the forking thread survives."""
    if _pause and _pause[None] != [get_ident()]:
        gc.enable()
        _pause.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_end_pause_of_others)
