"""What hostile requests cost the honest ones on a server of vLLM: bodies of at most 64 kB, all different.

    python3.11 dev.py bench vllm_hostile

Honest streams are read token by token, first alone, then beside hostile requests, then alone again; meanwhile honest
requests with new formats come in. Hostile bodies are formats that are costly to compile, or wrong, or costly and wrong.
`--path` says how formats are given: to the logits processor (`vllm_xargs`), or as vLLM's structured outputs, kept by
formatter-core or by xgrammar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import aim, markdown, percentiles

PATHS = ("processor", "backend", "xgrammar")
OPTIONS: dict[str, dict[str, Any]] = {
    "--path": {"nargs": "+", "choices": PATHS, "default": list(PATHS)},
    "--seconds": {"type": float, "default": 60.0},
    "--rate": {"type": float, "default": 20.0, "help": "hostile requests a second"},
    "--streams": {"type": int, "default": 20},
}
SMOKE = {"path": ["processor"], "seconds": 3.0, "rate": 5.0, "streams": 2}

#: A model so wide that a step takes some tens of milliseconds: with the smallest one the server's own work on tokens
#: takes all the time that there is.
_SCALE = 10
_JSON = {"Content-Type": "application/json"}
#: Seconds without hostile requests, before and after.
_QUIET = 15.0


def hostile(number: int) -> dict[str, Any]:
    """One of many kinds of formats, different for each number."""
    rng = random.Random(number)

    def words(count: int, digits: int) -> list[str]:
        return [f"{rng.getrandbits(4 * digits):0{digits}x}" for _ in range(count)]

    def names(count: int) -> list[str]:
        return [f"p{number}_{index}" for index in range(count)]

    text = {"type": "string"}
    unique = {"type": "array", "items": text, "uniqueItems": True}
    kinds: list[dict[str, Any]] = [
        {"regex": f"((a{{1,90}}){{1,90}}){{1,90}}x{number}"},
        {"regex": f"(?=a){number}"},
        {"json": {"type": "string", "allOf": [{"pattern": f"^(a|b)*a(a|b){{{12 + i}}}{number}$"} for i in range(3)]}},
        {"json": {"type": "string", "allOf": [{"pattern": f".*{number}x{i}.{{{3 + i}}}.*"} for i in range(12)]}},
        {"json": {"type": "string", "not": {"enum": words(400, 5)}}},
        {"json": {"anyOf": [{"type": "object", "properties": dict.fromkeys(words(10, 4), text)} for _ in range(60)]}},
        {"json": {"oneOf": [{"properties": {name: {"enum": words(2, 3)} for name in names(6)}} for _ in range(40)]}},
        {"json": {"type": "object", "patternProperties": {f"^{number}.*{i}b": text for i in range(14)}}},
        {"json": {"enum": words(1900, 30)}},
        {"choice": words(1400, 40)},
        {"json": {"type": "object", "properties": {name: {"type": "string", "maxLength": 20} for name in names(1200)}}},
        {"json": {"properties": {name: {"pattern": f"^[a-z]{{3,{number}}}$"} for name in names(60)} | {"z": unique}}},
        {"json": {"type": "number", "multipleOf": 0.000037, "minimum": number / 7, "maximum": 91234567.123}},
        {"json": {"type": "object", "properties": dict.fromkeys(names(100), text), "maxProperties": 30}},
        {"json": json.loads('{"not":' * 80 + f'{{"const": {number}}}' + "}" * 80)},
        {"grammar": "".join(f'r{i} ::= r{(i * 13 + 1) % 300} "x{number}" | "y"\n' for i in range(300)) + "root ::= r0"},
    ]
    return kinds[number % len(kinds)]


def honest(number: int) -> dict[str, Any]:
    """A format such as people use, different for each number."""
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
    with server(path) as (address, memory):
        return asyncio.run(Client(options, path, address, memory).run())


@contextmanager
def server(path: str) -> Iterator[tuple[str, Any]]:
    """The address of a server with a small model, and what tells its memory."""
    from tests.engines_real.vllm_models import make_model
    from tests.engines_real.vllm_processes import memory_of, serve

    with tempfile.TemporaryDirectory() as name:
        model = make_model(Path(name) / "model", scale=_SCALE)
        settings = {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": str(int(path == "backend"))}
        words = ["--structured-outputs-config", '{"backend": "xgrammar"}'] if path == "xgrammar" else []
        with serve(model, Path(name), [*words, "--max-num-seqs", "64"], settings) as (address, process, log):
            try:
                yield address, lambda: memory_of(process)
            except Exception:
                print(log.read_text(errors="replace")[-6000:])
                raise


class Client:
    """Asks the server as many clients would."""

    def __init__(self, options: argparse.Namespace, path: str, address: str, memory: Any) -> None:
        import httpx

        self.options, self.path, self.memory = options, path, memory
        limits = httpx.Limits(max_connections=2000, max_keepalive_connections=200)
        self.http = httpx.AsyncClient(base_url=address, timeout=120, limits=limits)
        self.gaps: dict[str, list[float]] = {"before": [], "beside": [], "after": []}
        self.phase = "warm-up"
        self.answers: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.new_formats: dict[str, Counter[str]] = {name: Counter() for name in self.gaps}
        self.waits: dict[str, list[float]] = {name: [] for name in self.gaps}

    def arguments(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """A format as a part of a request's body."""
        if self.path != "processor":
            return {"structured_outputs": wanted}
        renamed = {"json_schema" if name == "json" else name: value for name, value in wanted.items()}
        return {"vllm_xargs": {"formatter": json.dumps(renamed)}}

    def body(self, wanted: dict[str, Any], **parameters: Any) -> dict[str, Any]:
        return {"model": "small", "prompt": "ab", "temperature": 1.0, **parameters, **self.arguments(wanted)}

    async def run(self) -> dict[str, Any]:
        stop = asyncio.Event()
        streams = [asyncio.create_task(self.stream(number, stop)) for number in range(self.options.streams)]
        news = asyncio.create_task(self.ask_for_new_formats(stop))
        await asyncio.sleep(5)
        held = [self.memory()]
        quiet = min(_QUIET, self.options.seconds)
        for phase, seconds in (("before", quiet), ("beside", self.options.seconds), ("after", quiet)):
            self.phase = phase
            attack = asyncio.create_task(self.attack()) if phase == "beside" else None
            await asyncio.sleep(seconds)
            held.append(self.memory())
            if attack is not None:
                self.phase = "waiting"
                await attack
        self.phase = "end"
        stop.set()
        await asyncio.gather(*streams, news)
        await self.http.aclose()
        return {
            "gaps": {name: percentiles(values, (50, 90, 99, 100)) for name, values in self.gaps.items()},
            "tokens": {name: len(values) for name, values in self.gaps.items()},
            "hostile": dict(self.answers),
            "slowest 503 ms": round(self.slowest.get("503", 0.0), 1),
            "new formats": {name: dict(found) for name, found in self.new_formats.items()},
            "wait of new formats ms": {
                name: percentiles(values, (50, 99)) for name, values in self.waits.items() if values
            },
            "memory MiB": [size >> 20 for size in held],
        }

    async def stream(self, number: int, stop: asyncio.Event) -> None:
        """Read streams, one after the other; keep the milliseconds between tokens of one stream."""
        wanted = {"regex": f"[a-j]{{2000}}{number}"}
        while not stop.is_set():
            latest = None
            body = self.body(wanted, max_tokens=400, stream=True)
            async with self.http.stream("POST", "/completions", json=body) as answer:
                async for line in answer.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    now = time.perf_counter()
                    if latest is not None and self.phase in self.gaps:
                        self.gaps[self.phase].append(1000 * (now - latest))
                    latest = now
                    if stop.is_set():
                        return

    async def ask_for_new_formats(self, stop: asyncio.Event) -> None:
        """Two honest requests a second, each with a format that nobody asked for before."""
        tasks, number = [], 0
        while not stop.is_set():
            number += 1
            tasks.append(asyncio.create_task(self.ask_for_new_format(number)))
            await asyncio.sleep(0.5)
        await asyncio.gather(*tasks)

    async def ask_for_new_format(self, number: int) -> None:
        phase, begun = self.phase, time.perf_counter()
        answer = await self.http.post("/completions", json=self.body(honest(number), max_tokens=4))
        if phase in self.new_formats:
            self.new_formats[phase][str(answer.status_code)] += 1
            self.waits[phase].append(1000 * (time.perf_counter() - begun))

    async def attack(self) -> None:
        """Hostile requests at a steady rate, whatever the server does with them."""
        count = int(self.options.rate * self.options.seconds)
        begun = time.perf_counter()
        tasks = []
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / self.options.rate - time.perf_counter()))
            tasks.append(asyncio.create_task(self.ask_hostile(number)))
        await asyncio.gather(*tasks)

    async def ask_hostile(self, number: int) -> None:
        content = json.dumps(self.body(hostile(number), max_tokens=4))
        assert len(content) <= 2**16 + 4096, len(content)
        begun = time.perf_counter()
        try:
            status = str((await self.http.post("/completions", content=content, headers=_JSON)).status_code)
        except Exception as error:  # noqa: BLE001 - however the server fails
            status = type(error).__name__
        self.answers[status] += 1
        self.slowest[status] = max(self.slowest.get(status, 0.0), 1000 * (time.perf_counter() - begun))


