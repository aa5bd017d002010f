"""Threads for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[int], T], count: int = 6) -> list[T]:
    """Return `work(number)` of each of `count` threads, which begin together; raise an error if one raises it."""
    start = threading.Barrier(count)

    def begin(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
