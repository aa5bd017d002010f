"""Delivery of compiled formats to the processes that make masks, before the first request for each format.

All that is under way is asked about in one call. vLLM's scheduler answers every call before it begins the next step:
with calls for each request there are times when it never does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from itertools import count
from typing import Any

from formatter_vllm import _compat_engine
from formatter_vllm.compilers import living_compilers

__all__ = ["METHOD", "Preparation", "prepare"]

#: The name of `prepare` as a method of vLLM's workers and of its scheduler.
METHOD = "formatter_prepare"
#: Seconds between two questions whether the workers are ready.
_PAUSE = 0.02
#: Seconds that a step may wait for formats that load in a moment, which saves another question.
_MOMENT = 0.002


class Preparation:
    """The server process's record of the formats that its workers are preparing.

    Args:
        engine: gives vLLM's asynchronous engine.
    """

    def __init__(self, engine: Callable[[], Any]) -> None:
        self._engine = engine
        self._numbers = count()
        self._new: list[tuple[Any, ...]] = []
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def by_workers(self, content: str, stored: bytes | None, *, is_costly: bool) -> None:
        """Return when all workers have this content; `stored` is what it was compiled to."""
        key = f"{os.getpid()} {next(self._numbers)}"
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._new.append((key, content, stored, is_costly))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.shield(waiting)

    async def by_schedulers(self, content: str, stored: bytes | None, *, is_costly: bool) -> None:
        """Send it to the schedulers, which keep structured outputs, and let their requests wait by themselves."""
        await _compat_engine.call_schedulers(self._engine(), METHOD, [("", content, stored, is_costly)], [])

    async def _ask(self) -> None:
        try:
            while self._waiting:
                new, self._new = self._new, []
                answers = await _compat_engine.call_workers(self._engine(), METHOD, new, [*self._waiting])
                ready = [set(keys) for workers in answers for keys in workers]
                for key in set.intersection(*ready):
                    _settle(self._waiting.pop(key))
                if self._waiting:
                    await asyncio.sleep(_PAUSE)
        except Exception as error:  # noqa: BLE001 - the engine has died, which is the answer to all that wait
            for waiting in self._waiting.values():
                _settle(waiting, error)
            self._waiting.clear()


def _settle(waiting: asyncio.Future[None], error: Exception | None = None) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)


#: In a process that makes masks: the futures of what it is preparing.
_under_way: dict[str, list[Future[Any]]] = {}


def prepare(new: list[tuple[str, str, bytes | None, bool]], asked: list[str]) -> list[str]:
    """Start preparing new contents, and return which of the listed contents are ready.

    Runs between two steps in a process that makes masks. A refused content is ready: its request reports the refusal.
    An unknown content is ready, too: its answer was returned before.
    """
    quick: list[Future[Any]] = []
    for key, content, stored, is_costly in new:
        futures = [one.prepare(content, stored, is_costly=is_costly) for one in living_compilers()]
        if key in asked:
            _under_way[key] = futures
        quick += [] if is_costly else futures
    wait(quick, _MOMENT)
    ready = [key for key in asked if all(future.done() for future in _under_way.get(key, ()))]
    for key in ready:
        _under_way.pop(key, None)
    return ready
