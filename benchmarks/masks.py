"""Measure masks beside other engines: time to first mask, and time between masks in states seen before or not.

    python3.11 dev.py bench masks --output masks          # writes masks.json and masks.png
    python3.11 dev.py bench masks --smoke                 # that it runs: one run of two cases, without the shared data

One vocabulary, the same texts, one thread; the engines take turns, case by case. A step is one accepted token and the
mask after it, by the calls that a serving loop would use (`Formatter.step`; `consume_token` and
`fill_next_token_bitmask`; `accept_token` and `fill_next_token_bitmask`). Every run builds all engines anew and then
goes through all cases twice:

- "first": the first time through, nothing seen before by anyone;
- "cold": compiled anew and walked; what an engine keeps for a whole vocabulary stays, as in a server;
- "warm": the same texts once more with the same compiled format.

TTFM, time to first mask, is that of the second time through. All figures are medians over the runs.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import time
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.data import VOCABULARIES, Encode
from benchmarks.engines import DEFAULT, ENGINES, Engine, NoNotationError, build
from benchmarks.grammars import GRAMMARS
from benchmarks.harness import Clock, aim, markdown, percentiles, seconds_axis, spread, without_garbage_collection
from benchmarks.schemas import sample
from benchmarks.tools import tool_cases
from formatter_core import Vocabulary

MICROSECONDS = 1e6
MEASURES = ("ttfm", "first", "cold", "warm")
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.thread_time}
STATISTICS = ("mean", "p50", "p99")
#: An engine after the first two that needs longer for one case takes part in that case's first run only.
SLOW_SECONDS = 0.2
#: Our targets, as ratios to this engine.
REFERENCE = "llguidance"
TARGETS = {("cold", "mean"): 0.5, ("cold", "p99"): 1.0, ("warm", "mean"): 0.25, ("warm", "p99"): 0.3}
BUILD_SECONDS = 0.5
SETS = {"grammars": GRAMMARS, "formats": CASES, "schemas": [], "tools": []}
OPTIONS: dict[str, dict[str, Any]] = {
    "--runs": {"type": int, "default": 5},
    "--vocabularies": {"nargs": "+", "choices": VOCABULARIES, "default": ["llama3"]},
    "--sets": {"nargs": "+", "choices": SETS, "default": ["grammars", "formats", "schemas"]},
    "--schemas": {"type": int, "default": 500, "help": "how many real schemas that two engines accept"},
    "--seed": {"type": int, "default": 1, "help": "for the choice of schemas"},
    "--engines": {"nargs": "+", "choices": ENGINES, "default": DEFAULT, "help": "compare the first with the others"},
    "--cases": {"nargs": "+", "choices": [case.name for case in GRAMMARS + CASES], "help": "by default all"},
    "--clock": {"choices": CLOCKS, "default": "wall", "help": "cpu: that of the thread, beside other jobs"},
}
SMOKE = {
    "runs": 1,
    "vocabularies": ["tekken"],
    "sets": ["grammars"],
    "cases": ["SQL subset", "enum of 1,000 values"],
}


def walk(start: Callable[[], Any], texts: list[list[int]], clock: Clock) -> list[float]:
    """Measure microseconds of each step along the texts; raise if the engine refuses one of them."""
    times: list[float] = []
    for tokens in texts:
        sequence = start()
        sequence.mask()
        step = sequence.step
        for position, token_id in enumerate(tokens):
            before = clock()
            allowed = step(token_id)
            times.append((clock() - before) * MICROSECONDS)
            if not allowed:
                raise ValueError(f"token {position} of a text that follows the format was refused")
        if not sequence.complete():
            raise ValueError("a text that follows the format may not end")
    return times


class Times:
    """Hold microseconds by case, engine, measure and run, and what could not be measured."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.found: dict[tuple[str, str, str], list[array[float]]] = {}
        self.failed: dict[tuple[str, str], str] = {}
        self.slow: set[tuple[str, str]] = set()

    def run(self, turn: int, engines: dict[str, Engine], cases: list[tuple[Case, list[list[int]]]]) -> None:
        """Go through all cases twice; each engine goes first in turn, so that none always finds the same caches."""
        names = list(engines)
        for measures in (("first",), ("ttfm", "cold", "warm")):
            for number, (case, texts) in enumerate(cases):
                shift = (turn + number) % len(names)
                for name in names[shift:] + names[:shift]:
                    key = case.name, name
                    if key in self.failed or (turn and key in self.slow):
                        continue
                    before = time.perf_counter()
                    try:
                        measured = self._measure(engines[name], case, texts, measures)
                    except NoNotationError:
                        self.failed[key] = "no notation"
                        continue
                    except Exception as error:  # noqa: BLE001 (a peer may raise anything; the table says what)
                        self.failed[key] = f"{type(error).__name__}: {error}"[:200]
                        print(f"{case.name}, {name}: {self.failed[key]}", flush=True)
                        continue
                    for measure, values in measured.items():
                        self.found.setdefault((*key, measure), []).append(array("d", values))
                    if time.perf_counter() - before > SLOW_SECONDS and name not in names[:2]:
                        self.slow.add(key)

    def _measure(
        self, engine: Engine, case: Case, texts: list[list[int]], measures: tuple[str, ...]
    ) -> dict[str, list[float]]:
        """Compile with the first mask, and one walk for each other measure."""
        with without_garbage_collection():
            before = self.clock()
            start = engine.compile(case)
            start().mask()
            ttfm = [(self.clock() - before) * MICROSECONDS]
            return {name: ttfm if name == "ttfm" else walk(start, texts, self.clock) for name in measures}

    def statistics(self, cases: Iterable[str], engine: str, name: str) -> dict[str, float]:
        """Summarise all steps of the cases: each figure is the median over the runs; add how far runs are apart."""
        found = [self.found[case, engine, name] for case in cases]
        runs = []
        for turn in range(max(map(len, found))):
            steps = sum((runs[min(turn, len(runs) - 1)] for runs in found), array("d"))
            runs.append({"mean": statistics.fmean(steps), **percentiles(steps, (50, 99), digits=9)})
        medians = {which: round(statistics.median(run[which] for run in runs), 2) for which in STATISTICS}
        return {**medians, "spread": round(spread([run["mean"] for run in runs]), 3)}

    def summary(self, names: list[str], engines: Iterable[str]) -> dict[str, Any]:
        """Summarise each engine over some cases, less those it has no figures for, with our ratios."""
        ours, *others = engines
        found: dict[str, Any] = {}
        for engine in (ours, *others):
            mine = [name for name in names if (name, engine) not in self.failed and (name, ours) not in self.failed]
            if not mine:
                continue
            figures: dict[str, Any] = {key: self.statistics(mine, engine, key) for key in MEASURES}
            figures["cases"] = len(mine)
            figures["steps"] = sum(len(self.found[name, engine, "warm"][0]) for name in mine)
            if engine != ours:
                here = {key: self.statistics(mine, ours, key) for key in MEASURES}
                figures["ratio"] = {
                    key: {which: round(here[key][which] / figures[key][which], 3) for which in STATISTICS}
                    for key in MEASURES
                }
            if len(mine) < len(names):
                figures["without"] = len(names) - len(mine)
            found[engine] = figures
        return found


