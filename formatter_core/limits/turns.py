"""Lets other threads run while one computes for long."""

from __future__ import annotations

from threading import active_count
from time import perf_counter, sleep

__all__ = ["Turns"]

#: A little less than Python's own interval: a shorter turn would leave less than half of the time beside a busy thread.
_TURN = 4e-3
#: Long enough for a thread that waits to take over.
_MOMENT = 5e-5


class Turns:
    """The turns of one thread, in seconds: after each, others come first.

    Python hands over by itself after `sys.getswitchinterval()`, 5 ms by default, but that time begins anew whenever the
    thread has let go for a moment, as each call into a library does: others could wait for tens of milliseconds.
    """

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + _TURN

    def give_way(self) -> None:
        """End the turn if it has been long enough."""
        if perf_counter() < self._end:
            return
        if active_count() > 1:
            sleep(_MOMENT)
        self._end = perf_counter() + _TURN
