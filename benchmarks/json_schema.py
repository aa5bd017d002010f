"""Count the JSON Schemas that each engine passes, refuses and gets wrong, by their valid and invalid documents.

    python3.11 dev.py bench json_schema                                          # 40 schemas of each kind, every engine
    python3.11 dev.py bench json_schema --engines formatter-core --schemas 0     # all schemas
    python3.11 dev.py bench json_schema --engines formatter-core/any --schemas 0 --shuffle
    python3.11 dev.py bench json_schema --cases memory --engines formatter-core/any llguidance xgrammar

`--shuffle` puts the keys of each document in a random order. `--cases memory` takes random schemas with `uniqueItems`,
`minProperties` and `not`, and objects with keys in any order, which need a rule that remembers what came before.
Otherwise the cases are `maskbench/*.jsonl.gz` in $FORMATTER_SHARED: one JSON object a line with `id`, `split`, `schema`
and `tests`, each test a document (`data`) and whether it is `valid`. Each schema runs in a forked child with limits on
CPU time and memory, so that a crash or a hang costs only that schema; parts that all schemas of a vocabulary share are
built before. Times are taken in the child, in states that are new.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import time
from collections.abc import Callable, Iterable
from multiprocessing.pool import ThreadPool
from typing import Any

from benchmarks.cases import Case
from benchmarks.data import Encode, choose, llama3
from benchmarks.engines import DEFAULT, ENGINES, Engine, build
from benchmarks.harness import ChildError, in_child, markdown, percentiles
from benchmarks.schemas import in_schema_order, shuffled, with_memory

#: Outcomes of a schema, best first, with their colors. `key order`: valid documents are rejected only because their
#: keys stand in another order than in the schema, and are accepted once they are put in order.
OUTCOMES = {
    "pass": "#4c9f70",
    "refused": "#b8b8b8",
    "key order": "#a6c8e0",
    "wrong reject": "#e0a030",
    "wrong accept": "#c03030",
    "time-out": "#7050a0",
    "crash": "#202020",
}
#: Errors by which formatter-core refuses; its others are crashes. A peer may refuse with any error.
REFUSALS = ("UnsupportedSchema", "UnsatisfiableSchema", "InvalidSchema", "LimitExceeded")
PLACES = (50, 90, 99, 99.9, 100)
CPU_SECONDS = 20
WARM_UP = Case("object", (), schema={"type": "object"})
OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 40, "help": "of each kind; 0: all"},
    "--seed": {"type": int, "default": 1},
    "--cases": {"choices": ["maskbench", "memory"], "default": "maskbench"},
    "--shuffle": {"action": "store_true", "help": "documents have their keys in a random order"},
    "--parallel": {"type": int, "default": 1, "help": "schemas at once; the times are then of less worth"},
    "--engines": {"nargs": "+", "choices": ENGINES, "default": DEFAULT},
}
SMOKE = {"schemas": 1, "engines": ["formatter-core"]}


def judge(name: str, engine: Engine, ours: Engine, case: dict[str, Any], encode: Encode) -> dict[str, Any]:
    """Judge one schema and its documents, with times in microseconds."""
    wanted = Case(case["id"], (), schema=case["schema"])
    before = time.perf_counter()
    try:
        start = engine.compile(wanted)
        start().mask()
    except Exception as error:  # noqa: BLE001 (how peers refuse)
        kind = type(error).__name__
        refused = not name.startswith("formatter-core") or kind in REFUSALS
        where = {"keyword": getattr(error, "keyword", None), "why": getattr(error, "reason", str(error))[:300]}
        return {"outcome": "refused" if refused else "crash", "error": kind, **where}
    result: dict[str, Any] = {"ttfm": (time.perf_counter() - before) * 1e6, "tbm": []}
    found = {"pass"}
    for test in case["tests"]:
        text = test.get("text") or json.dumps(test["data"], ensure_ascii=False)
        accepted = is_accepted(start, encode(text), result["tbm"])
        if accepted and not test["valid"]:
            found.add("wrong accept")
        elif test["valid"] and not accepted:
            ordered = in_schema_order(ours, wanted, test["data"])
            reordered = ordered not in (None, text) and is_accepted(start, encode(str(ordered)), [])
            found.add("key order" if reordered else "wrong reject")
    return {**result, "outcome": max(found, key=list(OUTCOMES).index)}


def is_accepted(start: Callable[[], Any], tokens: list[int], times: list[float]) -> bool:
    """Tell whether a new sequence takes all tokens and may end then; add the microseconds of each mask and token."""
    sequence = start()
    for token_id in tokens:
        before = time.perf_counter()
        sequence.mask()
        allowed = sequence.accept(token_id)
        times.append((time.perf_counter() - before) * 1e6)
        if not allowed:
            return False
    return bool(sequence.complete())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Judge every schema by every engine."""
    random_cases = with_memory(options.schemas or 100) if options.cases == "memory" else None
    cases = choose(options.schemas, options.seed, random_cases)
    for test in (test for case in cases for test in case["tests"] if options.shuffle):
        test["data"] = shuffled(test["data"], random.Random(options.seed))
    vocabulary, encode = llama3()
    engines = {name: made for name in options.engines if (made := build(name, vocabulary, encode)) is not None}
    ours: Any = engines.get("formatter-core") or build("formatter-core", vocabulary, encode)
    for engine in engines.values():
        engine.compile(WARM_UP)().mask()
    records: list[dict[str, Any]] = []

    def judged(case: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for name, engine in engines.items():
            try:
                result = in_child(lambda name=name, engine=engine: judge(name, engine, ours, case, encode), CPU_SECONDS)  # type: ignore[misc]
            except ChildError as error:
                result = {"outcome": "time-out" if str(error) == "time-out" else "crash", "why": str(error)}
            about = {"id": case["id"], "split": case["split"], "tests": len(case["tests"])}
            found.append({**about, "engine": name, **result})
        return found

    with ThreadPool(options.parallel) as pool:
        for done, found in enumerate(pool.imap(judged, cases), 1):
            records += found
            if done % 200 == 0:
                print(f"{done} of {len(cases)}", flush=True)
    kept = [{key: value for key, value in one.items() if key != "tbm"} for one in records if one["outcome"] != "pass"]
    summaries = summary(records, list(engines))
    for name, engine in engines.items():
        summaries[name]["version"] = engine.version
        if options.cases == "memory":
            summaries[name]["outcomes by kind"] = by_kind(record for record in records if record["engine"] == name)
    return {"cases": len(cases), "engines": summaries, "rows": kept}


def summary(records: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Summarise each engine: outcomes, times, and time ratios over the schemas that the first and it both compile."""
    found: dict[str, Any] = {}
    by_engine = {name: {r["id"]: r for r in records if r["engine"] == name} for name in names}
    for name, mine in by_engine.items():
        counts = collections.Counter(r["outcome"] for r in mine.values())
        tested = [r for r in mine.values() if r["tests"]]
        both = [key for key, r in mine.items() if "ttfm" in r and "ttfm" in by_engine[names[0]].get(key, {})]
        first = percentiles(by_engine[names[0]][key]["ttfm"] for key in both)
        here = percentiles(mine[key]["ttfm"] for key in both)
        reasons = collections.Counter(reason(r) for r in mine.values() if r["outcome"] == "refused")
        found[name] = {
            "schemas": len(mine),
            "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
            "with documents": len(tested),
            "of these pass": sum(r["outcome"] == "pass" for r in tested),
            "ttfm": percentiles((r["ttfm"] for r in mine.values() if "ttfm" in r), PLACES),
            "tbm": percentiles((time for r in mine.values() for time in r.get("tbm", ())), PLACES),
            f"ttfm of {names[0]} over this, {len(both)} schemas": {
                key: round(first[key] / here[key], 2) for key in first
            },
            "refusals": dict(reasons.most_common(40)),
        }
    return found


def by_kind(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Count the outcomes of each kind of schemas."""
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in records:
        found[record["split"]][record["outcome"]] += 1
    return {kind: dict(counts) for kind, counts in sorted(found.items())}


def reason(record: dict[str, Any]) -> str:
    """Name a refusal by error, keyword and reason, without the details of single schemas."""
    why = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "…", record["why"].splitlines()[0])
    return f"{record['error']}, {record['keyword'] or '-'}: {why[:120]}"


def show(found: dict[str, Any]) -> str:
    """Write a column for each engine, and the reasons for refusals."""
    engines = found["engines"]
    columns = [_column(engine) for engine in engines.values()]
    rows = [[what, *(column[what] for column in columns)] for what in columns[0]]
    refusals = [
        [name, reason, str(count)] for name, engine in engines.items() for reason, count in engine["refusals"].items()
    ]
    tables = [markdown(["", *(engine["version"] for engine in engines.values())], rows)]
    kinds = [
        [kind, name, ", ".join(f"{count} {outcome}" for outcome, count in counts.items())]
        for name, engine in engines.items()
        for kind, counts in engine.get("outcomes by kind", {}).items()
    ]
    tables += [markdown(["kind", "engine", "outcomes"], kinds)] if kinds else []
    return "\n\n".join([*tables, *([markdown(["engine", "refused because", "schemas"], refusals)] if refusals else [])])


def _column(engine: dict[str, Any]) -> dict[str, str]:
    """List the figures of an engine's column."""
    counts = {"schemas": engine["schemas"], **engine["outcomes"]}
    counts |= {what: engine[what] for what in ("with documents", "of these pass")}
    places = " / ".join(engine["ttfm"])
    ratios = next(found for what, found in engine.items() if what.startswith("ttfm of"))
    return {
        **{what: str(count) for what, count in counts.items()},
        f"time to first mask, µs: {places}": " / ".join(f"{time:,.0f}" for time in engine["ttfm"].values()),
        f"time between masks, µs: {places}": " / ".join(f"{time:,.0f}" for time in engine["tbm"].values()),
        f"time to first mask of the first engine over this: {' / '.join(ratios)}": " / ".join(
            map(str, ratios.values())
        ),
    }


TITLE = "What each library does with a sample of real JSON Schemas and their documents"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the shares of outcomes."""
    engines = found["engines"]
    figure, axis = pyplot.subplots(figsize=(9, 1.5 + 0.55 * len(engines)), layout="constrained")
    for row, engine in enumerate(engines.values()):
        left = 0.0
        for outcome, color in OUTCOMES.items():
            share = 100 * engine["outcomes"][outcome] / engine["schemas"]
            axis.barh(row, share, left=left, color=color, label=outcome if row == 0 else None)
            if share >= 1:
                axis.text(left + share / 2, row, f"{share:.0f}", ha="center", va="center", fontsize="small")
            left += share
    axis.set_yticks(
        range(len(engines)), [engine["version"].removesuffix(" with native") for engine in engines.values()]
    )
    axis.set(xlabel="% of schemas", xlim=(0, 100))
    axis.invert_yaxis()
    figure.legend(ncols=len(OUTCOMES), fontsize="small", loc="outside upper center", frameon=False)
    return figure
