"""Measure how long other tasks of an event loop wait while outputs are awaited.

    python3.11 dev.py bench event_loop          # writes event_loop.json

A task of the loop sleeps for a millisecond again and again; a stall is how much CPU time this process takes until it
runs again, and how much time passes. `streams` reads that many streams of a stand-in server (in a process of its own)
with the asynchronous client, each with snapshots; all of them are open at a time, and 50 chunks a second come from
each. `the client alone` is the same client used directly, without formats. Python's garbage collector is off unless the
name says otherwise: a full collection goes through all objects of a process. `model in a thread` awaits outputs of a
small transformers model behind `async_model`; `model in the loop` calls it without a thread.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from benchmarks.harness import aim, markdown
from formatter_core.generation import Snapshot, async_model, completion
from formatter_openai import openai_model
from formatter_transformers import transformers_model
from tests.adapters.stream_server import streaming

#: The aim of this project, in milliseconds of CPU time.
STALL = 20.0
PAUSE = 0.02
MODEL = Path(__file__).resolve().parents[1] / "examples" / "tiny_model"
OPTIONS: dict[str, dict[str, Any]] = {
    "--streams": {"type": int, "default": 1000},
    "--outputs": {"type": int, "default": 20},
}
SMOKE = {"streams": 20, "outputs": 2}


@dataclass
class Person:
    """Hold the answer that every stream is asked for."""

    name: str
    age: int


async def watched(task: Callable[[], Awaitable[int]]) -> dict[str, float]:
    """Measure how long other tasks of the loop wait while one runs, which returns how many outputs it had."""
    cpu: list[float] = []
    wall: list[float] = []

    async def beat() -> None:
        while True:
            begun, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.001)
            cpu.append(time.process_time() - used)
            wall.append(time.perf_counter() - begun - 0.001)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    cpu.clear()
    wall.clear()
    begun, used = time.perf_counter(), time.process_time()
    outputs = await task()
    spent = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - used}
    await asyncio.sleep(0.01)  # the last stall counts too
    beating.cancel()
    ordered = sorted(wall)
    return {
        "outputs": outputs,
        **spent,
        "longest_cpu_ms": max(cpu) * 1e3,
        "longest_ms": ordered[-1] * 1e3,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1e3,
    }


def client_for(address: str, streams: int) -> Any:
    """Make a client with as many connections."""
    base = openai.DefaultAsyncHttpxClient
    library = next(one for one in base.__mro__ if one.__module__.startswith("httpx")).__module__.partition(".")[0]
    http = base(limits=__import__(library).Limits(max_connections=streams))
    return openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0, timeout=600, http_client=http)


def of_streams(streams: int, *, direct: bool = False, collects: bool = False) -> dict[str, float]:
    """Read many streams of a server."""

    async def main(address: str) -> dict[str, float]:
        client = client_for(address, streams)
        write = completion(openai_model("small", client=client, parallel=streams), Person)

        async def one() -> int:
            return sum([isinstance(event, Snapshot) async for event in write.stream("Who?", snapshots=True)])

        async def one_directly() -> int:
            messages = [{"role": "user", "content": "Who?"}]
            stream = await client.chat.completions.create(model="small", messages=messages, stream=True)
            return sum([bool(chunk.choices) async for chunk in stream])

        async def all_of_them() -> int:
            counts = await asyncio.gather(*((one_directly if direct else one)() for _ in range(streams)))
            return len([count for count in counts if count])

        return await watched(all_of_them)

    with streaming() as warm:
        asyncio.run(warmed(warm.address))
    gc.collect()
    if not collects:
        gc.disable()
    try:
        with streaming(streams, PAUSE) as server:
            return asyncio.run(main(server.address))
    finally:
        gc.enable()


async def warmed(address: str) -> None:
    """Ask for one answer, so that everything is loaded."""
    await completion(openai_model("small", client=client_for(address, 1)), Person)("Who?")


def of_a_model(outputs: int, *, in_thread: bool) -> dict[str, float]:
    """Measure while outputs of a model in this process are awaited."""
    model: Any = transformers_model(str(MODEL))
    if in_thread:
        model = async_model(model)
    write = completion(model, Person, max_tokens=60)

    async def task() -> int:
        for number in range(outputs):
            found = write(f"Person {number}:\n")
            _ = await found if in_thread else found
            await asyncio.sleep(0)
        return outputs

    async def main() -> dict[str, float]:
        _ = await write("x") if in_thread else write("x")
        return await watched(task)

    return asyncio.run(main())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * options.streams + 200)), hard))
    found = {
        f"{options.streams} streams, with snapshots": of_streams(options.streams),
        f"{options.streams} streams, with garbage collection": of_streams(options.streams, collects=True),
        f"{options.streams} streams, the client alone": of_streams(options.streams, direct=True),
        "model in a thread": of_a_model(options.outputs, in_thread=True),
        "model in the loop": of_a_model(options.outputs, in_thread=False),
    }
    return {"cases": found}


def show(found: dict[str, Any]) -> str:
    cases = found["cases"]
    keys = {"outputs": "", "cpu_seconds": ":.1f", "longest_cpu_ms": ":.1f", "p99_ms": ":.1f", "longest_ms": ":.1f"}
    head = ["while these are awaited", "outputs", "CPU s", "longest stall: CPU ms", "99 % of stalls: ms", "longest: ms"]
    rows = [(name, *(f"{{{keys[key]}}}".format(case[key]) for key in keys)) for name, case in cases.items()]
    first = next(iter(cases))
    return "\n".join([markdown(head, rows), "", aim(f"{first}: CPU ms", cases[first]["longest_cpu_ms"], STALL)])
