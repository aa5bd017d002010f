"""How long other threads are held up: by schemas that compile, and by each other's cold masks.

    python3.11 dev.py bench gil            # writes gil.json

Stalls: one thread does nothing but count, another one compiles real schemas; a stall is the time between two counts. A
stall within a call into the native library is counted apart, since no such call keeps the GIL. Two controls stand
beside it, counting alone and beside a loop in Python, which is what the machine and the interpreter cost by themselves:
a running Python thread hands over the GIL every `sys.getswitchinterval()`, by default 5 ms; with 0.5 ms only what
really cannot be interrupted remains. The longest stall of a round is mostly the machine's, so there are several rounds,
with other schemas in each. The kbnf package, whose stalls are no matter of chance, has one.

Warm steps: a token and its mask, again and again, alone and beside one and two threads that compile.

Threads: masks in states never seen before, in one thread and then in two threads at once that do the same each, beside
a C loop of about the same length; once all in one call into the library, once in a call for each mask, beside as many
calls of a shorter C loop. Speed-up is twice the time of one thread over that of two at once.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.data import Encode, llama3, read_cases
from benchmarks.grammars import GRAMMARS
from benchmarks.harness import aim, markdown, percentiles, take_turns
from formatter_core import Compiler, Vocabulary, bitmask
from formatter_core.engine import EngineName, native, native_library, native_schema
from formatter_core.engine.native_calls import MakingCalls, StepCalls
from formatter_core.errors import FormatterError
from formatter_core.limits.collection import paused_collection

LONGEST_NATIVE_MS = 5.0
SCALING = 0.15
OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 200},
    "--seed": {"type": int, "default": 1},
    "--rounds": {"type": int, "default": 9},
    "--engines": {"nargs": "+", "choices": ("native", "kbnf"), "default": ["native", "kbnf"]},
}
SMOKE = {"schemas": 2, "rounds": 1, "engines": ["native"]}
NOTED = 1e-3
COMPILING, WITHIN = "schemas that compile", "longest within a native call"
LONGEST_STALL_MS = 6.0
ALONE, BESIDE_ONE = "alone", "beside one compiling thread"
#: How much longer a warm step may take beside a compiling thread at the median, and what may be its 99th percentile.
STEP_GROWTH_MS, STEP_P99_MS = 0.5, 6.0
LOOP = """
unsigned long long spin(unsigned long long turns) {
    unsigned long long x = 1;
    while (turns--) x = x * 6364136223846793005ull + 1;
    return x;
}
"""
#: Cold masks of about 0.1 s together: cases, and how often each is compiled anew.
COLD_CASES, COPIES = ("JSON", "SQL subset", "200 optional properties"), 3


class Counter(threading.Thread):
    """A thread that only counts; `stalls` are the spans of time longer than a millisecond between two counts."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stalls: list[tuple[float, float]] = []
        self.count = 0
        self.stopped = False

    def run(self) -> None:
        clock = time.perf_counter
        last = clock()
        while not self.stopped:
            self.count += 1
            now = clock()
            if now - last > NOTED:
                self.stalls.append((last, now))
            last = now


@contextmanager
def calls_noted(
    vocabulary: Vocabulary, calls: list[tuple[float, float]], clock: Callable[[], float] = time.perf_counter
) -> Iterator[None]:
    """Note when each call into the native library begins and ends."""
    library = native_library.load()
    tables = native._tables(library, vocabulary)
    functions = {name: getattr(library, name) for name in native_library.PROTOTYPES}
    schemas: Any = native_schema
    steps: tuple[Any, ...] = tables.calls
    making: tuple[Any, ...] = tables.making_calls
    made_by = schemas._library

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            before = clock()
            try:
                return function(*arguments)
            finally:
                calls.append((before, clock()))

        return call

    for name, function in functions.items():
        setattr(library, name, noted(function))
    tables.calls, tables.making_calls = StepCalls(*map(noted, steps)), MakingCalls(*map(noted, making))
    schemas._library = lambda: (library, tables.making_calls)
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(library, name, function)
        tables.calls, tables.making_calls = StepCalls(*steps), MakingCalls(*making)
        schemas._library = made_by


