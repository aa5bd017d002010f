"""Compile without blocking a busy loop: with a limited pool of threads, and queues whose waiting time is limited.

This is for servers, where each request has its own format: however costly one format is, it must not delay other
requests. Jobs wait in order of cost, and each client has its own queue (start-time fair queueing, by the finish of each
job: Demers, Keshav and Shenker 1989). A steady stream of cheap jobs does not overtake a job that has waited long.
Refusals are cached too.
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

#: Seconds after which an idle thread ends; the next job starts another one.
_IDLE_SECONDS = 10.0
#: The fixed cost of a content besides its characters, in characters.
_BASE_COST = 500.0
#: Initial estimates of the seconds for each character, before there is a measurement: for jobs that take a moment, and
#: for longer ones.
_SHORT_RATE, _LONG_RATE = 5e-6, 2e-5
#: The factor that older measurements keep after one more content.
_MEMORY = 0.95
#: A content that has waited for this many times its expected wait is refused, but none that has waited for less than
#: this many seconds.
_WAITS_BEFORE_REFUSAL, _SECONDS_BEFORE_REFUSAL = 2.0, 1.0
#: The minimum number of seconds between two checks for jobs that have waited too long.
_MIN_SECONDS_BETWEEN_CHECKS = 0.05
#: From this number of clients on, clients with nothing in the queue are forgotten.
_CLIENTS_REMEMBERED = 1000


class BackgroundCompiler(Generic[Made]):
    """A compiler that compiles contents in its own threads, equal contents once; it is safe to share.

    A compiled content is found again as long as another object holds it, such as the cache of a `Compiler`; the latest
    refusals are kept here.

    Args:
        compile: compiles a content, or raises an error.
        try_shortly: does the same within limits so narrow that it takes a moment; `LimitExceeded` says that the content
            needs more. Contents for which these limits suffice never wait for costlier ones. Without it all contents
            share one queue.
        threads: how many contents that need more than a moment are compiled at a time.
        max_wait: the maximum number of seconds that a content is to wait in the queue, estimated from earlier jobs; if
            a new content would make the wait longer, the last ones in the queue are refused. A content that has waited
            for half of this time is no longer overtaken, nor refused in favour of later ones, but it is refused after
            twice this time. None for no limit.
        queue_size: the maximum number of waiting contents that need more than a moment, however short their wait is.
        refusals: the number of refusals to keep.

    Raises:
        InvalidArgument: a number is not a whole number of at least 1.
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
        """Return the compiled content; None if it is not known.

        Raises:
            Exception: the error with which the content was refused.
        """
        with self._lock:
            return self._known(_digest(content))

    def get(self, content: str) -> Made:
        """Return the compiled content: from the cache, from a running job, or compiled now in this thread.

        Raises:
            Exception: the error with which the content is refused.
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
        """Compile a content in the background, and return at once a future of the compiled content or the refusal.

        Args:
            is_costly: whether it takes more than a moment, if that is known; otherwise `try_shortly` decides.
            client: the client that the content belongs to: clients take turns. A content without a client counts as a
                client of its own.

        Raises:
            QueueFull: the content would wait too long, and was not queued. (The future may raise it too.)
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
        raise refusal.with_traceback(None)  # its traceback would grow with each raise, and hold the frames

    def _work_shortly(self, job: _Job) -> None:
        """Finish a job that takes a moment; put a longer one into the other queue."""
        try:
            self._finish(self._try_shortly or self._compile, job)
        except LimitExceeded as error:
            if error.is_fixed or self._try_shortly is None:  # wider limits would not help
                raise
            with self._lock:
                self._long.put(job)

    def _finish(self, make: Callable[[str], Made], job: _Job) -> None:
        """Compile the content of a job; `_refuse` handles its errors."""
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
        """Begin without threads; in a forked child, the parent's threads and their jobs do not exist."""
        self._lock = threading.RLock()  # reentrant: callbacks of futures may submit
        self._waiting: dict[bytes, Future[Made]] = {}
        finish = partial(self._finish, self._compile)
        self._long = _Lane(self._threads, self._max_wait, self._queue_size, _LONG_RATE, finish, self._refuse)
        self._short = _Lane(1, self._max_wait, None, _SHORT_RATE, self._work_shortly, self._refuse)


