"""`key_order="any"` beside `"schema"`: verdicts on documents, compile time, and masks of the same documents.

    python3.11 dev.py bench key_orders                        # verdicts of all schemas, times of 300
    python3.11 dev.py bench key_orders --verdicts 400 --times 0

The cases are `maskbench/*.jsonl.gz` in $FORMATTER_SHARED. Verdicts: bytes as vocabulary, each document as written and
with the keys of its objects shuffled. Times: CPU times with the ids of Llama 3, of schemas whose valid documents pass
in both orders, in forked children of a process that has compiled an everyday schema. The orders take turns, and the
written order runs twice: the second is the control. A mask's time is the least of all rounds; `cold` is a mask and its
token in a format that was just compiled, `warm` the same again. At last an object of 40 optional keys, in 100 orders by
100 sequences that take turns.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import resource
import statistics
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import byte_vocabulary, llama3, read_cases, valid_documents
from benchmarks.harness import ChildError, aim, in_child, markdown, percentiles
from formatter_core import CompiledFormat, Compiler, formats
from formatter_core.errors import FormatterError

OPTIONS: dict[str, dict[str, Any]] = {
    "--verdicts": {"type": int, "default": 10_000, "help": "schemas whose documents are judged"},
    "--times": {"type": int, "default": 300, "help": "schemas that are timed"},
    "--rounds": {"type": int, "default": 3},
    "--seed": {"type": int, "default": 7},
}
SMOKE = {"verdicts": 3, "times": 1, "rounds": 1}
EVERYDAY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
}
ORDERS = {"schema": "schema", "any": "any", "control": "schema"}
PLACES = (50, 90, 99)
#: Tokens of one schema's documents, all together.
_MOST_TOKENS = 2000


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Verdicts and times."""
    cases = list(read_cases())
    random.Random(options.seed).shuffle(cases)
    verdicts = {order: judged(cases[: options.verdicts], order) for order in ("schema", "any")}
    times = timed(cases, options) if options.times else {}
    return {"verdicts": verdicts, "times": times, "many keys": many_keys(2 if options.smoke else 100)}


def judged(cases: list[dict[str, Any]], order: Any) -> dict[str, Any]:
    """How many schemas are refused, pass, or err, and why."""
    compiler = Compiler(byte_vocabulary()[0], engine="native")
    counts: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    for case in cases:
        try:
            compiled = compiler.compile(formats.json_schema(case["schema"], key_order=order))
        except FormatterError as error:
            about = getattr(error, "keyword", None) or getattr(error, "limit", None)
            refused[f"{type(error).__name__} {about or ''}".strip()] += 1
            continue
        found = set()
        for test in case["tests"]:
            for name, data in (("", test["data"]), (" shuffled", shuffled(test["data"], random.Random(0)))):
                accepted = is_accepted(compiled, data)
                if accepted != test["valid"]:
                    found.add(f"wrong {'accept' if accepted else 'reject'}{name}")
        counts.update(found)
        counts["pass"] += not any(name in found for name in ("wrong accept", "wrong reject"))
        if any("accept" in name for name in found) or (order == "any" and found):
            wrong.append(f"{case['id']}: {', '.join(sorted(found))}")
    return {"schemas": len(cases), **counts, "refused": refused.total(), "refusals": dict(refused), "wrong": wrong}


def shuffled(data: Any, rng: random.Random) -> Any:
    """The same data with the keys of its objects in a random order."""
    if isinstance(data, list):
        return [shuffled(item, rng) for item in data]
    if isinstance(data, dict):
        return {key: shuffled(data[key], rng) for key in rng.sample(list(data), len(data))}
    return data


def is_accepted(compiled: CompiledFormat[Any], data: Any) -> bool:
    """Whether a sequence takes the data as JSON text, and may end then."""
    formatter = compiled.formatter()
    try:
        formatter.accept_bytes(json.dumps(data, ensure_ascii=False).encode())
    except (FormatterError, UnicodeEncodeError):
        return False
    return formatter.can_stop


