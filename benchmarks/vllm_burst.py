"""Send a burst of honest schemas to a server of vLLM that has done nothing yet: a job with a schema for each row.

    python3.11 dev.py bench vllm_burst

All requests come at once, from one client, each with a small schema of its own. The figures say how many are refused,
how long a request waits for its format (by the server's own histogram), and how long until it is answered. `--path`
is as in `vllm_hostile`, and so is the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from typing import Any

from benchmarks.harness import aim, markdown, percentiles
from benchmarks.vllm_hostile import PATHS, body_of, busy_seconds, honest, server, session, status_of
from tests.engines_real.vllm_processes import usage_of

OPTIONS: dict[str, dict[str, Any]] = {
    "--path": {"nargs": "+", "choices": PATHS, "default": list(PATHS)},
    "--requests": {"type": int, "default": 500},
}
SMOKE = {"path": ["processor"], "requests": 8}

#: Seconds after which a request counts as not answered.
_TIME_OUT = 600
_WAITS = "formatter_wait_seconds_bucket"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    return {"requests": options.requests, "paths": {path: measure_path(options, path) for path in options.path}}


def measure_path(options: argparse.Namespace, path: str) -> dict[str, Any]:
    with server(path) as (address, group):
        before, others = sum(used.cpu for used in usage_of(group).values()), busy_seconds()
        begun = time.perf_counter()
        found = asyncio.run(burst(address, path, options.requests))
        spent = sum(used.cpu for used in usage_of(group).values()) - before
        seconds = time.perf_counter() - begun
        return {**found, "seconds": round(seconds, 1), "CPU seconds of the server": round(spent, 1),
                "CPU seconds of all others": round(busy_seconds() - others - spent, 1)}  # fmt: skip


async def burst(address: str, path: str, count: int) -> dict[str, Any]:
    """Ask for all at once."""
    async with session(_TIME_OUT) as http:

        async def ask(number: int) -> tuple[str, float]:
            body = json.dumps(body_of(path, honest(number), max_tokens=4)).encode()
            begun = time.perf_counter()
            return await status_of(http, address, body), time.perf_counter() - begun

        answers = await asyncio.gather(*map(ask, range(count)))
        async with http.get(f"{address.removesuffix('v1')}metrics") as answer:
            lines = (await answer.text()).splitlines()
    return {
        "answers": dict(Counter(status for status, _ in answers)),
        "seconds to an answer": percentiles([taken for _, taken in answers], (50, 99, 100)),
        "waited at most": wait_of([line for line in lines if line.startswith(_WAITS)], 0.99),
    }


def wait_of(buckets: list[str], share: float) -> str | None:
    """Find the bound of the histogram's first bucket with this share of the requests; None without requests."""
    counts = [(line.split('le="')[1].split('"')[0], float(line.rsplit(" ", 1)[1])) for line in buckets]
    return next((bound for bound, below in counts if below and below >= share * counts[-1][1]), None)


def show(found: dict[str, Any]) -> str:
    head = ("path", "answers", "seconds to an answer (p50, p99, longest)", "99 % waited for a format at most, s",
            "CPU s of the server", "CPU s of all others")  # fmt: skip
    rows, aims = [], []
    for path, figures in found["paths"].items():
        answers = ", ".join(f"{count} × {status}" for status, count in sorted(figures["answers"].items()))
        times = ", ".join(str(value) for value in figures["seconds to an answer"].values())
        waited = figures["waited at most"]
        rows.append([path, answers, times, str(waited), str(figures["CPU seconds of the server"]),
                     str(figures["CPU seconds of all others"])])  # fmt: skip
        if path != "xgrammar":
            refused = found["requests"] - figures["answers"].get("200", 0)
            aims.append(aim(f"{path}: requests without an answer", refused, 0))
            aims.append(aim(f"{path}: p99 of the wait for a format, s", float(waited or "inf"), 10))
    return "\n".join([markdown(head, rows), "", *aims])
