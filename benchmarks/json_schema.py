"""JSON Schemas with valid and invalid documents: what each engine passes, refuses, and gets wrong.

    python -m benchmarks.json_schema --output json_schema                # 40 schemas of each kind, every engine
    python -m benchmarks.json_schema --engines formatter-core --schemas 0     # all schemas

The cases are `maskbench/*.jsonl.gz` in $FORMATTER_SHARED: one JSON object a line with `id`, `split`, `schema` and
`tests`, each test a document (`data`) and whether it is `valid`. Each schema runs in a forked child with limits on CPU
time and memory, so that a crash or a hang costs only that schema; what is built once for each vocabulary is built
before. Times are taken in the child, states seen for the first time.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import random
import re
import resource
import signal
from collections.abc import Iterator
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from benchmarks.cases import Case
from benchmarks.engines import ENGINES, Engine
from benchmarks.masks import WARM_UP, build, llama3, now
from benchmarks.schema_order import in_schema_order

#: What may become of a schema, best first. `key order`: the only valid documents that are rejected have their keys in
#: another order than the schema, and are accepted once they are put in order.
OUTCOMES = ("pass", "refused", "key order", "wrong reject", "wrong accept", "time-out", "crash")
COLORS = ("#4c9f70", "#b8b8b8", "#a6c8e0", "#e0a030", "#c03030", "#7050a0", "#202020")
#: How formatter-core refuses; any other error of its own is a crash. A peer may refuse with any error.
REFUSALS = ("UnsupportedSchema", "UnsatisfiableSchema", "InvalidSchema", "LimitExceeded")
CPU_SECONDS, GIBIBYTES = 20, 8
WARM_UPS = [WARM_UP, Case("object", (), schema={"type": "object"})]


def read_cases(shared: Path) -> Iterator[dict[str, Any]]:
    """All cases, in the order of the files."""
    for path in sorted((shared / "maskbench").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def choose(cases: Iterator[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """So many cases of each kind; all of them where `count` is 0."""
    kinds: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for case in cases:
        kinds[case["split"]].append(case)
    chooser = random.Random(seed)
    chosen: list[dict[str, Any]] = []
    for kind in sorted(kinds):
        chooser.shuffle(kinds[kind])
        chosen += kinds[kind][: count or None]
    return chosen


def judge(name: str, engine: Engine, ours: Any, case: dict[str, Any], encode: Any) -> dict[str, Any]:
    """What becomes of one schema."""
    wanted = Case(case["id"], (), schema=case["schema"])
    before = now()
    try:
        start = engine.compile(wanted)
        start().mask()
    except Exception as error:  # noqa: BLE001 (how peers refuse)
        kind = type(error).__name__
        refused = not name.startswith("formatter-core") or kind in REFUSALS
        where = {"keyword": getattr(error, "keyword", None), "why": getattr(error, "reason", str(error))[:300]}
        return {"outcome": "refused" if refused else "crash", "error": kind, **where}
    result: dict[str, Any] = {"ttfm": now() - before, "tbm": [], "outcome": "pass"}
    found = set()
    for test in case["tests"]:
        text = json.dumps(test["data"], ensure_ascii=False)
        accepted = is_accepted(start(), encode(text), result["tbm"])
        if accepted and not test["valid"]:
            found.add("wrong accept")
        elif test["valid"] and not accepted:
            ordered = in_schema_order(ours, wanted, test["data"])
            reordered = ordered not in (None, text) and is_accepted(start(), encode(ordered), [])
            found.add("key order" if reordered else "wrong reject")
    for outcome in ("wrong accept", "wrong reject", "key order"):
        if outcome in found:
            return {**result, "outcome": outcome}
    return result


def is_accepted(sequence: Any, tokens: list[int], times: list[float]) -> bool:
    """Whether a sequence takes all tokens and may end then; adds the microseconds of each mask with its token."""
    for token_id in tokens:
        before = now()
        sequence.mask()
        allowed = sequence.accept(token_id)
        times.append(now() - before)
        if not allowed:
            return False
    return bool(sequence.complete())


def in_child(name: str, engine: Engine, ours: Any, case: dict[str, Any], encode: Any) -> dict[str, Any]:
    """`judge` in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 2))
        try:
            result = judge(name, engine, ours, case, encode)
        except BaseException as error:  # noqa: BLE001 (panics too)
            result = {"outcome": "crash", "why": repr(error)[:300]}
        with os.fdopen(writing, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if data:
        found: dict[str, Any] = json.loads(data)
        return found
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return {"outcome": "time-out" if killed in (signal.SIGXCPU, signal.SIGKILL) else "crash", "why": f"signal {killed}"}


def percentiles(times: list[float]) -> dict[str, float]:
    """In microseconds."""
    ordered = sorted(times)
    places = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    last = len(ordered) - 1
    return {name: round(ordered[min(last, int(place * len(ordered)))], 1) for name, place in places.items()}


def summary(records: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """For each engine outcomes and times, and ratios of times over the schemas that the first and it both compile."""
    found: dict[str, Any] = {}
    by_engine = {name: {r["id"]: r for r in records if r["engine"] == name} for name in names}
    for name, mine in by_engine.items():
        counts = collections.Counter(r["outcome"] for r in mine.values())
        tested = [r for r in mine.values() if r["tests"]]
        both = [key for key, r in mine.items() if "ttfm" in r and "ttfm" in by_engine[names[0]].get(key, {})]
        first = percentiles([by_engine[names[0]][key]["ttfm"] for key in both])
        here = percentiles([mine[key]["ttfm"] for key in both])
        found[name] = {
            "schemas": len(mine),
            "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
            "with documents": len(tested),
            "of these pass": sum(r["outcome"] == "pass" for r in tested),
            "ttfm": percentiles([r["ttfm"] for r in mine.values() if "ttfm" in r]),
            "tbm": percentiles([time for r in mine.values() for time in r.get("tbm", ())]),
            f"ttfm of {names[0]} over this, {len(both)} schemas": {
                key: round(first[key] / here[key], 2) for key in ("p50", "p90", "p99")
            },
            "refusals": dict(
                collections.Counter(reason(r) for r in mine.values() if r["outcome"] == "refused").most_common(40)
            ),
        }
    return found


def reason(record: dict[str, Any]) -> str:
    """A refusal's error, keyword and reason, without what is said of single schemas."""
    why = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "…", record["why"].splitlines()[0])
    return f"{record['error']}, {record['keyword'] or '-'}: {why[:120]}"


def plot(results: dict[str, Any], path: Path) -> None:
    """Shares of outcomes, and percentiles of times."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    engines = results["engines"]
    figure, (shares, ttfm, tbm) = plt.subplots(1, 3, figsize=(14, 1.6 + 0.7 * len(engines)), width_ratios=(2, 1, 1))
    labels: list[str] = [engine["version"] for engine in engines.values()]
    for row, engine in enumerate(engines.values()):
        left = 0.0
        for outcome, color in zip(OUTCOMES, COLORS, strict=True):
            share = 100 * engine["outcomes"][outcome] / engine["schemas"]
            shares.barh(row, share, left=left, color=color, label=outcome if row == 0 else None)
            if share >= 4:
                shares.text(left + share / 2, row, f"{share:.1f}", ha="center", va="center", fontsize="small")
            left += share
        for axis, key in ((ttfm, "ttfm"), (tbm, "tbm")):
            for index, place in enumerate(("p50", "p90", "p99")):
                label = place if row == 0 else None
                axis.barh(row + (index - 1) * 0.27, engine[key][place], 0.25, color=f"C{index}", label=label)
    shares.set_yticks(range(len(labels)), labels)
    shares.set_xlabel("% of schemas")
    shares.set_xlim(0, 100)
    shares.legend(ncols=len(OUTCOMES), fontsize="x-small", loc="lower left", bbox_to_anchor=(0, 1.02))
    for axis, title in ((ttfm, "time to first mask"), (tbm, "time between masks, first visit")):
        axis.set_xscale("log")
        axis.set_xlabel("µs")
        axis.set_title(title, fontsize="small")
        axis.set_yticks([])
        axis.grid(visible=True, axis="x", alpha=0.3)
    ttfm.legend(fontsize="x-small")
    for axis in (shares, ttfm, tbm):
        axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Read the command line, run, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("json_schema"), help="without ending; .json and .png")
    parser.add_argument("--schemas", type=int, default=40, help="of each kind; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=1, help="schemas at once; the times are then of less worth")
    engine_names = [name for name in ENGINES if name != "formatter-core/kbnf"]
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=engine_names)
    options = parser.parse_args()
    shared = Path(os.environ.get("FORMATTER_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    cases = choose(read_cases(shared), options.schemas, options.seed)
    vocabulary, encode = llama3()
    engines = {name: made for name in options.engines if (made := build(name, vocabulary, encode)) is not None}
    ours: Any = engines.get("formatter-core") or build("formatter-core", vocabulary, encode)
    for engine in engines.values():
        for warm_up in WARM_UPS:
            engine.compile(warm_up)().mask()
    records: list[dict[str, Any]] = []

    def judged(case: dict[str, Any]) -> list[dict[str, Any]]:
        about = {"id": case["id"], "tests": len(case["tests"])}
        return [{**about, "engine": name, **in_child(name, made, ours, case, encode)} for name, made in engines.items()]

    with ThreadPool(options.parallel) as pool:
        for done, found in enumerate(pool.imap(judged, cases), 1):
            records += found
            if done % 200 == 0:
                print(f"{done} of {len(cases)}", flush=True)
    results: dict[str, Any] = {"cases": len(cases), "engines": summary(records, list(engines))}
    for name, engine in engines.items():
        results["engines"][name]["version"] = engine.version
    results["records"] = [
        {key: value for key, value in record.items() if key != "tbm"}
        for record in records
        if record["outcome"] != "pass"
    ]
    options.output.with_suffix(".json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(results["engines"], indent=1, ensure_ascii=False))
    plot(results, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