def show(found: dict[str, Any]) -> str:
    """A row for each path, and what is asked of them."""
    rows, aims = [], []
    for path, figures in found["paths"].items():
        gaps = figures["gaps"]
        quiet, busy = statistics.mean([gaps["before"]["p99"], gaps["after"]["p99"]]), gaps["beside"]["p99"]
        served = figures["new formats"]["beside"]
        share = served.get("200", 0) / max(1, sum(served.values()))
        answers = ", ".join(f"{count} × {status}" for status, count in sorted(figures["hostile"].items()))
        row = [path, gaps["before"]["p50"], gaps["beside"]["p50"], f"{quiet:.1f}", busy, gaps["beside"]["p100"]]
        row += [f"{share:.0%}", answers, figures["slowest 503 ms"], " → ".join(map(str, figures["memory MiB"]))]
        rows.append(row)
        aims.append(aim(f"{path}: p99 of gaps, ms", busy, max(2 * quiet, 100)))
        aims.append(aim(f"{path}: new formats served", share, 0.95, at_least=True))
    head = ("path", "p50 quiet, ms", "p50 beside", "p99 quiet", "p99 beside", "longest beside")
    more = ("new formats served", "hostile answers", "slowest 503, ms", "memory, MiB")
    return "\n".join([markdown((*head, *more), [[str(cell) for cell in row] for row in rows]), "", *aims])
