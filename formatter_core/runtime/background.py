"""Compiling beside a busy loop: a bounded pool of threads and a bounded queue, and refusals are kept too.

For servers, where a format comes with each request: no request may hold up the others, however costly its format is.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, Full, Queue
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from formatter_core.errors import FormatterError, LimitExceeded, QueueFull
from formatter_core.support.arguments import whole_number
from formatter_core.support.forking import renew_in_child

__all__ = ["BackgroundCompiler"]

Made = TypeVar("Made")

#: How many contents wait for their check, which takes moments.
_CHECKS = 64
#: Seconds after which a thread without work ends; another one begins with the next work.
_IDLE_SECONDS = 10.0


class BackgroundCompiler(Generic[Made]):
    """Compiles contents on threads of its own, equal ones once; safe to share.

    What was made is found again as long as somebody else holds it, such as the cache of a `Compiler`; the latest
    refusals are kept here.

    Args:
        compile: makes what a content asks for, or raises.
        check: the same within limits so narrow that it takes moments; `LimitExceeded` says that it needs more. Contents
            that pass it never wait for others that do not. Without it all wait in one queue.
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
        check: Callable[[str], object] | None = None,
        threads: int = 1,
        queue_size: int = 16,
        refusals: int = 1000,
    ) -> None:
        self._compile = compile
        self._check = check
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
        """What was made of this content; None where nothing is known of it.

        Raises:
            Exception: why it was refused.
        """
        with self._lock:
            return self._known(_digest(content))

    def submit(self, content: str) -> Future[Made]:
        """Compile a content; the future has what was made, or why it was refused. Returns at once.

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
            self._first.put((content, digest))
            return self._waiting.setdefault(digest, future)

    def _known(self, digest: bytes) -> Made | None:
        refusal = self._refusals.get(digest)
        if refusal is None:
            return self._made.get(digest)
        self._refusals.move_to_end(digest)
        raise refusal.with_traceback(None)  # it would grow with each raise, and hold the frames

    def _try(self, check: Callable[[str], object], content: str, digest: bytes) -> None:
        """Finish what takes a moment; the rest goes to the other queue."""
        try:
            check(content)
        except LimitExceeded:
            self._long.put((content, digest))
        else:
            self._finish(content, digest)

    def _finish(self, content: str, digest: bytes) -> None:
        """Make it; what it raises is for `_refuse`."""
        made = self._compile(content)
        with self._lock:
            self._made[digest] = made
            self._waiting.pop(digest).set_result(made)

    def _refuse(self, digest: bytes, error: Exception) -> None:
        error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None
        with self._lock:
            if isinstance(error, FormatterError) and not isinstance(error, QueueFull):
                self._refusals[digest] = error
                if len(self._refusals) > self._maximum_refusals:
                    self._refusals.popitem(last=False)
            self._waiting.pop(digest).set_exception(error)

    def _begin(self) -> None:
        """Begin without threads; in a forked child those of the parent are gone, and so is what they were asked for."""
        self._lock = threading.RLock()  # callbacks of futures may submit
        self._waiting: dict[bytes, Future[Made]] = {}
        size, check = self._queue_size, self._check
        self._long = _Lane(self._threads, size, self._finish, self._refuse)
        self._first = self._long if check is None else _Lane(1, _CHECKS, partial(self._try, check), self._refuse)


class _Lane:
    """Threads that work off one queue, first come first served."""

    def __init__(
        self,
        maximum: int,
        size: int,
        work: Callable[[str, bytes], None],
        refuse: Callable[[bytes, Exception], None],
    ) -> None:
        self._maximum = maximum
        self._queue: Queue[tuple[str, bytes]] = Queue(size)
        self._work = work
        self._refuse = refuse
        self._lock = threading.Lock()
        self._running = 0

    def put(self, job: tuple[str, bytes]) -> None:
        with self._lock:
            try:
                self._queue.put_nowait(job)
            except Full:
                raise QueueFull(self._queue.maxsize) from None
            if self._running < self._maximum:
                self._running += 1
                threading.Thread(target=self._run, daemon=True, name="formatter-compile").start()

    def _run(self) -> None:
        while True:
            try:
                content, digest = self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._queue.empty():
                        self._running -= 1
                        return
                continue
            try:
                self._work(content, digest)
            except Exception as error:  # noqa: BLE001 - it is the answer to this content, and the thread goes on
                self._refuse(digest, error)


def _digest(content: str) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
