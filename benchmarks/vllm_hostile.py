"""Measure what hostile requests cost the honest ones on a server of vLLM: bodies of at most 64 kB, all different.

    python3.11 dev.py bench vllm_hostile

Honest streams are read token by token, alone and beside hostile requests in turns; meanwhile honest requests with new
formats come in. Hostile bodies are formats that are costly to compile, or wrong, or costly and wrong. Other programs on
the machine lengthen the gaps between tokens too, so CPU seconds of the server's processes and of all others are listed.
`--path` says how formats are given: to the logits processor (`vllm_xargs`), or as vLLM's structured outputs, kept by
formatter-core or by xgrammar.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.harness import aim, markdown, percentiles
from tests.engines_real.vllm_processes import usage_of

PATHS = ("processor", "backend", "xgrammar")
OPTIONS: dict[str, dict[str, Any]] = {
    "--path": {"nargs": "+", "choices": PATHS, "default": list(PATHS)},
    "--seconds": {"type": float, "default": 60.0},
    "--rate": {"type": float, "default": 20.0, "help": "hostile requests a second"},
    "--streams": {"type": int, "default": 20},
    "--turns": {"type": int, "default": 3, "help": "how many times hostile requests begin, for as long in all"},
}
SMOKE = {"path": ["processor"], "seconds": 3.0, "rate": 5.0, "streams": 2, "turns": 1}

#: A model so wide that a step takes some tens of milliseconds: with the smallest one the server's own work on tokens
#: takes all the time that there is.
_SCALE = 10
_LARGEST = 2**16
_JSON = {"Content-Type": "application/json"}
#: Seconds after which a request counts as not answered.
_TIME_OUT = 60
#: Milliseconds after which a format that waits for others is refused even if it was expected to wait for less: twice
#: the default of `max_wait`, and a moment.
_LONGEST_WAIT = 20_500
#: Seconds without hostile requests, before and after each turn.
_QUIET = 12.0


def hostile(number: int) -> dict[str, Any]:
    """Make a format of one of many kinds, different for each number."""
    rng = random.Random(number)

    def words(count: int, digits: int) -> list[str]:
        return [f"{rng.getrandbits(4 * digits):0{digits}x}" for _ in range(count)]

    def names(count: int) -> list[str]:
        return [f"p{number}_{index}" for index in range(count)]

    text = {"type": "string"}
    unique = {"type": "array", "items": text, "uniqueItems": True}
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"regex": f"((a{{1,90}}){{1,90}}){{1,90}}x{number}"},
        lambda: {"regex": f"(?=a){number}"},
        lambda: {
            "json": {"type": "string", "allOf": [{"pattern": f"^(a|b)*a(a|b){{{12 + i}}}{number}$"} for i in range(3)]}
        },
        lambda: {
            "json": {"type": "string", "allOf": [{"pattern": f".*{number}x{i}.{{{3 + i}}}.*"} for i in range(12)]}
        },
        lambda: {"json": {"type": "string", "not": {"enum": words(400, 5)}}},
        lambda: {
            "json": {"anyOf": [{"type": "object", "properties": dict.fromkeys(words(10, 4), text)} for _ in range(60)]}
        },
        lambda: {
            "json": {"oneOf": [{"properties": {name: {"enum": words(2, 3)} for name in names(6)}} for _ in range(40)]}
        },
        lambda: {"json": {"type": "object", "patternProperties": {f"^{number}.*{i}b": text for i in range(14)}}},
        lambda: {"json": {"enum": words(1700, 30)}},
        lambda: {"choice": words(1300, 40)},
        lambda: {
            "json": {
                "type": "object",
                "properties": {name: {"type": "string", "maxLength": 20} for name in names(1050)},
            }
        },
        lambda: {
            "json": {"properties": {name: {"pattern": f"^[a-z]{{3,{number}}}$"} for name in names(60)} | {"z": unique}}
        },
        lambda: {"json": {"type": "number", "multipleOf": 0.000037, "minimum": number / 7, "maximum": 91234567.123}},
        lambda: {"json": {"type": "object", "properties": dict.fromkeys(names(100), text), "maxProperties": 30}},
        lambda: {"json": json.loads('{"not":' * 80 + f'{{"const": {number}}}' + "}" * 80)},
        lambda: {
            "grammar": "".join(f'r{i} ::= r{(i * 13 + 1) % 300} "x{number}" | "y"\n' for i in range(300))
            + "root ::= r0"
        },
    ]
    return kinds[number % len(kinds)]()


def honest(number: int) -> dict[str, Any]:
    """Make a format such as people use, different for each number."""
    rng = random.Random(number)
    properties: dict[str, Any] = {
        f"id_{number}": {"type": "integer", "minimum": 0, "maximum": rng.randint(10, 999)},
        "name": {"type": "string", "maxLength": 4},
        "kind": {"enum": [f"kind {rng.randint(0, 99)}" for _ in range(5)]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    }
    return {
        "json": {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    return {"paths": {path: measure_path(options, path) for path in options.path}, "rate": options.rate}


def measure_path(options: argparse.Namespace, path: str) -> dict[str, Any]:
    # The clients have a process without all that makes models: collecting its garbage stops a process for a second.
    with server(path) as (address, group), ProcessPoolExecutor(1, get_context("spawn")) as clients:
        found: dict[str, Any] = clients.submit(run_clients, options, path, address, group).result()
        return found


def run_clients(options: argparse.Namespace, path: str, address: str, group: int) -> dict[str, Any]:
    """Run the clients in this process, ahead of the server's as if on another machine, if that is allowed.

    Linux 6.18 lets a process wait for seconds beside those that yield all the time, as vLLM's do.
    """
    gc.disable()
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return asyncio.run(Client(options, path, address, group).run())


@contextmanager
def server(path: str) -> Iterator[tuple[str, int]]:
    """Start a server with a small model; give its address, and the group of its processes."""
    from tests.engines_real.vllm_models import make_model
    from tests.engines_real.vllm_processes import serve

    with tempfile.TemporaryDirectory() as name:
        model = make_model(Path(name) / "model", scale=_SCALE)
        settings = {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": str(int(path == "backend"))}
        words = ["--structured-outputs-config", '{"backend": "xgrammar"}'] if path == "xgrammar" else []
        with serve(model, Path(name), [*words, "--max-num-seqs", "64"], settings) as (address, process, log):
            try:
                yield address, process.pid
            except Exception:
                print(log.read_text(errors="replace")[-6000:])
                raise


def body_of(path: str, wanted: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    """Make a request with a format, given as this path gives it."""
    own: dict[str, Any] = {"structured_outputs": wanted}
    if path == "processor":
        renamed = {"json_schema" if name == "json" else name: value for name, value in wanted.items()}
        own = {"vllm_xargs": {"formatter": json.dumps(renamed)}}
    return {"model": "small", "prompt": "ab", "temperature": 1.0, **parameters, **own}


def session(seconds: float) -> Any:
    """Open connections without a limit to their number, whose requests end after so long."""
    aiohttp: Any = import_module("aiohttp")  # vLLM brings it
    connector, time_out = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=seconds)
    return aiohttp.ClientSession(connector=connector, timeout=time_out)


async def status_of(http: Any, address: str, body: bytes) -> str:
    """Return the answer to a request, or the name of the error."""
    try:
        async with http.post(f"{address}/completions", data=body, headers=_JSON) as answer:
            await answer.read()
            return str(answer.status)
    except Exception as error:  # noqa: BLE001 - however the server fails
        return type(error).__name__


class Client:
    """Ask the server as many clients would."""

    def __init__(self, options: argparse.Namespace, path: str, address: str, group: int) -> None:
        self.options, self.path, self.address, self.group = options, path, address, group
        self.gaps: dict[str, list[float]] = {"quiet": [], "beside": []}
        self.phase = "warm-up"
        self.lags: dict[str, list[float]] = {name: [] for name in self.gaps}
        self.attacks: list[bytes] = []
        self.times: dict[str, list[float]] = {}  # of hostile requests, by their answer
        self.cpu: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in self.gaps}
        self.memory: list[dict[str, int]] = []
        self.threads = 0
        self.new_formats: dict[str, Counter[str]] = {name: Counter() for name in self.gaps}
        self.waits: dict[str, list[float]] = {name: [] for name in self.gaps}

    async def run(self) -> dict[str, Any]:
        count = int(self.options.rate * self.options.seconds)
        self.attacks = [
            json.dumps(body_of(self.path, hostile(number), max_tokens=4)).encode() for number in range(count)
        ]
        largest = max(map(len, self.attacks))
        if largest > _LARGEST:
            raise ValueError(f"a hostile body has {largest} bytes")
        async with session(_TIME_OUT) as self.http:
            return await self.run_turns()

    async def run_turns(self) -> dict[str, Any]:
        stop = asyncio.Event()
        streams = [asyncio.create_task(self.stream(number, stop)) for number in range(self.options.streams)]
        others = [self.ask_for_new_formats(stop), self.watch_own_lag(stop)]
        streams += map(asyncio.create_task, others)
        await asyncio.sleep(5)
        seconds = self.options.seconds / self.options.turns
        quiet = min(_QUIET, seconds)
        for turn in range(self.options.turns):
            await self.measure("quiet", quiet)
            attack = asyncio.create_task(self.attack(self.attacks[turn :: self.options.turns]))
            await self.measure("beside", seconds)
            await attack
        await self.measure("quiet", quiet)
        stop.set()
        await asyncio.gather(*streams)
        return {
            "gaps": {name: percentiles(values, (50, 90, 99, 100)) for name, values in self.gaps.items()},
            "lag of this client, ms": {name: percentiles(values, (50, 90, 99)) for name, values in self.lags.items()},
            "tokens": {name: len(values) for name, values in self.gaps.items()},
            "CPU seconds": {name: {key: round(value, 1) for key, value in of.items()} for name, of in self.cpu.items()},
            "hostile": {status: len(times) for status, times in self.times.items()},
            "ms of hostile": {status: percentiles(times, (50, 95, 99, 100)) for status, times in self.times.items()},
            "new formats": {name: dict(found) for name, found in self.new_formats.items()},
            "wait of new formats ms": {
                name: percentiles(values, (50, 99)) for name, values in self.waits.items() if values
            },
            "memory MiB": self.memory,
            "threads": self.threads,
        }

    async def measure(self, phase: str, seconds: float) -> None:
        """Let the streams be measured as of this phase."""
        before, own, others = usage_of(self.group), time.process_time(), busy_seconds()
        self.phase = phase
        await asyncio.sleep(seconds)
        self.phase = "between"
        after, own, others = usage_of(self.group), time.process_time() - own, busy_seconds() - others
        self.threads = max(self.threads, sum(used.threads for used in after.values()))
        self.memory.append({name: used.memory >> 20 for name, used in after.items()})
        for name, used in after.items():
            spent = used.cpu - (before[name].cpu if name in before else 0.0)
            self.cpu[phase][name] += spent
            others -= spent
        self.cpu[phase]["these clients"] += own
        self.cpu[phase]["everything else"] += others - own

    async def stream(self, number: int, stop: asyncio.Event) -> None:
        """Read streams, one after the other; keep the milliseconds between tokens of one stream."""
        wanted = {"regex": f"[a-j]{{2000}}{number}"}
        while not stop.is_set():
            latest = None
            body = body_of(self.path, wanted, max_tokens=400, stream=True)
            try:
                async with self.http.post(f"{self.address}/completions", json=body) as answer:
                    async for line in answer.content:
                        if not line.startswith(b"data: {"):
                            continue
                        latest = self.keep_gap(latest)
                        if stop.is_set():
                            return
            except Exception:  # noqa: BLE001 - the server does not answer: a gap too
                self.keep_gap(latest)
                await asyncio.sleep(1)

    def keep_gap(self, latest: float | None) -> float:
        """Keep the time since the latest token of a stream; gives the time of this one."""
        now = time.perf_counter()
        if latest is not None and self.phase in self.gaps:
            self.gaps[self.phase].append(1000 * (now - latest))
        return now

    async def ask_for_new_formats(self, stop: asyncio.Event) -> None:
        """Send two honest requests a second, each with a new format."""
        tasks, number = [], 0
        while not stop.is_set():
            number += 1
            tasks.append(asyncio.create_task(self.ask_for_new_format(number)))
            await asyncio.sleep(0.5)
        await asyncio.gather(*tasks)

    async def ask_for_new_format(self, number: int) -> None:
        phase, begun = self.phase, time.perf_counter()
        body = json.dumps(body_of(self.path, honest(number), max_tokens=4)).encode()
        status = await status_of(self.http, self.address, body)
        if phase in self.new_formats:
            self.new_formats[phase][status] += 1
            self.waits[phase].append(1000 * (time.perf_counter() - begun))

    async def watch_own_lag(self, stop: asyncio.Event) -> None:
        """Measure how late this client's own loop is (ms), which lengthens all that it measures."""
        while not stop.is_set():
            due = time.perf_counter() + 0.02
            await asyncio.sleep(0.02)
            if self.phase in self.lags:
                self.lags[self.phase].append(1000 * (time.perf_counter() - due))

    async def attack(self, bodies: Sequence[bytes]) -> None:
        """Send hostile requests at a steady rate, whatever the server does with them."""
        begun = time.perf_counter()
        tasks = []
        for number, body in enumerate(bodies):
            await asyncio.sleep(max(0.0, begun + number / self.options.rate - time.perf_counter()))
            tasks.append(asyncio.create_task(self.ask_hostile(body)))
        await asyncio.gather(*tasks)

    async def ask_hostile(self, body: bytes) -> None:
        begun = time.perf_counter()
        status = await status_of(self.http, self.address, body)
        self.times.setdefault(status, []).append(1000 * (time.perf_counter() - begun))


