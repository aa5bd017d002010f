"""Counters of requests with a format, in the `/metrics` of vLLM's server."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from formatter_vllm.requests import KINDS

__all__ = ["count_failure", "count_request"]

#: The first key of a content; any other is counted as "other", so that clients cannot make up label values.
_KIND = re.compile(rf'\s*\{{\s*"({"|".join(KINDS)})"')


def count_request(content: str, outcome: str, seconds: float) -> None:
    """Count a request.

    Args:
        content: what it asks for.
        outcome: `"admitted"`, `"refused"` or `"busy"`.
        seconds: how long it waited for its format.
    """
    if (metrics := _metrics()) is not None:
        found = _KIND.match(content)
        metrics[0].labels("other" if found is None else found[1], outcome).inc()
        metrics[1].observe(seconds)


def count_failure() -> None:
    """Count a request that failed in a worker."""
    if (metrics := _metrics()) is not None:
        metrics[2].inc()


@cache
def _metrics() -> tuple[Any, Any, Any] | None:
    """Made when first needed, in the server's process; None without prometheus_client."""
    try:
        client: Any = import_module("prometheus_client")  # vLLM brings it
    except ImportError:
        return None
    requests = client.Counter("formatter_requests", "Requests with a format.", ["kind", "outcome"])
    waited = client.Histogram("formatter_wait_seconds", "How long requests waited for their format.")
    return requests, waited, client.Counter("formatter_failures", "Requests whose format failed in a worker.")
