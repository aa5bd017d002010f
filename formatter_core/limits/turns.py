"""Lets other threads run while one computes for long."""

from __future__ import annotations

from threading import active_count, local
from time import perf_counter, sleep, thread_time

from formatter_core.limits.collection import collect_new

__all__ = ["give_way"]

#: In seconds: others wait for some tenths of a millisecond more at most, and so for less than a whole one. A busy
#: Python thread beside this one takes Python's own interval each time, so that compiling is slow there; threads that
#: mostly wait, as those of servers do, lose nothing.
_TURN = 6e-4
#: Long enough for a thread that waits to take over.
_MOMENT = 5e-5


class _Turn(local):
    """A thread's own turn: the CPU time at which it began, and when it is to be looked at again."""

    begun = 0.0
    look = 0.0


_turn = _Turn()


def give_way() -> None:
    """Let other threads run if this one has computed for 0.6 ms since it last did; called in every long loop.

    Python switches threads after `sys.getswitchinterval()`, 5 ms by default, but the interval restarts whenever the
    thread releases the GIL for a moment, as each call into a library does: other threads could wait for tens of
    milliseconds.
    """
    now = perf_counter()
    if now < _turn.look:
        return
    used = thread_time() - _turn.begun
    if used < 0:  # in a forked child, the thread's clock starts from 0 again
        _turn.begun, used = 0.0, thread_time()
    if used < _TURN:  # part of the time was used by other threads
        _turn.look = now + _TURN - used
        return
    if active_count() > 1:
        collect_new()
        sleep(_MOMENT)
    _turn.begun = thread_time()
    _turn.look = perf_counter() + _TURN