def busy_seconds() -> float:
    """Return the CPU seconds of the whole machine that were not idle."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _by_program(seconds: dict[str, float]) -> dict[str, float]:
    """Sum the CPU seconds of all processes with one name."""
    sums: dict[str, float] = {}
    for process, value in seconds.items():
        program = process.rstrip("0123456789").rstrip()
        sums[program] = round(sums.get(program, 0.0) + value, 1)
    return sums


def show(found: dict[str, Any]) -> str:
    rows, aims = [], []
    for path, figures in found["paths"].items():
        quiet, beside = figures["gaps"]["quiet"], figures["gaps"]["beside"]
        served = figures["new formats"]["beside"]
        share = served.get("200", 0) / max(1, sum(served.values()))
        answers = ", ".join(f"{count} × {status}" for status, count in sorted(figures["hostile"].items()))
        busy = figures["ms of hostile"].get("503", {"p50": 0.0, "p99": 0.0})
        row = [path, quiet["p50"], beside["p50"], quiet["p99"], beside["p99"], beside["p100"], f"{share:.0%}", answers]
        row += [
            f"{busy['p50']}, {busy['p99']}",
            " → ".join(str(sum(held.values())) for held in figures["memory MiB"]),
            figures["threads"],
        ]
        rows.append(row)
        aims.append(aim(f"{path}: p99 of gaps, ms", beside["p99"], max(2 * quiet["p99"], 100)))
        aims.append(aim(f"{path}: new formats served", share, 0.95, at_least=True))
        aims.append(aim(f"{path}: p99 of the time to a 503, ms", busy["p99"], _LONGEST_WAIT))
        for name in ("CPU seconds", "lag of this client, ms"):
            for when, measured in figures[name].items():
                shown = _by_program(measured) if name == "CPU seconds" else measured
                aims.append(f"{path}: {name}, {when}: {', '.join(f'{what} {value}' for what, value in shown.items())}")
    head = ("path", "p50 quiet, ms", "p50 beside", "p99 quiet", "p99 beside", "longest beside", "new formats served")
    more = ("hostile answers", "503 after ms (p50, p99)", "memory, MiB", "threads")
    return "\n".join([markdown((*head, *more), [[str(cell) for cell in row] for row in rows]), "", *aims])
