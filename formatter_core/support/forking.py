"""What a fork of the process needs: in the child only the thread that forked goes on, and no other lets go of locks.

Locks that are held for moments are taken around every fork, so that what they guard is whole in the child. Others are
made anew in the child. (The native library waits by itself until no thread is inside of it.)
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from threading import Lock, RLock

__all__ = ["TABLES", "hold_during_fork", "renew_in_child"]

_renewals: dict[int, weakref.WeakMethod[Callable[[], None]]] = {}


def hold_during_fork(lock: Lock | RLock) -> None:
    """Take a lock of a module around every fork. Whoever holds it must not wait for another one."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def renew_in_child(method: Callable[[], None]) -> None:
    """Call a method of an object, which makes its locks anew, in every forked child, as long as the object lives."""
    number = id(method.__self__)  # type: ignore[attr-defined]  # a bound method
    _renewals[number] = weakref.WeakMethod(method, lambda _: _renewals.pop(number, None))


def _renew() -> None:
    for reference in list(_renewals.values()):
        method = reference()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

#: The lock of all tables that Python code fills as far as they are used. One for all of them: one thread at a time runs
#: Python code anyway, and a fork has to wait for one lock only.
TABLES = RLock()
hold_during_fork(TABLES)
