"""Threads that want the same object: who waits for a turn, and who is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from formatter_core.errors import ConcurrentUse
from formatter_core.limits.forking import renew_in_child

__all__ = ["Turns"]

#: How often, and for how many seconds each time, a thread that calls repeatedly yields to other threads.
_PATIENCE, _PAUSE = 50, 0.0002


class Turns:
    """A lock that allows one call at a time, from any thread.

    A plain lock would deadlock in a nested call, for example by a sampler; and a thread that releases it and takes it
    again at once, as a loop of steps does, would starve other threads.
    """

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self._renew)

    @property
    def is_mine(self) -> bool:
        """Tell whether this thread is inside a call."""
        # An interrupt may leave the owner of a finished call; then the lock is free.
        return self._owner == threading.get_ident() and self._lock.locked()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Make a call that waits until other threads are done.

        Raises:
            ConcurrentUse: the thread is inside another call.
        """
        me = threading.get_ident()
        if self.is_mine:
            raise ConcurrentUse(
                "this was called in the middle of a step, by a sampler, a logits processor or a signal handler; call "
                "it between two steps"
            )
        for _ in range(_PATIENCE):
            if self._latest != me or not self._waiting - {me}:
                break
            time.sleep(_PAUSE)
        try:
            self._waiting.add(me)
            with self._lock:
                self._waiting.discard(me)
                with self._owned(me):
                    yield
        finally:
            self._waiting.discard(me)

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Make a call that does not wait.

        Raises:
            ConcurrentUse: another call is going on.
        """
        if self._lock.locked():
            raise ConcurrentUse("another thread is using this; let one thread at a time use it")
        with self._lock, self._owned(threading.get_ident()):
            yield

    @contextmanager
    def _owned(self, me: int) -> Iterator[None]:
        try:
            self._owner = self._latest = me
            yield
        finally:
            self._owner = 0

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._owner = self._latest = 0  # the threads of this call and of the latest one
        self._waiting: set[int] = set()
