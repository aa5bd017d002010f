"""A pause of Python's cyclic garbage collector while very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["paused_collection"]

_pausing = Lock()


@contextmanager
def paused_collection() -> Iterator[None]:
    """Make objects without looking for garbage among them again and again; what becomes garbage is found afterwards.

    In a process with many objects one full collection takes longer than compiling most formats. Only one thread pauses
    at a time, and nothing is paused where the collector is off anyway, so that it is never off for long.
    """
    if not gc.isenabled() or not _pausing.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pausing.release()
