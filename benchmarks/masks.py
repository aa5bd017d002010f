"""Measure masks beside other engines: time to first mask, and time between masks in states seen before or not.

    python -m benchmarks.masks --output masks            # writes masks.json and masks.png
    python -m benchmarks.masks --smoke                   # that it runs: one run of two cases, without the shared data

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
import base64
import collections
import gc
import json
import os
import platform
import statistics
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.engines import ENGINES, Engine, NoNotationError
from benchmarks.grammars import GRAMMARS
from formatter_core import Vocabulary

MICROSECONDS = 1e6
MEASURES = ("ttfm", "first", "cold", "warm")
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.thread_time}
STATISTICS = ("mean", "p50", "p99")
WARM_UP = Case("warm-up", ("ab",), pattern="[a-z]+")
#: An engine after the first two that needs longer for one case takes part in that case's first run only.
MOST_SECONDS = 0.2
#: What this project holds itself to, against this engine.
MEASURE = "llguidance"
TARGETS = {("cold", "mean"): 0.5, ("cold", "p99"): 1.0, ("warm", "mean"): 0.25, ("warm", "p99"): 0.3}
BUILD_SECONDS = 0.5
SMOKE = ("SQL subset", "enum of 1,000 values")

# How Llama 3 cuts text into words before it applies its byte pairs.
LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def shared() -> Path:
    """The folder of shared data sets."""
    return Path(os.environ.get("FORMATTER_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def llama3() -> tuple[Vocabulary, Callable[[str], list[int]]]:
    """The 128,256 ids of Llama 3, from the file of its ranks among the shared data sets."""
    import tiktoken

    path = shared() / "tokenizers" / "llama3.tiktoken"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is absent; set FORMATTER_SHARED to the folder of shared data sets")
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding(
        "llama3", pat_str=LLAMA_3_WORDS, mergeable_ranks=ranks, special_tokens={"<|end_of_text|>": 128_001}
    )
    return Vocabulary.from_tiktoken(encoding, end_ids=[128_001], size=128_256), encoding.encode


def tekken() -> tuple[Vocabulary, Callable[[str], list[int]]]:
    """The 131,072 ids of Mistral's Tekken, which mistral-common ships."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tokenizer = MistralTokenizer.v3(is_tekken=True)
    inner = tokenizer.instruct_tokenizer.tokenizer
    return Vocabulary.from_mistral_common(tokenizer), lambda text: inner.encode(text, bos=False, eos=False)


VOCABULARIES = {"llama3": llama3, "tekken": tekken}


def now() -> float:
    """Microseconds since some fixed moment."""
    return time.perf_counter() * MICROSECONDS


def walk(start: Callable[[], Any], texts: list[list[int]], clock: Clock) -> list[float]:
    """Microseconds of each step along the texts; raises where the engine refuses one of them."""
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


def measure(
    engine: Engine, case: Case, texts: list[list[int]], measures: Iterable[str], clock: Clock
) -> dict[str, list[float]]:
    """Compile, first mask, and one walk for each measure."""
    gc.collect()
    gc.disable()
    try:
        before = clock()
        start = engine.compile(case)
        start().mask()
        found = {"ttfm": [(clock() - before) * MICROSECONDS]}
        for name in measures:
            found[name] = walk(start, texts, clock)
        return found
    finally:
        gc.enable()