class _Job(NamedTuple):
    """A waiting content, its client, and the time since when it waits (`time.monotonic`); 0 before it waits."""

    content: str
    digest: bytes
    client: Hashable
    since: float = 0.0

    @property
    def cost(self) -> float:
        """Return the expected cost, in characters."""
        return _BASE_COST + len(self.content)


class _Lane:
    """A queue with threads, in which clients take turns: each client advances by the cost of its jobs.

    If the last job in the queue would wait too long, it is refused, whichever job came last.
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
        self._line: list[tuple[float, int, _Job]] = []  # the finish of the job on the clock below; number; job
        self._cost = 0.0  # of all waiting and running jobs
        self._now = 0.0  # a clock that advances by the work done for one client
        self._finishes: dict[Hashable, float] = {}  # the finish of the last job of each client
        self._measured = (rate, 1.0)  # seconds, and the cost of the jobs that took them
        self._under_way: dict[_Job, float] = {}  # running jobs, and since when they run
        self._changed = threading.Condition()
        self._running = 0
        self._watcher: threading.Timer | None = None

    def put(self, job: _Job) -> None:
        """Put a content into the queue.

        Raises:
            QueueFull: the content would wait too long.
        """
        with self._changed:
            now = monotonic()
            job = _Job(job.content, job.digest, job.client, job.since or now)
            finish = max(self._now, self._finishes.get(job.client, 0.0)) + job.cost
            if job.client is not None:
                self._finishes[job.client] = finish
            if len(self._finishes) > _CLIENTS_REMEMBERED:
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
        """Check the queue when its oldest job has waited too long, even if nothing else happens."""
        if self._max_wait is None or self._watcher is not None or not self._line:
            return
        oldest = min(job.since for *_, job in self._line)
        left = oldest + self._longest_wait(self._max_wait) - monotonic()
        self._watcher = threading.Timer(max(left, _MIN_SECONDS_BETWEEN_CHECKS), self._look)
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
        """Take the jobs out of the queue that have waited too long, with the reasons: running jobs
        may take long, too.
        """
        late = [entry for entry in self._line if self._is_too_late(entry[-1], now)]
        for entry in late:
            self._line.remove(entry)
            self._cost -= entry[-1].cost
        return [(job, QueueFull(len(self._line), wait_seconds=now - job.since)) for *_, job in late]

    def _last_and_refusal(self, now: float) -> tuple[int, QueueFull] | None:
        """Return the place of the last job that may be refused, and the error; None if no job must be refused."""
        places = range(len(self._line) - 1, -1, -1)
        place = next((each for each in places if not self._has_waited_long(self._line[each][-1], now)), None)
        if place is None:
            return None
        wait = (self._cost - self._line[place][-1].cost) * self._rate(now) / self._threads
        is_long = self._max_wait is not None and wait > self._max_wait
        is_full = self._size is not None and len(self._line) > self._size
        return (place, QueueFull(len(self._line) - 1, wait_seconds=wait)) if is_long or is_full else None

    def _rate(self, now: float) -> float:
        """Return the seconds per unit of cost: the measured rate, or more if running jobs take longer."""
        rates = [self._measured, *(self._with(now - begun, job) for job, begun in self._under_way.items())]
        return max(seconds / cost for seconds, cost in rates)

    def _with(self, seconds: float, job: _Job) -> tuple[float, float]:
        """Return the measurement with one more job, which took these seconds."""
        return _MEMORY * self._measured[0] + seconds, _MEMORY * self._measured[1] + job.cost

    def _has_waited_long(self, job: _Job, now: float) -> bool:
        return self._max_wait is not None and now - job.since > self._max_wait / 2

    def _is_too_late(self, job: _Job, now: float) -> bool:
        return self._max_wait is not None and now - job.since > self._longest_wait(self._max_wait)

    @staticmethod
    def _longest_wait(max_wait: float) -> float:
        return max(_WAITS_BEFORE_REFUSAL * max_wait, _SECONDS_BEFORE_REFUSAL)

    def _next(self) -> tuple[float, _Job]:
        """Take the next job out of the queue: the first, unless an earlier one has waited long."""
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
