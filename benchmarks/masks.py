"""Measure masks: compile time, and mask plus accept for states seen for the first time and again.

    python -m benchmarks.masks --output masks            # writes masks.json and masks.png

TTFM, time to first mask: compiling a format anew, starting a sequence and its first mask. TBM, time between masks: one
mask and one accepted token; "cold" in the first walk over a case's texts with a format just compiled, "warm" in the
second. All engines run in this process, taking turns format by format and round by round, on one thread.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.engines import ENGINES, Engine, NoNotationError
from formatter_core import Vocabulary

MICROSECONDS = 1e6
MEASURES = ("ttfm", "cold", "warm")
WARM_UP = Case("warm-up", ("ab",), pattern="[a-z]+")

# How Llama 3 cuts text into words before it applies its byte pairs.
LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def llama3() -> tuple[Vocabulary, Callable[[str], list[int]]]:
    """The 128,256 ids of Llama 3, from the file of its ranks among the shared data sets."""
    import tiktoken

    shared = os.environ.get("FORMATTER_SHARED") or Path(__file__).resolve().parents[2] / "shared"
    path = Path(shared) / "tokenizers" / "llama3.tiktoken"
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


def walk(start: Callable[[], Any], texts: list[list[int]]) -> list[float]:
    """Microseconds of each mask and accepted token along the texts; raises where the engine refuses one of them."""
    times: list[float] = []
    for tokens in texts:
        sequence = start()
        for position, token_id in enumerate(tokens):
            before = now()
            sequence.mask()
            allowed = sequence.accept(token_id)
            times.append(now() - before)
            if not allowed:
                raise ValueError(f"token {position} of a text that follows the format was refused")
        if not sequence.complete():
            raise ValueError("a text that follows the format may not end")
    return times


def measure(engine: Engine, case: Case, texts: list[list[int]]) -> dict[str, list[float]]:
    """One round: compile, first mask, a cold walk and a warm one."""
    before = now()
    start = engine.compile(case)
    start().mask()
    ttfm = now() - before
    return {"ttfm": [ttfm], "cold": walk(start, texts), "warm": walk(start, texts)}


def run(
    engines: dict[str, Engine], cases: list[Case], encode: Callable[[str], list[int]], rounds: int
) -> list[dict[str, Any]]:
    """All rounds of all cases; one record for each case and engine."""
    records: list[dict[str, Any]] = []
    for case in cases:
        texts = [encode(text) for text in case.texts]
        times: dict[str, dict[str, list[float]]] = {name: {key: [] for key in MEASURES} for name in engines}
        failed: dict[str, str] = {}
        for turn in range(rounds):
            for name in rotated(list(engines), turn):
                if name in failed:
                    continue
                gc.collect()
                gc.disable()
                try:
                    measured = measure(engines[name], case, texts)
                except NoNotationError:
                    failed[name] = "no notation"
                except Exception as error:  # noqa: BLE001 (a peer may raise anything; the table says what)
                    failed[name] = f"{type(error).__name__}: {error}"[:200]
                else:
                    for key, values in measured.items():
                        times[name][key] += values
                finally:
                    gc.enable()
        for name in engines:
            record: dict[str, Any] = {"case": case.name, "engine": name, "tokens": sum(map(len, texts))}
            record |= {"failed": failed[name]} if name in failed else {k: summary(v) for k, v in times[name].items()}
            records.append(record)
        print(line(case, records[-len(engines) :]), flush=True)
    return records


def rotated(names: list[str], turn: int) -> Iterator[str]:
    """Every engine in its turn goes first, so that none always finds the caches as the same other one left them."""
    shift = turn % len(names)
    yield from names[shift:] + names[:shift]


def summary(times: list[float]) -> dict[str, float]:
    """Microseconds, rounded to a tenth."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return {
        "mean": round(statistics.fmean(ordered), 1),
        **{f"p{p}": round(ordered[round(p / 100 * last)], 1) for p in (50, 90, 99)},
        "max": round(ordered[-1], 1),
    }


def line(case: Case, records: list[dict[str, Any]]) -> str:
    """One line for people: the medians of each engine."""
    parts = []
    for record in records:
        shown = record.get("failed") or " / ".join(f"{record[key]['p50']:.0f}" for key in MEASURES)
        parts.append(f"{record['engine']}: {shown}")
    return f"{case.name:<26} " + "   ".join(parts)


