"""Measure the time to the first mask of a JSON Schema from its text, with only the vocabulary cached; and llguidance's.

    python3.11 dev.py bench schema_times                  # 40 schemas of each kind, all three ways

Three ways, each over the schemas that both engines compile, the engines taking turns:

- `process`: all schemas in this process, one after the other;
- `warmed children`: each schema in a forked child that compiles one everyday schema first, which is new to it too. So
  the code has run, and parts that all schemas share are there (strings, numbers, common formats), but no part of the
  measured schema has been seen;
- `children`: the same without the everyday schema. The first write to any page of memory copies it, and such copies
  take most of the time.

Then the time to compile a schema that is in the compiler's cache, and to read the compiled format from bytes, as
shares of the time to compile it.

Times are CPU time of the process, so that other jobs matter less; `compiling` says how much of it holds the GIL. The
cases are those of `json_schema.py`.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from benchmarks.data import Encode, choose, llama3
from benchmarks.engines import ENGINES
from benchmarks.harness import ChildError, in_child, markdown, percentiles, seconds_axis
from formatter_core import Compiler, Vocabulary, bitmask, formats

MICROSECONDS = 1e6
PLACES = ("p50", "p90", "p99")
OURS, PEER = "formatter-core", "llguidance"
WAYS = {
    "process": "in one process",
    "warmed children": "each in a forked child that has compiled an everyday schema",
    "children": "each in a forked child that has not",
}
CALIBRATIONS = 10_000
#: Compilations of the everyday schema before anything is measured: Python adapts code to its use.
WARM_UPS = 20
LOOK_UPS = 5
OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 40, "help": "of each kind; 0: all"},
    "--seed": {"type": int, "default": 1},
    "--rounds": {"type": int, "default": 1, "help": "each in a child of its own; a schema's time is its median"},
    "--ways": {"nargs": "+", "choices": WAYS, "default": WAYS},
}
SMOKE = {"schemas": 2}

EVERYDAY = json.dumps(
    {
        "type": "object",
        "properties": {
            "street": {"type": "string", "description": "and number", "minLength": 1},
            "floor": {"type": "integer", "minimum": 0},
            "rooms": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "kind": {"enum": ["bath", "bed"]},
                        "heated": {"type": "boolean"},
                        "area": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    },
                    "required": ["kind"],
                    "additionalProperties": False,
                },
            },
            "door": {"$ref": "#/$defs/word"},
            "garden": {"allOf": [{"$ref": "#/$defs/area"}, {"required": ["size"]}]},
            "notes": {
                "type": "object",
                "patternProperties": {"^x-": {"type": "string"}},
                "additionalProperties": False,
            },
            **{name: {"type": "string", "format": name} for name in ("date", "date-time", "email", "uri", "uuid")},
        },
        "required": ["street", "rooms"],
        "$defs": {
            "word": {"type": "string", "pattern": "^[a-z]+$"},
            "area": {"type": "object", "properties": {"size": {"type": "number", "maximum": 1000}}},
        },
    }
)
#: The everyday schema with another pattern, other bounds and names, because these are kept for other schemas.
ANOTHER = EVERYDAY.replace("a-z", "a-y").replace("1000", "2000").replace("^x-", "^y-").replace("size", "hectares")

#: Microseconds; None if the engine refuses.
Measured = float | None
Compile = Callable[[str], object]


def engines(vocabulary: Vocabulary, encode: Encode) -> dict[str, Compile]:
    """Return for each engine a function that compiles a schema's text and computes its first mask."""
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    row = bitmask.allocate(1, len(vocabulary))[0]
    peer: Any = ENGINES[PEER](vocabulary, encode)

    def ours(text: str) -> None:
        compiler.compile(formats.json_schema(text)).formatter().fill_bitmask(row)

    def theirs(text: str) -> None:
        matcher = peer.library.LLMatcher(peer.tokenizer, peer.library.LLMatcher.grammar_from_json_schema(text))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        peer.fill(matcher, peer.rows, 0)

    return {OURS: ours, PEER: theirs}


