"""Locks around a fork of the process.

Locks that are held for moments are taken around every fork, so that what they guard is whole in the child. Others are
made anew in the child. (The native library waits by itself until no thread is inside it.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["TABLES", "hold_during_fork", "renew_in_child"]

#: The functions that make an object's locks anew, by the object, for as long as it lives.
_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def hold_during_fork(lock: Lock | RLock) -> None:
    """Take a lock of a module around every fork. Whoever holds it must not wait for another one."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def renew_in_child(method: Callable[[], None]) -> None:
    """Call a method of an object, which makes its locks anew, in every forked child, as long as the object lives."""
    _renewals[method.__self__] = method.__func__  # type: ignore[attr-defined]  # a bound method


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

#: The lock of all tables that Python code fills as far as they are used. One for all of them: one thread at a time runs
#: Python code anyway, and a fork has to wait for one lock only.
TABLES = RLock()
hold_during_fork(TABLES)
