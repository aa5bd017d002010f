"""Measure what formats cost to compile, and for how long compiling keeps other threads from running.

    python3.11 dev.py bench compiling           # writes compiling.json

Ratios: types of four fields divided by the `dict` of their schema, both compiled anew, in turns; pydantic's own share,
which makes a schema of a model, is listed apart. Then the first `result()` of a schema of 300 properties beside the
second, and the holds of the GIL for unions of tagged models, lists of real tools and large schemas.

Holds: every call into the native library releases the GIL, and so does Python code that gives way. A hold is the CPU
time of the compiling thread between two releases, so other jobs do not lengthen it; nothing else releases the GIL
before Python's own switch interval (5 ms). Calls shorter than `MOMENT` do not end a hold: a waiting thread is not awake
before they are over. The time of pydantic is a hold of its own, listed apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import make_dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union

import pydantic

from benchmarks.data import llama3, read_cases, real_tools
from benchmarks.harness import markdown
from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine import native, native_library, native_schema
from formatter_core.engine.native_calls import MakingCalls, StepCalls
from formatter_core.errors import FormatterError
from formatter_core.limits import turns

OPTIONS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "default": 15},
    "--pairs": {"type": int, "default": 300, "help": "compiles of each type of four fields and of its dict"},
    "--large": {"type": int, "default": 20, "help": "how many of the largest schemas of maskbench"},
}
SMOKE = {"rounds": 1, "pairs": 2, "large": 1}
#: Seconds that a waiting thread needs to take over.
MOMENT = 5e-5
TOOLS = 128
LAYOUTS = "llama3-json", "qwen3-coder"


class Named(NamedTuple):
    name: str
    age: int
    score: float
    active: bool


class Typed(TypedDict):
    name: str
    age: int
    score: float
    active: bool


#: Not written as a class, where this module's future import would make texts of the annotations.
Data = make_dataclass("Data", [("name", str), ("age", int), ("score", float), ("active", bool)])


class Model(pydantic.BaseModel):
    name: str
    age: int
    score: float
    active: bool


FOUR_FIELDS: dict[str, Any] = {"NamedTuple": Named, "dataclass": Data, "TypedDict": Typed, "pydantic model": Model}


def tagged(count: int) -> Any:
    """Make a union of dataclasses with a tag."""
    made = [
        make_dataclass(f"Tagged{place}", [("kind", Literal[f"kind{place}"]), ("name", str), ("size", int)])
        for place in range(count)
    ]
    return Union[tuple(made)]  # noqa: UP007 - made of a list


def tagged_models(count: int) -> Any:
    """Make such a union of pydantic models, with a discriminator."""
    create: Any = pydantic.create_model
    made = [
        create(f"Model{place}", kind=(Literal[f"kind{place}"], ...), name=(str, ...), size=(int, ...))
        for place in range(count)
    ]
    return Annotated[Union[tuple(made)], pydantic.Field(discriminator="kind")]  # noqa: UP007 - made of a list


def plain_tools(count: int) -> list[dict[str, Any]]:
    """Return the first real tools that every layout can write."""
    tools = real_tools("Glaiveai2K")
    schemas = ((tool, tool["function"]["parameters"]) for tool in tools)
    return [tool for tool, schema in schemas if schema.get("type") == "object" and "oneOf" not in schema][:count]


def many_properties(count: int) -> dict[str, Any]:
    """Make the schema of a closed object."""
    numbers = {"type": "array", "items": {"type": "number"}}
    kinds: list[Any] = [{"type": "string"}, {"type": "integer"}, {"enum": ["a", "b"]}, numbers]
    properties = {f"property{place}": kinds[place % len(kinds)] for place in range(count)}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def large_schemas(count: int, compiler: Compiler) -> dict[str, Any]:
    """Return the schemas with the longest texts that compile."""
    cases = sorted(read_cases(), key=lambda case: len(json.dumps(case["schema"])), reverse=True)
    found: dict[str, Any] = {}
    for case in cases:
        if len(found) == count:
            break
        try:
            compiler.compile(json.dumps(case["schema"]))
        except FormatterError:
            continue
        found[case["id"]] = json.dumps(case["schema"])
    return found


def compile_tools(compiler: Compiler, layout: str, tools: list[dict[str, Any]]) -> Any:
    """Compile the answers that may call these tools."""
    return compiler.compile(formats.chat_answer(layout, tools=tools))


class Holds:
    """Hold what ends the holds of one thread, see the module."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, float]] = []
        #: When Python code gave way.
        self.breaks: list[float] = []
        #: CPU time in pydantic, and its longest stretch without a release.
        self.pydantic: list[tuple[float, float]] = []

    def of(self, begin: float, end: float) -> list[float]:
        """Return the seconds of each hold between two times."""
        long = [(entered, left) for entered, left in self.calls if left - entered >= MOMENT]
        released = sorted([*long, *((moment, moment) for moment in self.breaks)])
        ends, begins = [begin, *(left for _, left in released)], [*(entered for entered, _ in released), end]
        short = [(entered, left) for entered, left in self.calls if left - entered < MOMENT]
        holds = []
        for start, stop in zip(ends, begins, strict=True):
            inside = (each for each in (*short, *self.pydantic) if start <= each[0] and each[1] <= stop)
            holds.append(stop - start - sum(left - entered for entered, left in inside))
        return holds