def ratios(records: list[dict[str, Any]], ours: str) -> dict[str, dict[str, Any]]:
    """For each other engine and measure: our median over theirs for each case, and the median of these."""
    medians = {
        (record["engine"], key, record["case"]): record[key]["p50"]
        for record in records if "failed" not in record
        for key in MEASURES
    }  # fmt: skip
    compared: dict[str, dict[str, Any]] = {}
    for other in dict.fromkeys(record["engine"] for record in records if record["engine"] != ours):
        for key in MEASURES:
            cases = {
                case: round(medians[ours, key, case] / medians[other, key, case], 3)
                for engine, measure_, case in medians
                if (engine, measure_) == (ours, key) and medians.get((other, key, case))
            }
            if cases:
                compared.setdefault(other, {})[key] = {"median": statistics.median(cases.values()), "cases": cases}
    return compared


def plot(results: dict[str, Any], path: Path) -> None:
    """One panel for each vocabulary and measure: medians on a logarithmic scale, up to the 99th percentile."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    vocabularies = results["vocabularies"]
    figure, axes = plt.subplots(
        len(vocabularies), len(MEASURES), figsize=(15, 1 + 5 * len(vocabularies)), squeeze=False, sharey="row"
    )
    titles = {"ttfm": "time to first mask", "cold": "time between masks, cold", "warm": "time between masks, warm"}
    for row, (vocabulary, found) in zip(axes, vocabularies.items(), strict=True):
        records = found["records"]
        cases = list(dict.fromkeys(record["case"] for record in records))
        engines = list(found["engines"])
        for axis, key in zip(row, MEASURES, strict=True):
            for index, engine in enumerate(engines):
                mine = [r for r in records if r["engine"] == engine and "failed" not in r]
                places = [cases.index(r["case"]) + (index - (len(engines) - 1) / 2) * 0.8 / len(engines) for r in mine]
                medians = [r[key]["p50"] for r in mine]
                upper = [max(0.0, r[key]["p99"] - r[key]["p50"]) for r in mine]
                axis.barh(
                    places, medians, 0.8 / len(engines), xerr=[[0.0] * len(mine), upper],
                    label=found["engines"][engine], error_kw={"elinewidth": 0.7},
                )  # fmt: skip
            axis.set_xscale("log")
            axis.set_xlabel("µs: median, and the 99th percentile")
            axis.set_title(f"{vocabulary}: {titles[key]}")
            axis.grid(visible=True, axis="x", alpha=0.3)
        row[0].set_yticks(range(len(cases)), cases)
        row[0].invert_yaxis()
        row[-1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def build(name: str, vocabulary: Vocabulary, encode: Callable[[str], list[int]]) -> Engine | None:
    """The engine with its vocabulary; None, said aloud, where it is not installed."""
    try:
        engine: Engine = ENGINES[name](vocabulary, encode)
        measure(engine, WARM_UP, [encode(text) for text in WARM_UP.texts])  # what is made once for each vocabulary
    except Exception as error:  # noqa: BLE001 (whatever keeps a peer from being there)
        print(f"{name} is left out: {type(error).__name__}: {error}")
        return None
    return engine


def main() -> None:
    """Read the command line, measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("masks"), help="without ending; .json and .png are added")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocabularies", nargs="+", choices=VOCABULARIES, default=list(VOCABULARIES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES], help="by default all of them")
    options = parser.parse_args()
    cases = [case for case in CASES if options.cases is None or case.name in options.cases]
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "unit": "microseconds", "rounds": options.rounds, "vocabularies": {},
    }  # fmt: skip
    for name in options.vocabularies:
        try:
            vocabulary, encode = VOCABULARIES[name]()
        except (FileNotFoundError, ImportError) as error:
            print(f"{name} is left out: {error}")
            continue
        engines: dict[str, Engine] = {}
        for engine in options.engines:
            made = build(engine, vocabulary, encode)
            if made is not None and made.version not in {other.version for other in engines.values()}:
                engines[engine] = made
        print(f"\n{name}, {len(vocabulary)} ids; medians in µs: {' / '.join(MEASURES)}")
        records = run(engines, cases, encode, options.rounds)
        compared = ratios(records, options.engines[0])
        for other, measures in compared.items():
            print(
                f"{options.engines[0]} / {other}: " + ", ".join(f"{k} {v['median']:.2f}" for k, v in measures.items())
            )
        results["vocabularies"][name] = {
            "ids": len(vocabulary),
            "engines": {engine: made.version for engine, made in engines.items()},
            "records": records,
            "ratios": compared,
        }
    if results["vocabularies"]:
        options.output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        plot(results, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
