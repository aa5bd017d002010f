"""Compiling without blocking a busy loop: a bounded pool of threads and a bounded queue; refusals are cached too.

For servers, where each request brings a format: however costly it is, it must not delay other requests.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from formatter_core.errors import EngineFailed, FormatterError, LimitExceeded, QueueFull
from formatter_core.errors.arguments import whole_number
from formatter_core.limits.forking import renew_in_child

__all__ = ["BackgroundCompiler"]

Made = TypeVar("Made")

#: How many contents may wait that take only a moment each.
_SHORT_QUEUE = 32
#: Seconds after which a thread without work ends; another one begins with the next work.
_IDLE_SECONDS = 10.0
#: Seconds after which a waiting content can no longer be turned away: a late refusal is worth little.
_PATIENCE_SECONDS = 0.08


class BackgroundCompiler(Generic[Made]):
    """Compiles contents on threads of its own, equal ones once; safe to share.

    What was made is found again as long as somebody else holds it, such as the cache of a `Compiler`; the latest
    refusals are kept here.

    Args:
        compile: makes what a content asks for, or raises.
        try_shortly: the same within limits so narrow that it takes a moment; `LimitExceeded` says that it needs more.
            Contents for which it is enough never wait for others, and the shortest come first. Without it all wait in
            one queue.
        threads: how many contents that need more than a moment are compiled at a time.
        queue_size: how many of those wait at most.
        refusals: how many refusals are kept.

    Raises:
        InvalidArgument: a number that is not a whole number from 1.
    """

    def __init__(
        self,
        compile: Callable[[str], Made],
        *,
        try_shortly: Callable[[str], Made] | None = None,
        threads: int = 1,
        queue_size: int = 16,
        refusals: int = 1000,
    ) -> None:
        self._compile = compile
        self._try_shortly = try_shortly
        self._threads = whole_number(threads, "threads", minimum=1)
        self._queue_size = whole_number(queue_size, "queue_size", minimum=1)
        self._maximum_refusals = whole_number(refusals, "refusals", minimum=1)
        self._made: WeakValueDictionary[bytes, Any] = WeakValueDictionary()
        self._refusals: OrderedDict[bytes, Exception] = OrderedDict()
        self._begin()
        renew_in_child(self._begin)

    def __repr__(self) -> str:
        return f"<BackgroundCompiler, {len(self._waiting)} contents waiting or being compiled>"

    def known(self, content: str) -> Made | None:
        """What was made of this content; None if it is not known.

        Raises:
            Exception: why it was refused.
        """
        with self._lock:
            return self._known(_digest(content))

    def get(self, content: str) -> Made:
        """What is made of this content: known, being made, or made now, in this thread.

        Raises:
            Exception: why it is refused.
        """
        digest = _digest(content)
        with self._lock:
            made = self._known(digest)
            future = self._waiting.get(digest)
        if made is not None:
            return made
        if future is not None:
            return future.result()
        made = self._compile(content)
        with self._lock:
            self._made[digest] = made
        return made

    def submit(self, content: str, *, is_costly: bool | None = None) -> Future[Made]:
        """Compile a content; the future has what was made, or why it was refused. Returns at once.

        Args:
            is_costly: whether it takes more than a moment, if that is known; else `try_shortly` finds out.

        Raises:
            QueueFull: too many others are waiting; this one is not kept. (The future may raise it too.)
        """
        digest = _digest(content)
        with self._lock:
            future: Future[Made] = Future()
            try:
                made = self._known(digest)
            except Exception as refusal:  # noqa: BLE001 - whatever it was refused for
                future.set_exception(refusal)
                return future
            if made is not None:
                future.set_result(made)
                return future
            if digest in self._waiting:
                return self._waiting[digest]
            if is_costly or (is_costly is None and self._try_shortly is None):
                self._long.put(content, digest)
            else:
                self._short.put(content, digest)
                self._untried.add(digest)
            return self._waiting.setdefault(digest, future)

    def reserve(self, content: str) -> None:
        """Give up waiting for `try_shortly`: keep a place among the costly contents for this one, if it turns out so.

        If there is no place, its future has `QueueFull` at once, and not when it is known to be costly; if it is tried
        just now, what comes of that is kept for the next time. A content that is not waiting for that stays as it is.
        """
        digest = _digest(content)
        with self._lock:
            if digest in self._untried and not self._long.reserve(digest):
                self._short.remove(digest)
                self._refuse(digest, QueueFull(self._queue_size))

    def _known(self, digest: bytes) -> Made | None:
        refusal = self._refusals.get(digest)
        if refusal is None:
            return self._made.get(digest)
        self._refusals.move_to_end(digest)
        raise refusal.with_traceback(None)  # it would grow with each raise, and hold the frames

    def _work_shortly(self, content: str, digest: bytes) -> None:
        """Finish what takes a moment; the rest goes to the other queue."""
        try:
            self._finish(self._try_shortly or self._compile, content, digest)
        except LimitExceeded as error:
            if error.is_fixed or self._try_shortly is None:  # wider limits change nothing
                raise
            with self._lock:
                if digest in self._untried:  # else it was given up meanwhile
                    self._untried.discard(digest)
                    self._long.put(content, digest)

    def _finish(self, make: Callable[[str], Made], content: str, digest: bytes) -> None:
        """Make it; what it raises is for `_refuse`."""
        made = make(content)
        with self._lock:
            self._made[digest] = made
            if (future := self._settled(digest)) is not None:
                future.set_result(made)

    def _settled(self, digest: bytes) -> Future[Made] | None:
        """The future of a content that waits no longer, neither here nor for a place; None if it was given up."""
        self._untried.discard(digest)
        self._long.release(digest)
        return self._waiting.pop(digest, None)

    def _refuse(self, digest: bytes, error: Exception) -> None:
        error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None
        with self._lock:
            if isinstance(error, FormatterError) and not isinstance(error, (EngineFailed, QueueFull)):
                self._refusals[digest] = error
                if len(self._refusals) > self._maximum_refusals:
                    self._refusals.popitem(last=False)
            if (future := self._settled(digest)) is not None:
                future.set_exception(error)

    def _begin(self) -> None:
        """Begin without threads; in a forked child those of the parent are gone, and so is what they were asked for."""
        self._lock = threading.RLock()  # callbacks of futures may submit
        self._waiting: dict[bytes, Future[Made]] = {}
        self._untried: set[bytes] = set()  # those that `try_shortly` has yet to judge
        finish = partial(self._finish, self._compile)
        self._long = _Lane(self._threads, self._queue_size, lambda _: 0, finish, self._refuse)
        self._short = _Lane(1, _SHORT_QUEUE, len, self._work_shortly, self._refuse)


class _Lane:
    """Threads that work off one queue, in the order of a rank and of arrival.

    If it is full, the last of the recent arrivals is turned away.
    """

    def __init__(
        self,
        threads: int,
        size: int,
        rank: Callable[[str], int],
        work: Callable[[str, bytes], None],
        refuse: Callable[[bytes, Exception], None],
    ) -> None:
        self._threads = threads
        self._size = size
        self._rank = rank
        self._work = work
        self._refuse = refuse
        self._numbers = count()
        self._queue: list[tuple[int, int, float, str, bytes]] = []  # rank, number, arrival
        self._reserved: set[bytes] = set()
        self._changed = threading.Condition()
        self._running = 0

    def put(self, content: str, digest: bytes) -> None:
        """Add a content.

        Raises:
            QueueFull: the queue is full, and nothing in it that has just come comes after this content.
        """
        with self._changed:
            now = monotonic()
            self._reserved.discard(digest)
            job = (self._rank(content), next(self._numbers), now, content, digest)
            last = None
            if len(self._queue) + len(self._reserved) >= self._size:
                last = max(one for one in (*self._queue, job) if now - one[2] <= _PATIENCE_SECONDS)
                if last is job:
                    raise QueueFull(self._size)
                self._queue.remove(last)
                heapify(self._queue)
            heappush(self._queue, job)
            if self._running < self._threads:
                self._running += 1
                threading.Thread(target=self._run, daemon=True, name="formatter-compile").start()
            self._changed.notify()
        if last is not None:
            self._refuse(last[-1], QueueFull(self._size))

    def reserve(self, digest: bytes) -> bool:
        """Keep a place for a content that may come later; False if there is none."""
        with self._changed:
            if len(self._queue) + len(self._reserved) >= self._size:
                return False
            self._reserved.add(digest)
            return True

    def release(self, digest: bytes) -> None:
        """No longer keep a place for this content."""
        with self._changed:
            self._reserved.discard(digest)

    def remove(self, digest: bytes) -> bool:
        """Take a content out of the queue; False if it is not there, because its turn has come."""
        with self._changed:
            left = [one for one in self._queue if one[-1] != digest]
            was_there = len(left) < len(self._queue)
            self._queue[:] = left
            heapify(self._queue)
            return was_there

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._queue and not self._changed.wait_for(lambda: self._queue, _IDLE_SECONDS):
                    self._running -= 1
                    return
                *_, content, digest = heappop(self._queue)
            try:
                self._work(content, digest)
            except Exception as error:  # noqa: BLE001 - it is the answer to this content, and the thread continues
                self._refuse(digest, error)


def _digest(content: str) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