@contextmanager
def calls_noted(vocabulary: Vocabulary, calls: list[tuple[float, float]], clock: Callable[[], float]) -> Iterator[None]:
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


@contextmanager
def noted(vocabulary: Vocabulary) -> Iterator[Holds]:
    """Note what ends holds, and what pydantic does."""
    found = Holds()
    clock, module = time.thread_time, vars(turns)
    sleep = module["sleep"]

    def sleeping(seconds: float) -> None:
        sleep(seconds)
        found.breaks.append(clock())

    module["sleep"] = sleeping
    try:
        with calls_noted(vocabulary, found.calls, clock), pydantic_noted(found.pydantic):
            yield found
    finally:
        module["sleep"] = sleep


@contextmanager
def pydantic_noted(times: list[tuple[float, float]]) -> Iterator[None]:
    """Note when pydantic makes adapters and schemas."""
    adapter, clock = pydantic.TypeAdapter, time.thread_time
    before = {name: getattr(adapter, name) for name in ("__init__", "json_schema")}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            entered = clock()
            try:
                return function(*given, **named)
            finally:
                times.append((entered, clock()))

        return call

    for name, function in before.items():
        setattr(adapter, name, timed(function))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(adapter, name, function)


def holds_of(vocabulary: Vocabulary, work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Measure a piece of work: milliseconds in the first round, and medians of these and of its holds."""
    rows = []
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()  # Python code gives way if there are others
    for _ in range(rounds):
        with noted(vocabulary) as found:
            begin = time.thread_time()
            made = work()
            end = time.thread_time()
        del made
        each = found.of(begin, end)
        own = sum(left - entered for entered, left in found.pydantic)
        rows.append((end - begin, sum(each), max(each), own))
    over.set()
    whole, held, longest, own = (statistics.median(column) * 1e3 for column in zip(*rows, strict=True))
    return {
        "first": round(rows[0][0] * 1e3, 3),
        "ms": round(whole, 3),
        "held": round(held, 3),
        "share": round(held / whole, 3),
        "longest": round(longest, 3),
        "pydantic": round(own, 3),
    }


def paired(ours: Callable[[], Any], base: Callable[[], Any], pairs: int) -> tuple[float, float]:
    """Measure CPU seconds of two calls: the medians of many that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(pairs):
        for which in (0, 1) if turn % 2 else (1, 0):
            begin = time.thread_time()
            made = (ours, base)[which]()
            times[which].append(time.thread_time() - begin)
            del made
    return statistics.median(times[0]), statistics.median(times[1])


def ratios(compiler: Compiler, pairs: int) -> dict[str, dict[str, float]]:
    """Measure microseconds of each type and of its dict, with pydantic's own share."""
    found = {}
    for name, tp in FOUR_FIELDS.items():
        schema = json.loads(formats.python_type(tp).schema.text)
        ours, base = paired(partial(compiler.compile, tp), partial(compiler.compile, schema), pairs)
        own: list[tuple[float, float]] = []
        with pydantic_noted(own):
            for _ in range(pairs):
                compiler.compile(tp)
        share = sum(left - entered for entered, left in own) / pairs
        found[name] = {
            "us": round(ours * 1e6, 1),
            "dict": round(base * 1e6, 1),
            "pydantic": round(share * 1e6, 1),
            "ratio": round((ours - share) / base, 2),
        }
    return found


def first_results(compiler: Compiler, rounds: int) -> dict[str, float]:
    """Measure milliseconds of the first and the second `result()` of a schema of 300 properties."""
    schema = many_properties(300)
    kinds: dict[int, Any] = {0: "a text", 1: 12, 2: "a", 3: [1.5, 2]}
    document = {name: kinds[place % 4] for place, name in enumerate(schema["properties"])}
    text = json.dumps(document).encode()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        compiled = compiler.compile(schema)
        for which in (0, 1):
            formatter = compiled.formatter()
            formatter.accept_bytes(text)
            begin = time.thread_time()
            formatter.result()
            times[which].append(time.thread_time() - begin)
    first, second = (round(statistics.median(one) * 1e3, 3) for one in times)
    return {"first": first, "second": second}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    vocabulary, _ = llama3()
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    compiler.compile({"type": "object"})
    large = large_schemas(options.large, compiler)
    tools = plain_tools(TOOLS)
    works: dict[str, Callable[[], Any]] = {
        **{name: partial(compiler.compile, tp) for name, tp in FOUR_FIELDS.items()},
        "dict of four fields": partial(compiler.compile, json.loads(formats.python_type(Named).schema.text)),
        **{f"{count} tagged dataclasses": partial(compiler.compile, tagged(count)) for count in (40, 200)},
        **{f"{count} tagged models": partial(compiler.compile, tagged_models(count)) for count in (40, 200)},
        **{f"{TOOLS} tools, {layout}": partial(compile_tools, compiler, layout, tools) for layout in LAYOUTS},
        "300 properties": partial(compiler.compile, many_properties(300)),
        **{name: partial(compiler.compile, text) for name, text in large.items()},
    }
    for work in list(works.values())[: len(FOUR_FIELDS) + 1]:
        for _ in range(20):
            work()
    gc.collect()
    gc.freeze()
    return {
        "ratios": ratios(compiler, options.pairs),
        "first result in ms": first_results(compiler, options.rounds),
        "holds": {name: holds_of(vocabulary, work, options.rounds) for name, work in works.items()},
    }


def show(found: dict[str, Any]) -> str:
    head = ("type of four fields", "µs", "dict, µs", "of it pydantic, µs", "ratio without that")
    rows = [(name, *(f"{value}" for value in row.values())) for name, row in found["ratios"].items()]
    parts = [markdown(head, rows)]
    results = found["first result in ms"]
    parts.append(f"first and second result() of 300 properties, ms: {results['first']}, {results['second']}")
    rows = [(name, *map(str, row.values()), missed(row)) for name, row in found["holds"].items()]
    parts.append(
        markdown(("compiling", "first, ms", "ms", "held, ms", "share", "longest hold, ms", "pydantic, ms", ""), rows)
    )
    return "\n\n".join(parts)


def missed(row: dict[str, float]) -> str:
    """List the targets that are missed: no hold above 1 ms; a tenth of 1 ms and more, else 60 µs in all."""
    wrong = ["hold"] if row["longest"] > 1 else []
    is_missed = row["share"] > 0.1 if row["ms"] - row["pydantic"] >= 1 else row["held"] > 0.06
    return " ".join(["MISSED:", *wrong, *(["share"] if is_missed else [])]) if wrong or is_missed else ""
