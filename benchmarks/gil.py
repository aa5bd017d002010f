"""Measure how long other threads are held up: by schemas that compile, and by each other's cold masks.

    python3.11 dev.py bench gil            # writes gil.json

Stalls: one thread does nothing but count, another one compiles real schemas; a stall is the time between two counts.
Two controls say what the machine and the interpreter cost by themselves: counting alone, and beside a loop in Python. A
running Python thread hands over the GIL every `sys.getswitchinterval()`, by default 5 ms; with 0.5 ms only what cannot
be interrupted remains. The longest stall of a round is mostly the machine's, so there are several rounds, with other
schemas in each. `compiling` says, by CPU time, how long compiling holds the GIL.

Warm steps: a token and its mask, again and again, alone and beside one and two threads that compile.

Threads: masks in states that are new, in one thread and then in two threads that do the same at once, beside hashing,
a loop in C of about the same length; once all in one call into the library, once in a call for each mask, beside as
many shorter hashes. Speed-up is twice the time of one thread over that of two at once.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from benchmarks.cases import CASES
from benchmarks.data import Encode, llama3, read_cases
from benchmarks.grammars import GRAMMARS
from benchmarks.harness import aim, markdown, percentiles, take_turns
from formatter_core import Compiler, Vocabulary, bitmask
from formatter_core.errors import FormatterError
from formatter_core.limits.collection import paused_collection

#: Our targets: the longest stall, how much longer a warm step may take beside a compiling thread at the median, its
#: 99th percentile, and how far the speed-up of masks may stay behind that of hashing.
LONGEST_STALL_MS, STEP_GROWTH_MS, STEP_P99_MS, SCALING = 6.0, 0.5, 6.0, 0.15
OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 200},
    "--seed": {"type": int, "default": 1},
    "--rounds": {"type": int, "default": 9},
}
SMOKE = {"schemas": 2, "rounds": 1}
NOTED = 1e-3
COMPILING, ALONE, BESIDE_ONE = "schemas that compile", "alone", "beside one compiling thread"
#: Cases whose cold masks take about 0.1 s together if each is compiled anew so many times.
COLD_CASES, COPIES = ("JSON", "SQL subset", "200 optional properties"), 3


class Counter(threading.Thread):
    """A thread that only counts; `longest` is the most seconds between two counts, if more than a millisecond."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self.count = 0
        self.stopped = False

    def run(self) -> None:
        clock = time.perf_counter
        last = clock()
        while not self.stopped:
            self.count += 1
            now = clock()
            if now - last > NOTED:
                self.longest = max(self.longest, now - last)
            last = now


def longest_stall(work: Callable[[], Any]) -> float:
    """Return the milliseconds of the longest stall of a counting thread beside `work`."""
    counter = Counter()
    counter.start()
    work()
    counter.stopped = True
    counter.join()
    return round(counter.longest * 1e3, 2)


class WarmSteps(threading.Thread):
    """A thread that takes the same steps again and again; `seconds` has the time of each."""

    def __init__(self, compiler: Compiler, encode: Encode) -> None:
        super().__init__(daemon=True)
        case = next(case for case in CASES if case.schema is not None)
        self.formatter = compiler.compile(case.format()).formatter()
        self.tokens = encode(case.texts[0])
        self.row = bitmask.allocate(1, len(compiler.vocabulary))[0]
        self.seconds: list[float] = []
        self.stopped = False
        self.take_all()
        self.seconds.clear()

    def take_all(self) -> None:
        clock = time.perf_counter
        step, row = self.formatter.step, self.row
        self.formatter.reset()
        for token_id in self.tokens:
            before = clock()
            step(token_id, row)
            self.seconds.append(clock() - before)

    def run(self) -> None:
        while not self.stopped:
            self.take_all()


