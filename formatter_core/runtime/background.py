"""Compiling without blocking a busy loop: a bounded pool of threads, and lines of a bounded length in seconds.

For servers, where each request brings a format: however costly it is, it must not delay other requests. Who waits does
so in line by cost, and each client has a line of its own (start-time fair queueing, by the finish of each job: Demers,
Keshav and Shenker 1989). Cheap ones that come all the time pass nobody who has waited long. Refusals are cached too.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from formatter_core.errors import EngineFailed, FormatterError, LimitExceeded, QueueFull
from formatter_core.errors.arguments import whole_number
from formatter_core.limits.forking import renew_in_child

__all__ = ["BackgroundCompiler"]

Made = TypeVar("Made")

#: Seconds after which a thread without work ends; another one begins with the next work.
_IDLE_SECONDS = 10.0
#: What a content costs besides its characters, in characters.
_BASE_COST = 500.0
#: Seconds for each character, until there is something to measure: of what takes a moment, and of what takes longer.
_SHORT_RATE, _LONG_RATE = 5e-6, 2e-5
#: How much of what was measured still counts after one more content.
_MEMORY = 0.95
#: A content that has waited for this many times what it may be expected to wait is refused even so, but none that has
#: waited for less than so many seconds.
_MOST_WAITS, _NO_WAIT = 2.0, 1.0
#: Seconds between two looks at who has waited for too long, at least.
_LEAST_WATCH = 0.05
#: From this number of clients on, those are forgotten who have nothing in line.
_MANY_CLIENTS = 1000


class BackgroundCompiler(Generic[Made]):
    """Compiles contents on threads of its own, equal ones once; safe to share.

    What was made is found again as long as somebody else holds it, such as the cache of a `Compiler`; the latest
    refusals are kept here.

    Args:
        compile: makes what a content asks for, or raises.
        try_shortly: the same within limits so narrow that it takes a moment; `LimitExceeded` says that it needs more.
            Contents for which it is enough never wait for others. Without it all wait in one line.
        threads: how many contents that need more than a moment are compiled at a time.
        max_wait: seconds that a content is to wait in line at most, by what others took before; the last in line are
            refused where it would take longer. Who has waited for half of it is no longer passed, nor refused for
            those that come later, but after twice that time. None for any time.
        queue_size: how many contents that need more than a moment wait at most, however short that takes.
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
        max_wait: float | None = None,
        queue_size: int | None = None,
        refusals: int = 1000,
    ) -> None:
        self._compile = compile
        self._try_shortly = try_shortly
        self._threads = whole_number(threads, "threads", minimum=1)
        self._max_wait = max_wait
        self._queue_size = None if queue_size is None else whole_number(queue_size, "queue_size", minimum=1)
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

    def submit(self, content: str, *, is_costly: bool | None = None, client: Hashable = None) -> Future[Made]:
        """Compile a content; the future has what was made, or why it was refused. Returns at once.

        Args:
            is_costly: whether it takes more than a moment, if that is known; else `try_shortly` finds out.
            client: whose content it is: clients take turns. Without one it is nobody else's.

        Raises:
            QueueFull: it would wait too long, and is not kept. (The future may raise it too.)
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
            lane = self._long if is_costly or (is_costly is None and self._try_shortly is None) else self._short
            lane.put(_Job(content, digest, client))
            return self._waiting.setdefault(digest, future)

    def _known(self, digest: bytes) -> Made | None:
        refusal = self._refusals.get(digest)
        if refusal is None:
            return self._made.get(digest)
        self._refusals.move_to_end(digest)
        raise refusal.with_traceback(None)  # it would grow with each raise, and hold the frames

    def _work_shortly(self, job: _Job) -> None:
        """Finish what takes a moment; the rest goes to the other line."""
        try:
            self._finish(self._try_shortly or self._compile, job)
        except LimitExceeded as error:
            if error.is_fixed or self._try_shortly is None:  # wider limits change nothing
                raise
            with self._lock:
                self._long.put(job)

    def _finish(self, make: Callable[[str], Made], job: _Job) -> None:
        """Make it; what it raises is for `_refuse`."""
        made = make(job.content)
        with self._lock:
            self._made[job.digest] = made
            if (future := self._waiting.pop(job.digest, None)) is not None:
                future.set_result(made)

    def _refuse(self, digest: bytes, error: Exception) -> None:
        error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None
        with self._lock:
            if isinstance(error, FormatterError) and not isinstance(error, (EngineFailed, QueueFull)):
                self._refusals[digest] = error
                if len(self._refusals) > self._maximum_refusals:
                    self._refusals.popitem(last=False)
            if (future := self._waiting.pop(digest, None)) is not None:
                future.set_exception(error)

    def _begin(self) -> None:
        """Begin without threads; in a forked child those of the parent are gone, and so is what they were asked for."""
        self._lock = threading.RLock()  # callbacks of futures may submit
        self._waiting: dict[bytes, Future[Made]] = {}
        finish = partial(self._finish, self._compile)
        self._long = _Lane(self._threads, self._max_wait, self._queue_size, _LONG_RATE, finish, self._refuse)
        self._short = _Lane(1, self._max_wait, None, _SHORT_RATE, self._work_shortly, self._refuse)


class _Job(NamedTuple):
    """A content that waits, whose it is, and since when (`time.monotonic`) it waits; 0 before it does."""

    content: str
    digest: bytes
    client: Hashable
    since: float = 0.0

    @property
    def cost(self) -> float:
        """What it is expected to cost, in characters."""
        return _BASE_COST + len(self.content)


class _Lane:
    """Threads that work off one line, in which clients take turns: each advances by the cost of what it asked for.

    If the last one would wait too long, it is turned away, whoever came last.
    """

    def __init__(
        self,
        threads: int,
        max_wait: float | None,
        size: int | None,
        rate: float,
        work: Callable[[_Job], None],
        refuse: Callable[[bytes, Exception], None],
    ) -> None:
        self._threads = threads
        self._max_wait = max_wait
        self._size = size
        self._work = work
        self._refuse = refuse
        self._numbers = count()
        self._line: list[tuple[float, int, _Job]] = []  # the finish of its job on the clock below; number; job
        self._cost = 0.0  # of all that waits or is worked on
        self._now = 0.0  # a clock that advances by the work that is done for one client
        self._finishes: dict[Hashable, float] = {}  # the finish of the last job of each client
        self._measured = (rate, 1.0)  # seconds, and the cost that took them
        self._under_way: dict[_Job, float] = {}  # and since when
        self._changed = threading.Condition()
        self._running = 0
        self._watcher: threading.Timer | None = None

    def put(self, job: _Job) -> None:
        """Put a content in line.

        Raises:
            QueueFull: it would wait too long, and so does nothing behind it.
        """
        with self._changed:
            now = monotonic()
            job = _Job(job.content, job.digest, job.client, job.since or now)
            finish = max(self._now, self._finishes.get(job.client, 0.0)) + job.cost
            if job.client is not None:
                self._finishes[job.client] = finish
            if len(self._finishes) > _MANY_CLIENTS:
                self._finishes = {client: end for client, end in self._finishes.items() if end > self._now}
            insort(self._line, (finish, next(self._numbers), job))
            self._cost += job.cost
            turned_away = self._those_too_late(now)
            while (found := self._last_and_refusal(now)) is not None:
                place, refusal = found
                *_, last = self._line.pop(place)
                self._cost -= last.cost
                if last.client in self._finishes:
                    self._finishes[last.client] -= last.cost
                turned_away.append((last, refusal))
            if self._running < self._threads and self._line:
                self._running += 1
                threading.Thread(target=self._run, daemon=True, name="formatter-compile").start()
            self._watch()
            self._changed.notify()
        own = None
        for last, refusal in turned_away:
            if last is job:
                own = refusal
            else:
                self._refuse(last.digest, refusal)
        if own is not None:
            raise own

    def _watch(self) -> None:
        """Look at the line when the one that has waited longest has done so for too long: nothing else may happen."""
        if self._max_wait is None or self._watcher is not None or not self._line:
            return
        oldest = min(job.since for *_, job in self._line)
        left = oldest + self._longest_wait(self._max_wait) - monotonic()
        self._watcher = threading.Timer(max(left, _LEAST_WATCH), self._look)
        self._watcher.daemon = True
        self._watcher.start()

    def _look(self) -> None:
        with self._changed:
            self._watcher = None
            late = self._those_too_late(monotonic())
            self._watch()
        for job, refusal in late:
            self._refuse(job.digest, refusal)

    def _those_too_late(self, now: float) -> list[tuple[_Job, QueueFull]]:
        """Take out of the line who has waited for too long, with why: what is under way may take long, too."""
        late = [entry for entry in self._line if self._is_too_late(entry[-1], now)]
        for entry in late:
            self._line.remove(entry)
            self._cost -= entry[-1].cost
        return [(job, QueueFull(len(self._line), wait_seconds=now - job.since)) for *_, job in late]

    def _last_and_refusal(self, now: float) -> tuple[int, QueueFull] | None:
        """The place of the last of those that may be turned away, and why it is; None where it may stay."""
        places = range(len(self._line) - 1, -1, -1)
        place = next((each for each in places if not self._has_waited_long(self._line[each][-1], now)), None)
        if place is None:
            return None
        wait = (self._cost - self._line[place][-1].cost) * self._rate(now) / self._threads
        is_long = self._max_wait is not None and wait > self._max_wait
        is_full = self._size is not None and len(self._line) > self._size
        return (place, QueueFull(len(self._line) - 1, wait_seconds=wait)) if is_long or is_full else None

    def _rate(self, now: float) -> float:
        """Seconds for each unit of cost: what was measured, or more where what is under way takes longer."""
        rates = [self._measured, *(self._with(now - begun, job) for job, begun in self._under_way.items())]
        return max(seconds / cost for seconds, cost in rates)

    def _with(self, seconds: float, job: _Job) -> tuple[float, float]:
        """What is measured with one more job that took these seconds."""
        return _MEMORY * self._measured[0] + seconds, _MEMORY * self._measured[1] + job.cost

    def _has_waited_long(self, job: _Job, now: float) -> bool:
        return self._max_wait is not None and now - job.since > self._max_wait / 2

    def _is_too_late(self, job: _Job, now: float) -> bool:
        return self._max_wait is not None and now - job.since > self._longest_wait(self._max_wait)

    @staticmethod
    def _longest_wait(max_wait: float) -> float:
        return max(_MOST_WAITS * max_wait, _NO_WAIT)

    def _next(self) -> tuple[float, _Job]:
        """Take the next one out of the line: the first, unless one that came before it has waited long."""
        oldest = min(range(len(self._line)), key=lambda place: self._line[place][-1].since)
        waits = self._has_waited_long(self._line[oldest][-1], monotonic())
        finish, _, job = self._line.pop(oldest if waits else 0)
        return finish, job

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._line and not self._changed.wait_for(lambda: self._line, _IDLE_SECONDS):
                    self._running -= 1
                    return
                finish, job = self._next()
                self._now = max(self._now, finish)
                begun = self._under_way[job] = monotonic()
                size = len(self._line)
            try:
                if self._is_too_late(job, begun):
                    raise QueueFull(size, wait_seconds=begun - job.since)
                self._work(job)
            except Exception as error:  # noqa: BLE001 - it is the answer to this content, and the thread continues
                self._refuse(job.digest, error)
            with self._changed:
                del self._under_way[job]
                self._cost -= job.cost
                if not self._is_too_late(job, begun):
                    self._measured = self._with(monotonic() - begun, job)


def _digest(content: str) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