def stalls(vocabulary: Vocabulary, work: Callable[[], Any]) -> dict[str, float]:
    """What a counting thread notices of `work`, in milliseconds."""
    calls: list[tuple[float, float]] = []
    counter = Counter()
    counter.start()
    with calls_noted(vocabulary, calls):
        work()
    counter.stopped = True
    counter.join()
    return {
        "longest": longest(counter.stalls),
        "over 10 ms": sum(end - start > 10e-3 for start, end in counter.stalls),
        WITHIN: longest(overlaps(counter.stalls, calls)),
    }


def overlaps(some: list[tuple[float, float]], others: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans of time that are in one of `some` and in one of `others`."""
    return [
        (max(start, from_), min(end, to))
        for start, end in some for from_, to in others
        if start < to and end > from_
    ]  # fmt: skip


def longest(spans: list[tuple[float, float]]) -> float:
    """In milliseconds."""
    return round(max((end - start for start, end in spans), default=0.0) * 1e3, 2)


class WarmSteps(threading.Thread):
    """A thread that takes the same steps again and again; `seconds` of each."""

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
    """Milliseconds of a warm step while all works are done, one thread each."""
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


def c_loop() -> Callable[[int], int] | None:
    """A loop in C, called through ctypes; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "spin.c"
        source.write_text(LOOP)
        library = Path(folder) / "spin.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        spin = ctypes.CDLL(str(library)).spin
    spin.argtypes = (ctypes.c_ulonglong,)
    spin.restype = ctypes.c_ulonglong
    found: Callable[[int], int] = spin
    return found


def python_loop(seconds: float) -> None:
    """A loop in Python of that length, which never lets go of the GIL by itself."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def spin_for(spin: Callable[[int], int], seconds: float) -> Callable[[], Any]:
    """A call of about that length."""
    before = time.perf_counter()
    spin(20_000_000)
    turns = int(20_000_000 * seconds / (time.perf_counter() - before))
    return lambda: spin(turns)


def seconds_of(works: list[Callable[[], Any]]) -> float:
    """All works at once, one thread each."""
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
    """Masks of states that no formatter has seen, of formats compiled for each call."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode, batch: bool) -> None:
        self.compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
        cases = [case for case in GRAMMARS if case.name in COLD_CASES]
        self.texts = [(case.format(), [encode(text) for text in case.texts]) for case in cases] * COPIES
        self.width = len(vocabulary)
        self.batch = batch

    def prepare(self) -> Callable[[], Any]:
        """One call's work: a formatter for each prefix of each text, and a row for each."""
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
    """For each kind of work, its seconds in one thread and the speed-up of two; medians, the kinds taking turns."""

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


def kinds_of_work(
    spin: Callable[[int], int], vocabulary: Vocabulary, encode: Encode
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Masks and C loops, in one call and in many; each prepares one thread's work."""
    masks, singly = (ColdMasks(vocabulary, encode, batch=batch) for batch in (True, False))
    masks.prepare()()  # what is kept for the vocabulary
    loop = spin_for(spin, seconds_of([masks.prepare()]))
    count = sum(len(tokens) for _, texts in masks.texts for tokens in texts)
    short = spin_for(spin, seconds_of([masks.prepare()]) / count)

    def many_loops() -> None:
        for _ in range(count):
            short()

    return {
        "a C loop": lambda: loop,
        "masks, one call for all": masks.prepare,
        "a C loop, many calls": lambda: many_loops,
        "masks, one call each": singly.prepare,
    }


def stalls_in_rounds(vocabulary: Vocabulary, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """For each kind of work, what a counting thread notices in each round."""
    schemas = [case["schema"] for case in read_cases()]
    random.Random(options.seed).shuffle(schemas)
    sets = [schemas[start:][: options.schemas] for start in range(0, len(schemas), options.schemas)]

    def compiling(engine: EngineName, interval: float = 5e-3) -> Callable[[], Any]:
        compiler, others = Compiler(vocabulary, engine=engine, cache_bytes=0), iter(sets)
        compile_all(compiler, [{"type": "object"}])  # the tables of the vocabulary
        return lambda: compile_all(compiler, next(others), interval)

    works: dict[str, Callable[[], Any]] = {
        "nothing else": lambda: time.sleep(1),
        "a loop in Python": lambda: python_loop(1.0),
        COMPILING: compiling("native"),
        f"{COMPILING}, switch interval 0.5 ms": compiling("native", 5e-4),
    }
    gc.collect()
    gc.freeze()  # what this benchmark itself keeps is not to be gone through again and again
    noticed = {name: partial(stalls, vocabulary, work) for name, work in works.items()}
    found = take_turns(noticed, options.rounds)
    if "kbnf" in options.engines:
        found[f"{COMPILING}, kbnf package"] = [stalls(vocabulary, compiling("kbnf"))]
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Stalls beside each kind of work, warm steps beside compiling threads, and the speed-ups of two threads."""
    vocabulary, encode = llama3()
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    schemas = [case["schema"] for case in read_cases()]
    random.Random(options.seed + 1).shuffle(schemas)
    compiling = partial(compile_all, compiler, schemas[: options.schemas])
    spin = c_loop()
    return {
        "schemas": options.schemas,
        "seed": options.seed,
        "stalls in ms": stalls_in_rounds(vocabulary, options),
        "warm steps in ms": {
            ALONE: warm_steps(compiler, encode, [lambda: time.sleep(1)]),
            BESIDE_ONE: warm_steps(compiler, encode, [compiling]),
            "beside two": warm_steps(compiler, encode, [compiling] * 2),
        },
        "threads": {} if spin is None else speed_ups(kinds_of_work(spin, vocabulary, encode), options.rounds),
    }


def show(found: dict[str, Any]) -> str:
    """All figures, and those that this project holds itself to beside their limits."""
    stalled, steps, threads = found["stalls in ms"], found["warm steps in ms"], found["threads"]

    def over_rounds(name: str, what: str) -> list[float]:
        return [one[what] for one in stalled[name]]

    rows = []
    for name in stalled:
        whole, within = (over_rounds(name, what) for what in ("longest", WITHIN))
        rows.append((name, *(f"{of(figures):.2f}" for figures in (whole, within) for of in (statistics.median, max))))
    head = (
        "a counting thread beside",
        "longest stall in ms, median",
        "at most",
        "within a native call, median",
        "at most",
    )
    parts = [markdown(head, rows)]
    rows = [(name, *map(str, figures.values())) for name, figures in steps.items()]
    parts.append(markdown(("a warm step, in ms", *steps[ALONE]), rows))
    longest_stall = statistics.median(over_rounds(COMPILING, "longest"))
    aims = [aim(f"longest stall beside {COMPILING}, median in ms:", longest_stall, LONGEST_STALL_MS)]
    aims += [
        aim(f"longest stall within a native call, {name}, median in ms:", statistics.median(within), LONGEST_NATIVE_MS)
        for name in stalled
        if any(within := over_rounds(name, WITHIN))
    ]
    growth = steps[BESIDE_ONE]["p50"] - steps[ALONE]["p50"]
    aims.append(aim(f"a warm step {BESIDE_ONE}, growth of the median in ms:", growth, STEP_GROWTH_MS))
    aims.append(aim(f"a warm step {BESIDE_ONE}, p99 in ms:", steps[BESIDE_ONE]["p99"], STEP_P99_MS))
    for masks, loop in (("masks, one call for all", "a C loop"), ("masks, one call each", "a C loop, many calls")):
        if masks in threads:
            share = threads[masks]["speed-up"] / threads[loop]["speed-up"]
            what = f"{masks}: speed-up {threads[masks]['speed-up']}, as a share of that of {loop}:"
            aims.append(aim(what, share, 1 - SCALING, at_least=True))
    return "\n\n".join([*parts, "\n".join(aims)])