class Times:
    """Microseconds by case, engine, measure and run, and what could not be measured."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], list[array[float]]] = {}
        self.failed: dict[tuple[str, str], str] = {}
        self.slow: set[tuple[str, str]] = set()

    def add(self, case: str, engine: str, measured: dict[str, list[float]]) -> None:
        for name, values in measured.items():
            self.found.setdefault((case, engine, name), []).append(array("d", values))

    def statistics(self, cases: Iterable[str], engine: str, name: str) -> dict[str, float]:
        """Of all steps of the cases together; each figure is the median over the runs."""
        found = [self.found[case, engine, name] for case in cases]
        turns = max(map(len, found))
        return medians([sum((runs[min(turn, len(runs) - 1)] for runs in found), array("d")) for turn in range(turns)])


def medians(runs: list[array[float]]) -> dict[str, float]:
    """Mean and percentiles of each run, and of these the median over the runs."""
    found: dict[str, list[float]] = {name: [] for name in STATISTICS}
    for run in runs:
        ordered = sorted(run)
        found["mean"].append(statistics.fmean(ordered))
        for name in STATISTICS[1:]:
            found[name].append(ordered[min(len(ordered) - 1, int(float(name[1:]) / 100 * len(ordered)))])
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


def rotated(names: list[str], turn: int) -> Iterator[str]:
    """Every engine in its turn goes first, so that none always finds the caches as the same other one left them."""
    shift = turn % len(names)
    yield from names[shift:] + names[:shift]


def one_run(
    turn: int, engines: dict[str, Engine], cases: list[tuple[Case, list[list[int]]]], times: Times, clock: Clock
) -> None:
    """Both times through all cases, the engines taking turns."""
    for measures in (("first",), ("cold", "warm")):
        for number, (case, texts) in enumerate(cases):
            for name in rotated(list(engines), turn + number):
                key = case.name, name
                if key in times.failed or (turn and key in times.slow):
                    continue
                before = time.perf_counter()
                try:
                    measured = measure(engines[name], case, texts, measures, clock)
                except NoNotationError:
                    times.failed[key] = "no notation"
                    continue
                except Exception as error:  # noqa: BLE001 (a peer may raise anything; the table says what)
                    times.failed[key] = f"{type(error).__name__}: {error}"[:200]
                    print(f"{case.name}, {name}: {times.failed[key]}", flush=True)
                    continue
                if measures == ("first",):
                    del measured["ttfm"]
                times.add(case.name, name, measured)
                if time.perf_counter() - before > MOST_SECONDS and name not in list(engines)[:2]:
                    times.slow.add(key)


def summary(times: Times, names: list[str], engines: Iterable[str]) -> dict[str, Any]:
    """Figures of each engine for some cases taken together, those it has no figures for left out, and our ratios."""
    ours, *others = engines
    found: dict[str, Any] = {}
    for engine in (ours, *others):
        mine = [name for name in names if (name, engine) not in times.failed and (name, ours) not in times.failed]
        if not mine:
            continue
        figures: dict[str, Any] = {key: times.statistics(mine, engine, key) for key in MEASURES}
        figures["cases"] = len(mine)
        figures["steps"] = sum(len(times.found[name, engine, "warm"][0]) for name in mine)
        if engine != ours:
            here = {key: times.statistics(mine, ours, key) for key in MEASURES}
            figures["ratio"] = {
                key: {name: round(here[key][name] / figures[key][name], 3) for name in STATISTICS} for key in MEASURES
            }
        if len(mine) < len(names):
            figures["without"] = len(names) - len(mine)
        found[engine] = figures
    return found


def table(groups: dict[str, Any], engines: Iterable[str]) -> str:
    """The figures as Markdown: mean / median / 99th percentile in microseconds."""
    engines = list(engines)
    lines = [
        "| | " + " | ".join(f"{engine}, {key}" for key in ("cold", "warm") for engine in engines) + " |",
        "|---" * (1 + 2 * len(engines)) + "|",
    ]
    for name, found in groups.items():
        cells = [
            " / ".join(f"{found[engine][key][which]:.3g}" for which in STATISTICS) if engine in found else "–"
            for key in ("cold", "warm") for engine in engines
        ]  # fmt: skip
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(groups: dict[str, Any], builds: dict[str, float], ours: str, other: str) -> list[str]:
    """Our figures over the other's for every group, beside what we aim at where the other is `MEASURE`."""
    lines = []
    for name, found in groups.items():
        if other not in found:
            continue
        ratio = found[other]["ratio"]
        cells = [
            f"{key} {which} {ratio[key][which]:.2f}{aim(ratio[key][which], most, other)}"
            for (key, which), most in TARGETS.items()
        ]
        lines.append(f"{name}: {', '.join(cells)}; first mean {ratio['first']['mean']:.2f}")
    most = builds[other] + BUILD_SECONDS
    lines.append(
        f"building the vocabulary: {builds[ours]:.2f} s, {builds[other]:.2f} s{aim(builds[ours], most, other)}"
    )
    return lines


def aim(found: float, most: float, other: str) -> str:
    return "" if other != MEASURE else f" (≤ {most:.4g})" if found <= most else f" (≤ {most:.4g}, MISSED)"