def warm_steps(compiler: Compiler, encode: Encode, works: list[Callable[[], Any]]) -> dict[str, float]:
    """Measure the milliseconds of a warm step while all works are done, one thread each."""
    stepping = WarmSteps(compiler, encode)
    stepping.start()
    seconds_of(works)
    stepping.stopped = True
    stepping.join()
    return percentiles((seconds * 1e3 for seconds in stepping.seconds), (50, 99, 99.9), digits=4)


def compile_all(compiler: Compiler, schemas: list[Any], interval: float = 5e-3) -> None:
    """Compile schemas, with the first mask of each."""
    row = bitmask.allocate(1, len(compiler.vocabulary))[0]
    sys.setswitchinterval(interval)
    for schema in schemas:
        with suppress(FormatterError):
            compiler.compile(schema).formatter().fill_bitmask(row)
    sys.setswitchinterval(5e-3)


def python_loop(seconds: float) -> None:
    """Loop in Python for that long, which never releases the GIL by itself."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def hashing_for(seconds: float) -> Callable[[], Any]:
    """Make a call that hashes for about so long, without the GIL."""
    size = 4_000_000
    before = time.perf_counter()
    hashlib.sha256(bytes(size))
    data = bytes(max(4096, int(size * seconds / (time.perf_counter() - before))))  # short ones would keep the GIL
    return lambda: hashlib.sha256(data)


def seconds_of(works: list[Callable[[], Any]]) -> float:
    """Do all works at once, one thread each, and return the seconds."""
    barrier = threading.Barrier(len(works) + 1)

    def go(work: Callable[[], Any]) -> None:
        barrier.wait()
        work()

    threads = [threading.Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    gc.collect()
    with paused_collection():  # one would take as long as all the masks, and fall into some runs only
        barrier.wait()
        before = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - before


class ColdMasks:
    """Make masks of states that no formatter has seen, of formats compiled for each call."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode, batch: bool) -> None:
        self.compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
        cases = [case for case in GRAMMARS if case.name in COLD_CASES]
        self.texts = [(case.format(), [encode(text) for text in case.texts]) for case in cases] * COPIES
        self.width = len(vocabulary)
        self.batch = batch

    def prepare(self) -> Callable[[], Any]:
        """Prepare one call's work: a formatter for each prefix of each text, and a row for each."""
        formatters = []
        for form, texts in self.texts:
            compiled = self.compiler.compile(form)
            for tokens in texts:
                formatter = compiled.formatter()
                for token_id in tokens:
                    formatters.append(formatter.fork())
                    formatter.accept_token(token_id)
        rows = bitmask.allocate(len(formatters), self.width)
        if self.batch:
            return lambda: bitmask.fill_batch(formatters, rows)

        def one_by_one() -> None:
            for formatter, row in zip(formatters, rows, strict=True):
                formatter.fill_bitmask(row)

        return one_by_one


def speed_ups(kinds: dict[str, Callable[[], Callable[[], Any]]], rounds: int) -> dict[str, dict[str, float]]:
    """Measure each kind of work in one thread, and the speed-up of two; medians, the kinds taking turns."""

    def one_and_two(prepare: Callable[[], Callable[[], Any]]) -> tuple[float, float]:
        return seconds_of([prepare()]), seconds_of([prepare(), prepare()])

    found = take_turns({kind: partial(one_and_two, prepare) for kind, prepare in kinds.items()}, rounds)
    return {
        kind: {
            "seconds": round(statistics.median(one for one, _ in times), 4),
            "speed-up": round(statistics.median(2 * one / two for one, two in times), 3),
        }
        for kind, times in found.items()
    }


