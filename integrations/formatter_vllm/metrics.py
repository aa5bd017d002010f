"""Counters of requests with a format, in the `/metrics` of vLLM's server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from formatter_vllm.figures import CACHED, FAILURES, MASK_SECONDS, SHORTENED
from formatter_vllm.requests import kind_of

try:
    import fcntl
except ImportError:  # where there is none, vLLM has one API server
    fcntl = None  # type: ignore[assignment]

__all__ = ["count_request", "is_owner", "observe_compile", "update"]

_latest: dict[str, float] = {}


def count_request(content: str, outcome: str, seconds: float) -> None:
    """Count a request.

    Args:
        content: the request's content.
        outcome: `"admitted"`, `"refused"` or `"busy"`.
        seconds: the time that it waited for its format.
    """
    if (metrics := _metrics()) is not None:
        # Any other key is counted as one, so that clients cannot make up label values.
        metrics.requests.labels(kind_of(content) or "other", outcome).inc()
        metrics.waited.observe(seconds)


def observe_compile(seconds: float) -> None:
    """Count a format that took these seconds of CPU time to compile."""
    if (metrics := _metrics()) is not None:
        metrics.compiled.observe(seconds)


@cache
def _lock() -> IO[str] | None:
    """Open the lock file that all API servers of one vLLM share; None if there is only one server."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return None if folder is None else (Path(folder) / "formatter.lock").open("a")


def is_owner() -> bool:
    """Tell whether this process reports the engines' counters: one of the API servers that share the metrics does.

    The first process that asks becomes the owner, and stays the owner while it lives.
    """
    file = _lock()
    if file is None or fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # locking again is harmless if this process has the lock
    except OSError:
        return False
    return True


def update(engines: Iterable[dict[str, float]]) -> None:
    """Take over the figures of all engines so far."""
    if (metrics := _metrics()) is None:
        return
    sums: dict[str, float] = {}
    for own in engines:
        for name, value in own.items():
            sums[name] = value + sums.get(name, 0.0)
    for name, value in sums.items():
        if name == CACHED:
            metrics.cached.set(value)
            continue
        more, _latest[name] = max(0.0, value - _latest.get(name, 0.0)), value
        if name.startswith(FAILURES):
            metrics.failed.labels(name.removeprefix(FAILURES)).inc(more)
        else:
            metrics.named[name].inc(more)


@cache
def _metrics() -> Any:
    """Return the metrics of the server's process, made on first use; None without prometheus_client."""
    try:
        client: Any = import_module("prometheus_client")  # vLLM brings it
    except ImportError:
        return None
    return SimpleNamespace(
        requests=client.Counter("formatter_requests", "Requests with a format.", ["kind", "outcome"]),
        waited=client.Histogram("formatter_wait_seconds", "How long requests waited for their format."),
        compiled=client.Histogram("formatter_compile_seconds", "CPU time that it took to compile a format."),
        cached=client.Gauge(
            "formatter_cache_bytes", "Bytes of compiled formats that engines keep.", multiprocess_mode="livesum"
        ),
        failed=client.Counter("formatter_failures", "Requests that were ended because their format failed.", ["cause"]),
        named={
            MASK_SECONDS: client.Counter("formatter_mask_seconds", "Seconds that masks took."),
            SHORTENED: client.Counter("formatter_shortened", "Requests whose output a budget shortened."),
        },
    )
