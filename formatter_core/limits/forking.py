"""Locks around a fork of the process.

In the child only the thread that forked continues; no other thread releases its locks. So locks that are held only
briefly are taken around every fork, which leaves their data consistent in the child. Other locks are replaced in the
child. (The native library waits by itself until no thread is inside it.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["TABLES", "hold_during_fork", "renew_in_child"]

#: The functions that replace an object's locks, by object, while it lives.
_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def hold_during_fork(lock: Lock | RLock) -> None:
    """Take a module's lock around every fork. A thread that holds the lock must not wait for another lock."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def renew_in_child(method: Callable[[], None]) -> None:
    """Call a method that replaces an object's locks in every forked child, while the object lives."""
    _renewals[method.__self__] = method.__func__  # type: ignore[attr-defined]  # a bound method


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

#: The lock of all tables that Python code fills on demand. One lock is enough: one thread at a time runs Python code
#: anyway, and a fork waits for one lock only.
TABLES = RLock()
hold_during_fork(TABLES)