def plot(results: dict[str, Any], path: Path) -> None:
    """Means of steps on a logarithmic scale, up to the 99th percentile; one panel for each vocabulary and measure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    vocabularies = results["vocabularies"]
    measures = {"first": "never seen by the process", "cold": "format compiled anew", "warm": "seen before"}
    longest = max(len(found["groups"]) for found in vocabularies.values())
    size = (15, 1.2 + 0.42 * longest * len(vocabularies))
    figure, axes = plt.subplots(
        len(vocabularies), len(measures), figsize=size, squeeze=False, sharey="row", sharex=True
    )
    for row, (vocabulary, found) in zip(axes, vocabularies.items(), strict=True):
        groups = found["groups"]
        engines = list(found["engines"])
        for axis, (key, title) in zip(row, measures.items(), strict=True):
            for index, engine in enumerate(engines):
                mine = [(place, group[engine][key]) for place, group in enumerate(groups.values()) if engine in group]
                places = [place + (index - (len(engines) - 1) / 2) * 0.8 / len(engines) for place, _ in mine]
                means = [figures["mean"] for _, figures in mine]
                upper = [max(0.0, figures["p99"] - figures["mean"]) for _, figures in mine]
                axis.barh(
                    places, means, 0.8 / len(engines), xerr=[[0.0] * len(mine), upper],
                    label=found["engines"][engine], error_kw={"elinewidth": 0.7},
                )  # fmt: skip
            axis.set_xscale("log")
            axis.set_xlabel("µs for a step: mean, and the 99th percentile")
            axis.set_title(f"{vocabulary}: {title}", fontsize="medium")
            axis.grid(visible=True, axis="x", alpha=0.3)
        row[0].set_yticks(range(len(groups)), list(groups))
        row[0].invert_yaxis()
        row[-1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def build(name: str, vocabulary: Vocabulary, encode: Callable[[str], list[int]]) -> Engine | None:
    """The engine with its vocabulary; None, said aloud, where it is not installed."""
    try:
        engine: Engine = ENGINES[name](vocabulary, encode)
        engine.compile(WARM_UP)().mask()  # what is made once for each vocabulary
    except Exception as error:  # noqa: BLE001 (whatever keeps a peer from being there)
        print(f"{name} is left out: {type(error).__name__}: {error}")
        return None
    return engine


def build_all(
    names: Iterable[str], vocabulary: Vocabulary, encode: Callable[[str], list[int]], seconds: dict[str, list[float]]
) -> dict[str, Engine]:
    """All engines that are there, for a vocabulary that none has seen; adds how long each took."""
    engines: dict[str, Engine] = {}
    for name in names:
        before = time.perf_counter()
        made = build(name, Vocabulary(vocabulary.tokens, end_ids=vocabulary.end_ids), encode)
        if made is not None and made.version not in {other.version for other in engines.values()}:
            seconds.setdefault(name, []).append(time.perf_counter() - before)
            engines[name] = made
    return engines


def measure_vocabulary(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All runs with one vocabulary."""
    vocabulary, encode = VOCABULARIES[name]()
    sets = {"grammars": GRAMMARS, "formats": CASES}
    cases = [case for key in options.sets if key in sets for case in sets[key]]
    if options.cases:
        cases = [case for case in cases if case.name in options.cases]
    seconds: dict[str, list[float]] = {}
    engines = build_all(options.engines, vocabulary, encode, seconds)
    times = Times()
    sampled: list[Case] = []
    about: dict[str, Any] = {}
    if "schemas" in options.sets:
        from benchmarks.schema_sample import sample

        sampled, times.failed, about = sample(shared(), options.schemas, options.seed, engines, encode)
        print(f"schemas: {about}", flush=True)
    texts = [(case, [encode(text) for text in case.texts]) for case in cases + sampled]
    for turn in range(options.runs):
        one_run(turn, engines, texts, times, CLOCKS[options.clock])
        print(f"{name}: run {turn + 1} of {options.runs}", flush=True)
        if turn + 1 < options.runs:
            engines.clear()
            engines = build_all(list(seconds), vocabulary, encode, seconds)
    groups = {case.name: summary(times, [case.name], engines) for case in cases}
    handwritten = [case.name for case in GRAMMARS if case in cases]
    if len(handwritten) > 1:
        groups[f"{len(handwritten)} grammars together"] = summary(times, handwritten, engines)
    if sampled:
        groups[f"{len(sampled)} schemas together"] = summary(times, [case.name for case in sampled], engines)
    return {
        "ids": len(vocabulary),
        "engines": {key: engine.version for key, engine in engines.items()},
        "build seconds": {key: round(statistics.median(values), 3) for key, values in seconds.items()},
        "groups": groups,
        "schemas": about | {"ids": [case.name for case in sampled]},
        "failed": [[*key, why] for key, why in times.failed.items()],
        "one run only": [list(key) for key in sorted(times.slow)],
    }


def main() -> None:
    """Read the command line, measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("masks"), help="without ending; .json and .png are added")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--vocabularies", nargs="+", choices=VOCABULARIES, default=["llama3"])
    kinds = ("grammars", "formats", "schemas")
    parser.add_argument("--sets", nargs="+", choices=kinds, default=list(kinds))
    parser.add_argument("--schemas", type=int, default=500, help="how many real schemas that two engines accept")
    parser.add_argument("--seed", type=int, default=1, help="for the choice of schemas")
    peers = [name for name in ENGINES if name != "formatter-core/kbnf"]
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=peers, help="the first is compared with others"
    )
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in GRAMMARS + CASES], help="default: all")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: that of the thread, beside other jobs")
    parser.add_argument("--smoke", action="store_true", help="one small run")
    options = parser.parse_args()
    if options.smoke:
        options.runs, options.vocabularies, options.cases = 1, ["tekken"], list(SMOKE)
        options.sets = ["grammars"]
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "unit": "microseconds", "clock": options.clock, "runs": options.runs, "vocabularies": {},
    }  # fmt: skip
    for name in options.vocabularies:
        try:
            found = measure_vocabulary(name, options)
        except (FileNotFoundError, ImportError) as error:
            print(f"{name} is left out: {error}")
            continue
        results["vocabularies"][name] = found
        print(f"\n{name}, {found['ids']} ids; medians of {options.runs} runs: mean / median / 99th percentile in µs\n")
        print(table(found["groups"], found["engines"]))
        ours, *others = found["engines"]
        for other in others:
            print(f"\n{ours} over {other}:")
            print("\n".join(verdicts(found["groups"], found["build seconds"], ours, other)))
        for (engine, why), count in collections.Counter((e, why) for _, e, why in found["failed"]).items():
            print(f"without {engine}, {count} cases: {why}")
    if results["vocabularies"]:
        options.output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        plot(results, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