def build_all(
    names: Iterable[str], vocabulary: Vocabulary, encode: Encode, seconds: dict[str, list[float]]
) -> dict[str, Engine]:
    """Build all engines that are there, for a vocabulary that none has seen; note how long each takes."""
    engines: dict[str, Engine] = {}
    for name in names:
        before = time.perf_counter()
        made = build(name, Vocabulary(vocabulary.tokens, end_ids=vocabulary.end_ids), encode)
        if made is not None and made.version not in {other.version for other in engines.values()}:
            seconds.setdefault(name, []).append(time.perf_counter() - before)
            engines[name] = made
    return engines


def measure_vocabulary(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Make all runs with one vocabulary."""
    vocabulary, encode = VOCABULARIES[name]()
    cases = [case for key in options.sets for case in SETS[key] if not options.cases or case.name in options.cases]
    cases += tool_cases() if "tools" in options.sets else []
    seconds: dict[str, list[float]] = {}
    engines = build_all(options.engines, vocabulary, encode, seconds)
    times = Times(CLOCKS[options.clock])
    sampled: list[Case] = []
    about: dict[str, Any] = {}
    if "schemas" in options.sets:
        sampled, times.failed, about = sample(options.schemas, options.seed, engines, encode)
        print(f"schemas: {about}", flush=True)
    texts = [(case, [encode(text) for text in case.texts]) for case in cases + sampled]
    for turn in range(options.runs):
        if turn:
            engines = build_all(list(seconds), vocabulary, encode, seconds)
        times.run(turn, engines, texts)
        print(f"{name}: run {turn + 1} of {options.runs}", flush=True)
    groups = {case.name: times.summary([case.name], engines) for case in cases}
    for kind, members in (("grammars", [case for case in GRAMMARS if case in cases]), ("schemas", sampled)):
        if len(members) > 1:
            groups[f"{len(members)} {kind} together"] = times.summary([case.name for case in members], engines)
    return {
        "ids": len(vocabulary),
        "engines": {key: engine.version for key, engine in engines.items()},
        "build seconds": {key: round(statistics.median(values), 3) for key, values in seconds.items()},
        "groups": groups,
        "schemas": about,
        "failed": [[*key, why] for key, why in times.failed.items()],
        "one run only": [list(key) for key in sorted(times.slow)],
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for name in options.vocabularies:
        try:
            found[name] = measure_vocabulary(name, options)
        except (FileNotFoundError, ImportError) as error:
            print(f"{name} is left out: {error}")
    return {"unit": "microseconds", "clock": options.clock, "runs": options.runs, "vocabularies": found}


def show(found: dict[str, Any]) -> str:
    """Write a table of each vocabulary: mean / median / 99th percentile in microseconds; and our ratios."""
    lines = []
    for name, one in found["vocabularies"].items():
        engines = list(one["engines"])
        columns = [(engine, key) for key in ("cold", "warm") for engine in engines]
        rows = [
            [group, *(
                " / ".join(f"{of[engine][key][which]:.3g}" for which in STATISTICS) if engine in of else "–"
                for engine, key in columns
            )]
            for group, of in one["groups"].items()
        ]  # fmt: skip
        lines.append(f"\n{name}, {one['ids']} ids; medians of {found['runs']} runs: mean / median / p99 in µs\n")
        lines.append(markdown(["", *(f"{engine}, {key}" for engine, key in columns)], rows))
        for group, of in one["groups"].items():
            apart = (f"{engine} " + " / ".join(f"{of[engine][key]['spread']:.2f}" for key in MEASURES) for engine in of)
            lines.append(f"\n{group}, from run to run ({' / '.join(MEASURES)}): {', '.join(apart)}")
        for other in engines[1:]:
            lines += [f"\n{engines[0]} over {other}:", *verdicts(one, engines[0], other)]
        reasons = collections.Counter((engine, why) for _, engine, why in one["failed"])
        lines += [f"without {engine}, {count} cases: {why}" for (engine, why), count in reasons.items()]
    return "\n".join(lines)


def verdicts(found: dict[str, Any], ours: str, other: str) -> list[str]:
    """Divide our figures by the other's for every group; if the other is `REFERENCE`, beside our targets."""

    def judged(what: str, value: float, limit: float) -> str:
        return aim(what, value, limit) if other == REFERENCE else f"{what} {value:.4g}"

    lines = []
    for name, group in found["groups"].items():
        if other in group:
            ratio = group[other]["ratio"]
            cells = [judged(f"{key} {which}", ratio[key][which], limit) for (key, which), limit in TARGETS.items()]
            lines.append(f"{name}: {', '.join(cells)}; first mean {ratio['first']['mean']:.2f}")
    seconds = found["build seconds"]
    what = f"building the vocabulary: {seconds[other]:.2f} s, we"
    return [*lines, judged(what, seconds[ours], seconds[other] + BUILD_SECONDS)]


TITLE = "Time of a step: formatter-core beside other libraries"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the mean step of each engine and its 99th percentile, in new formats and in states that were seen before."""
    vocabularies = found["vocabularies"]
    measures = {"cold": "in a format compiled anew", "warm": "in a state seen before"}
    longest = max((len(one["groups"]) for one in vocabularies.values()), default=0)
    figure, axes = pyplot.subplots(
        max(1, len(vocabularies)), len(measures), figsize=(11, 1.4 + 0.42 * longest * len(vocabularies)),
        squeeze=False, sharey="row", sharex=True, layout="constrained",
    )  # fmt: skip
    for row, (vocabulary, one) in zip(axes, vocabularies.items(), strict=False):
        for axis, (key, title) in zip(row, measures.items(), strict=True):
            for engine, version in one["engines"].items():
                places = [place for place, group in enumerate(one["groups"].values()) if engine in group]
                figures = [group[engine][key] for group in one["groups"].values() if engine in group]
                means = [figure["mean"] / 1e6 for figure in figures]
                (dots,) = axis.plot(means, places, "o", label=version.removesuffix(" with native"))
                upper = [max(figure["mean"], figure["p99"]) / 1e6 for figure in figures]
                axis.hlines(places, means, upper, colors=dots.get_color(), linewidth=1.5, alpha=0.4)
            axis.set_title(f"{vocabulary}: a step {title}", fontsize="medium")
            seconds_axis(axis)
            axis.grid(visible=True, axis="both", alpha=0.3)
        row[0].set_yticks(range(len(one["groups"])), list(one["groups"]))
        row[0].invert_yaxis()
    figure.supxlabel(
        "a token accepted and the next mask: mean (dot) to 99th percentile (end of the line)", fontsize="medium"
    )
    if vocabularies:
        figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=4, loc="outside upper center", frameon=False)
    return figure