def kinds_of_work(vocabulary: Vocabulary, encode: Encode) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Make masks and hash, in one call and in many; each prepares one thread's work."""
    masks, singly = (ColdMasks(vocabulary, encode, batch=batch) for batch in (True, False))
    masks.prepare()()  # what is kept for the vocabulary
    loop = hashing_for(seconds_of([masks.prepare()]))
    count = sum(len(tokens) for _, texts in masks.texts for tokens in texts)
    short = hashing_for(seconds_of([masks.prepare()]) / count)

    def many_loops() -> None:
        for _ in range(count):
            short()

    return {
        "a C loop": lambda: loop,
        "masks, one call for all": masks.prepare,
        "a C loop, many calls": lambda: many_loops,
        "masks, one call each": singly.prepare,
    }


def stalls_in_rounds(vocabulary: Vocabulary, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure the longest stall beside each kind of work: the median over the rounds, and at most."""
    schemas = [case["schema"] for case in read_cases()]
    random.Random(options.seed).shuffle(schemas)
    sets = [schemas[start:][: options.schemas] for start in range(0, len(schemas), options.schemas)]

    def compiling(interval: float) -> Callable[[], Any]:
        compiler, others = Compiler(vocabulary, engine="native", cache_bytes=0), iter(sets)
        compile_all(compiler, [{"type": "object"}])  # the tables of the vocabulary
        return lambda: compile_all(compiler, next(others), interval)

    works: dict[str, Callable[[], Any]] = {
        "nothing else": lambda: time.sleep(1),
        "a loop in Python": lambda: python_loop(1.0),
        COMPILING: compiling(5e-3),
        f"{COMPILING}, switch interval 0.5 ms": compiling(5e-4),
    }
    gc.collect()
    gc.freeze()  # this benchmark's own objects are not to be visited again and again
    found = take_turns({name: partial(longest_stall, work) for name, work in works.items()}, options.rounds)
    return {name: {"median": statistics.median(each), "at most": max(each)} for name, each in found.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    vocabulary, encode = llama3()
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    schemas = [case["schema"] for case in read_cases()]
    random.Random(options.seed + 1).shuffle(schemas)
    compiling = partial(compile_all, compiler, schemas[: options.schemas])
    return {
        "schemas": options.schemas,
        "seed": options.seed,
        "stalls in ms": stalls_in_rounds(vocabulary, options),
        "warm steps in ms": {
            ALONE: warm_steps(compiler, encode, [lambda: time.sleep(1)]),
            BESIDE_ONE: warm_steps(compiler, encode, [compiling]),
            "beside two": warm_steps(compiler, encode, [compiling] * 2),
        },
        "threads": speed_ups(kinds_of_work(vocabulary, encode), options.rounds),
    }


def show(found: dict[str, Any]) -> str:
    """List all figures, and some beside our targets."""
    stalled, steps, threads = found["stalls in ms"], found["warm steps in ms"], found["threads"]
    rows = [(name, *(f"{figure:.2f}" for figure in figures.values())) for name, figures in stalled.items()]
    parts = [markdown(("a counting thread beside", "longest stall in ms, median", "at most"), rows)]
    rows = [(name, *map(str, figures.values())) for name, figures in steps.items()]
    parts.append(markdown(("a warm step, in ms", *steps[ALONE]), rows))
    growth = steps[BESIDE_ONE]["p50"] - steps[ALONE]["p50"]
    aims = [
        aim(f"longest stall beside {COMPILING}, median in ms:", stalled[COMPILING]["median"], LONGEST_STALL_MS),
        aim(f"a warm step {BESIDE_ONE}, growth of the median in ms:", growth, STEP_GROWTH_MS),
        aim(f"a warm step {BESIDE_ONE}, p99 in ms:", steps[BESIDE_ONE]["p99"], STEP_P99_MS),
    ]
    for masks, loop in (("masks, one call for all", "a C loop"), ("masks, one call each", "a C loop, many calls")):
        share = threads[masks]["speed-up"] / threads[loop]["speed-up"]
        what = f"{masks}: speed-up {threads[masks]['speed-up']}, as a share of that of {loop}:"
        aims.append(aim(what, share, 1 - SCALING, at_least=True))
    return "\n\n".join([*parts, "\n".join(aims)])