def measure_one(compile_text: Compile, text: str, *, before: str | None = None) -> Measured:
    """Compile one schema; if another one is given, after that."""
    try:
        if before is not None:
            compile_text(before)
        return cpu_time(partial(compile_text, text)) * MICROSECONDS
    except Exception:  # noqa: BLE001 (how peers refuse)
        return None


def measure_in_child(compile_text: Compile, text: str, *, warm: bool) -> Measured:
    """Compile one schema in a forked child."""
    try:
        found: Measured = in_child(partial(measure_one, compile_text, text, before=ANOTHER if warm else None), None)
    except ChildError:
        return None
    return found


def run(compilers: dict[str, Compile], texts: list[str], way: str) -> list[dict[str, Measured]]:
    """Measure each engine with each schema that all compile."""
    found = []
    for turn, text in enumerate(texts):
        names = list(compilers) if turn % 2 else list(reversed(compilers))
        measured: dict[str, Measured] = {}
        for name in names:
            if way == "process":
                measured[name] = measure_one(compilers[name], text)
            else:
                measured[name] = measure_in_child(compilers[name], text, warm=way == "warmed children")
        if None not in measured.values():
            found.append(measured)
    return found


def both_compile(compilers: dict[str, Compile], texts: list[str]) -> list[str]:
    """Return the texts that no engine refuses."""
    return [text for text in texts if all(measure_one(each, text) is not None for each in compilers.values())]


def compiled_again(vocabulary: Vocabulary, texts: list[str]) -> dict[str, list[tuple[float, float]]]:
    """Measure the seconds to compile each text, to compile it again, and to read the compiled format from bytes.

    The time of the clock itself, up to a tenth of the latter, is subtracted.
    """
    compiler = Compiler(vocabulary, engine="native")
    found: dict[str, list[tuple[float, float]]] = {"found in the cache": [], "read from bytes": []}

    def compiled(text: str) -> object:
        return compiler.compile(formats.json_schema(text))

    def read(data: bytes) -> object:
        return compiler.from_bytes(data)

    clock = statistics.median(cpu_time(lambda: None) for _ in range(CALIBRATIONS))
    for text in dict.fromkeys(texts):
        first = cpu_time(partial(compiled, text)) - clock
        data = compiler.compile(formats.json_schema(text)).to_bytes()
        for name, again in zip(found, (partial(compiled, text), partial(read, data)), strict=True):
            found[name].append((first, statistics.median(cpu_time(again) for _ in range(LOOK_UPS)) - clock))
    return found


def shares_of_compiling(rounds: list[dict[str, list[tuple[float, float]]]]) -> dict[str, dict[str, Any]]:
    """Divide the times to compile again by those to compile: percentiles over the schemas, and all together."""
    shares: dict[str, dict[str, Any]] = {}
    for name in rounds[0]:
        schemas = zip(*(found[name] for found in rounds), strict=True)
        each = [statistics.median(again / first for first, again in same) for same in schemas]
        totals = [[sum(times) for times in zip(*found[name], strict=True)] for found in rounds]
        of_all = sorted(again / first for first, again in totals)
        shares[name] = percentiles(each, digits=4) | {
            "of all time": round(statistics.median(of_all), 4),
            "bounds": [round(of_all[0], 4), round(of_all[-1], 4)],
        }
    return shares


def cpu_time(call: Callable[[], object]) -> float:
    """Return the seconds of this process that a call takes."""
    before = time.process_time()
    made = call()
    spent = time.process_time() - before
    del made  # freeing it does not count
    return spent


def over_rounds(rounds: list[list[dict[str, Measured]]]) -> dict[str, Any]:
    """Summarise each schema's medians, with bounds of the ratios of single rounds.

    The control is one round of the peer over another.
    """
    records = [
        {name: statistics.median(each[name] or 0.0 for each in same) for name in (OURS, PEER)}
        for same in zip(*rounds, strict=True)
    ]
    result = summary(records) | {"rounds": len(rounds), "milliseconds": milliseconds(records)}
    if len(rounds) > 1:
        each = [summary(found) for found in rounds]
        peers = [one["microseconds"][PEER] for one in each]
        ratios: dict[str, list[float]] = {place: sorted(one["ratios"][place] for one in each) for place in PLACES}
        control = {place: [one[place] / other[place] for one, other in combinations(peers, 2)] for place in PLACES}
        result["bounds"] = {place: [found[0], found[-1]] for place, found in ratios.items()}
        result["control"] = {place: [round(min(all_), 2), round(max(all_), 2)] for place, all_ in control.items()}
    return result


