"""Counters of mask costs and request outcomes in this process; the server's process collects them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from time import perf_counter

__all__ = [
    "CACHED",
    "FAILURES",
    "MASK_SECONDS",
    "SHORTENED",
    "MaskTimer",
    "add",
    "figures",
    "totals",
]

#: Seconds that masks took.
MASK_SECONDS = "mask seconds"
#: Bytes of compiled formats that are kept now.
CACHED = "cached bytes"
#: Requests whose output a budget shortened.
SHORTENED = "shortened"
#: Before the name of the error that ended requests.
FAILURES = "failures "

_PROCESS = "process"
_counted: defaultdict[str, float] = defaultdict(float)


def add(name: str, amount: float = 1.0) -> None:
    """Add to a figure."""
    _counted[name] += amount


class MaskTimer:
    """A context manager that measures the time of its block; a class, because a generator would cost more than a short
    mask.
    """

    __slots__ = ("_begun",)

    def __enter__(self) -> None:
        self._begun = perf_counter()

    def __exit__(self, *_: object) -> None:
        add(MASK_SECONDS, perf_counter() - self._begun)


def figures(cached: int = 0) -> dict[str, float]:
    """Return all counters of this process, the sizes of its caches, and the id of the process."""
    return {**_counted, CACHED: cached, _PROCESS: os.getpid()}


def totals(workers: Iterable[dict[str, float]], scheduler: dict[str, float] | None) -> dict[str, float]:
    """Return the figures of one engine.

    Its workers do the same work in parallel, and may live in the scheduler's process.
    """
    found: dict[str, float] = {}
    for own in workers:
        for name, value in own.items():
            found[name] = max(value, found.get(name, 0.0))
        if scheduler is not None and scheduler[_PROCESS] == own[_PROCESS]:
            scheduler = None
    for name, value in (scheduler or {}).items():
        found[name] = value + found.get(name, 0.0)
    found.pop(_PROCESS, None)
    return found