def timed(cases: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Times in microseconds, and their ratios to those of the written order."""
    vocabulary, encode = llama3()
    compiler = Compiler(vocabulary, engine="native")
    for order in ("schema", "any"):
        one_round(compiler, EVERYDAY, order, [encode('{"name": "Ann", "tags": ["a", "b"]}')])
    found: dict[str, dict[str, list[list[float]]]] = {order: collections.defaultdict(list) for order in ORDERS}
    done = 0
    for case in cases:
        if done == options.times:
            break
        texts = [json.dumps(document, ensure_ascii=False) for document in valid_documents(case)]
        if not texts:
            continue
        tokens = [encode(text) for text in texts]
        least: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
        try:
            for turn in range(options.rounds):
                for order in random.Random(turn).sample(list(ORDERS), len(ORDERS)):
                    work = partial(one_round, compiler, case["schema"], ORDERS[order], tokens)
                    for what, times in in_child(work, None).items():
                        known = least.setdefault(order, {}).get(what, times)
                        least[order][what] = np.minimum(known, times)
        except ChildError:
            continue
        done += 1
        for order, times_of in least.items():
            for what, times in times_of.items():
                found[order][what].append(times.tolist())
    return {"schemas": done, **{what: compared(found, what) for what in ("first mask", "cold", "warm")}}


def one_round(compiler: Compiler, schema: Any, order: Any, documents: list[list[int]]) -> dict[str, list[float]]:
    """Compile to the first mask, and the masks of documents, twice."""
    row = np.zeros((len(compiler.vocabulary) + 31) // 32, dtype=np.int32)
    before = time.process_time_ns()
    compiled = compiler.compile(formats.json_schema(schema, key_order=order))
    compiled.formatter().fill_bitmask(row)
    times = {"first mask": [(time.process_time_ns() - before) / 1000]}
    for what in ("cold", "warm"):
        times[what] = []
        for tokens in documents:
            formatter = compiled.formatter()
            for token in tokens[: _MOST_TOKENS // len(documents)]:
                before = time.thread_time_ns()
                formatter.step(token, row)
                times[what].append((time.thread_time_ns() - before) / 1000)
    return times


def many_keys(sequences: int) -> dict[str, Any]:
    """Times in microseconds of 40 optional keys, each sequence in an order of its own, and what they add to memory."""
    vocabulary, encode = llama3()
    names = [f"key number {number}" for number in range(40)]
    properties = {name: {"type": "integer"} for name in names}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    compiled = Compiler(vocabulary, engine="native").compile(formats.json_schema(schema, key_order="any"))
    row = np.zeros((len(vocabulary) + 31) // 32, dtype=np.int32)
    texts = [json.dumps(dict.fromkeys(random.Random(seed).sample(names, len(names)), 7)) for seed in range(sequences)]
    waiting = [(compiled.formatter(), iter(encode(text))) for text in texts]
    times: list[float] = []
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while waiting:
        going = [(formatter, token, rest) for formatter, rest in waiting if (token := next(rest, None)) is not None]
        for formatter, token, _ in going:
            before = time.thread_time_ns()
            formatter.step(token, row)
            times.append((time.thread_time_ns() - before) / 1000)
        waiting = [(formatter, rest) for formatter, _, rest in going]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    return {"sequences": sequences, "µs": percentiles(times, (*PLACES, 100)), "MiB": round(grown / 1024, 1)}


def compared(found: dict[str, dict[str, list[list[float]]]], what: str) -> dict[str, Any]:
    """Percentiles of all times with their ratios, and those of the ratios of schemas, each by its mean."""
    means = {order: np.array([statistics.fmean(times) for times in found[order][what]]) for order in ORDERS}
    everything = {
        order: percentiles((time for times in found[order][what] for time in times), PLACES) for order in ORDERS
    }
    written = everything["schema"]
    result: dict[str, Any] = {"µs": everything}
    for order in ("any", "control"):
        result[order] = {
            "ratio of percentiles": {at: round(value / written[at], 2) for at, value in everything[order].items()},
            "ratios of schemas": percentiles(means[order] / means["schema"], PLACES),
            "in total": round(float(means[order].sum() / means["schema"].sum()), 2),
        }
    return result


def show(found: dict[str, Any]) -> str:
    """Tables, and our aims."""
    verdicts = found["verdicts"]
    wrongs = [f"wrong {what}{keys}" for what in ("accept", "reject") for keys in ("", " shuffled")]
    counts = ("schemas", "pass", "refused", *wrongs)
    rows = [(name, *(str(judged.get(name, 0)) for judged in verdicts.values())) for name in counts]
    reasons = sorted({reason for judged in verdicts.values() for reason in judged["refusals"]})
    rows += [(f"- {name}", *(str(judged["refusals"].get(name, 0)) for judged in verdicts.values())) for name in reasons]
    free = verdicts["any"]
    schemas = max(1, free["schemas"])
    wrong = sum(free.get(name, 0) for name in wrongs)
    keys = found["many keys"]
    aims = [
        aim("any order: pass (%)", 100 * free["pass"] / schemas, 98, at_least=True),
        aim("any order: refused (%)", 100 * free["refused"] / schemas, 1.2),
        aim("any order: schemas with a wrong verdict, also on shuffled keys", wrong, 0),
        aim("40 keys in any order: p99 of cold masks (ms)", keys["µs"]["p99"] / 1000, 1),
    ]
    parts = [markdown(["what", *(f'`"{order}"`' for order in verdicts)], rows)]
    times = [
        (what, order, *(f"{compared[order]['ratio of percentiles'][f'p{place}']:.2f}" for place in PLACES))
        for what, compared in found["times"].items()
        if what != "schemas"
        for order in ("any", "control")
    ]
    if times:
        parts.append(markdown(["times over those of the written order", "", *(f"p{place}" for place in PLACES)], times))
    return "\n\n".join([*parts, "\n".join(aims)])