def summary(records: Sequence[Mapping[str, Measured]]) -> dict[str, Any]:
    """Compute percentiles in microseconds, and their ratios."""
    times = {name: percentiles((record[name] or 0.0 for record in records), (50, 90, 99, 100)) for name in (OURS, PEER)}
    return {
        "schemas": len(records),
        "microseconds": times,
        "ratios": {place: round(times[OURS][place] / times[PEER][place], 2) for place in PLACES},
    }


def milliseconds(records: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """List the times of each engine within which each whole percentage of the schemas is compiled, from 0 to 100."""
    ordered = {name: sorted(round(record[name] / 1e3, 3) for record in records) for name in (OURS, PEER)}
    places = [round(share * (len(records) - 1) / 100) for share in range(101)]
    return {name: [times[place] for place in places] for name, times in ordered.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all ways, children first, while nothing has been compiled."""
    texts = [json.dumps(case["schema"]) for case in choose(options.schemas, options.seed)]
    vocabulary, encode = llama3()
    compilers = engines(vocabulary, encode)
    for _ in range(WARM_UPS):
        for compile_text in compilers.values():
            compile_text(EVERYDAY)
    gc.collect()
    gc.freeze()  # the cases and the vocabularies are no garbage, and in a child no page of theirs is written to
    results: dict[str, Any] = {}
    texts = in_child(partial(both_compile, compilers, texts), cpu_seconds=None)

    def rounds(work: Callable[[], Any]) -> list[Any]:
        return [in_child(work, cpu_seconds=None) for _ in range(options.rounds)] if options.rounds > 1 else [work()]

    for way in sorted(options.ways, key=list(WAYS).index, reverse=True):
        results[way] = over_rounds(rounds(partial(run, compilers, texts, way)))
    return {"ways": results, **shares_of_compiling(rounds(partial(compiled_again, vocabulary, texts)))}


def show(found: dict[str, Any]) -> str:
    """Write a row for each way, and one for each way not to compile again."""
    rows = []
    for way, one in found["ways"].items():
        times = [
            " / ".join(f"{one['microseconds'][name][place] / 1e3:.3g}" for place in PLACES) for name in (OURS, PEER)
        ]
        ratios = " / ".join(f"{one['ratios'][place]:.2f}" for place in PLACES)
        bounds = [
            " / ".join(f"{low:.2f}–{high:.2f}" for low, high in (one[key][place] for place in PLACES))
            if key in one
            else ""
            for key in ("bounds", "control")
        ]
        rows.append([WAYS[way], f"{one['schemas']} × {one['rounds']}", *times, ratios, *bounds])
    head = ["CPU time, ms: p50 / p90 / p99", "schemas × rounds", OURS, PEER, "ratio", "of single rounds"]
    head.append(f"{PEER}, a round over another")
    again = [
        [name, *(f"{found[name][place]:.3f}" for place in (*PLACES, "of all time"))]
        for name in ("found in the cache", "read from bytes")
    ]
    shares = markdown(["share of the first compile", *PLACES, "of all time"], again)
    return f"{markdown(head, rows)}\n\n{shares}"


TITLE = "Time to the first mask of a JSON Schema, from its text"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the share of the schemas that are compiled within each time."""
    ways = found["ways"]
    figure, axes = pyplot.subplots(1, len(ways), figsize=(4.2 * len(ways), 3.4), sharey=True, squeeze=False)
    for axis, (way, one) in zip(axes[0], ways.items(), strict=True):
        for name, times in one["milliseconds"].items():
            axis.plot([time / 1000 for time in times], range(len(times)), label=name)
        seconds_axis(axis)
        axis.minorticks_off()
        axis.set_xlabel("time to first mask")
        axis.set_title(WAYS[way], fontsize="small")
        axis.grid(visible=True, alpha=0.3)
    axes[0][0].set_ylabel("% of the schemas")
    axes[0][0].legend(fontsize="small")
    figure.tight_layout()
    return figure
