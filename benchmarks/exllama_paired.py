"""Measure a step of ExLlamaV2 or ExLlamaV3 with a filter for each sequence, beside the same step without.

    python3.11 dev.py bench exllama_paired                                       # ExLlamaV2
    python3.11 dev.py run exllamav3 -m benchmarks exllama_paired                 # ExLlamaV3, added to the same file

Five generators take turns of four steps, in random order: one whose jobs have a filter each (masks, made by the
generator's threads), one with filters that do nothing (the engine's cost to call a filter), one with filters that have
all masks of the script ready (the cost of any filter), and two without filters, of which the second is the control. All
follow the same scripts, texts of two formats, with the 128,256 ids of Llama 3. The forward pass is simulated: it takes
`--milliseconds` and is waited for asleep, or busily as CUDA waits, without the GIL; `exllama.py` says what else is
simulated.

A figure is the time of a turn divided by that of the same turn without filters, or with filters that do nothing; median
and quartiles over all turns.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import exllama
from benchmarks.data import llama3_ranks
from benchmarks.exllama import FORMATS, Lane, Texts
from benchmarks.harness import aim, markdown, without_garbage_collection
from formatter_core import CompiledFormat, Compiler, bitmask

OPTIONS: dict[str, dict[str, Any]] = {
    "--tokens": {"type": int, "default": 33},
    "--rounds": {"type": int, "default": 2},
    "--milliseconds": {"type": int, "default": 25, "help": "of the forward pass"},
    "--waits": {"nargs": "+", "choices": ["asleep", "busy"], "default": ["asleep", "busy"]},
    "--batches": {"type": int, "nargs": "+", "default": [1, 2, 4, 8]},
    "--release": {"help": "an older one of the environment; by default the newest"},
    "--sampling-threads": {"type": int, "nargs": "+", "default": [1, 16], "help": "of ExLlamaV2, whose default is 16"},
}
SMOKE = {"tokens": 18, "rounds": 1, "milliseconds": 1, "waits": ["asleep"], "batches": [1, 3]}
LANES = ("none", "control", "filters", "empty filters", "ready masks")
#: The target for the ratio of a step with filters.
GOAL = 1.01
#: Of one lane in a row: others push what it needs out of the processor's caches.
STEPS = 4


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    pieces = exllama.small_vocabulary() if options.smoke else list(llama3_ranks())
    folder = exllama.model_folder(pieces)
    engine, lanes, vocabulary = (exllama.second if exllama.is_second() else exllama.third)(
        folder, options.release, LANES
    )
    compiler, texts = Compiler(vocabulary), Texts(pieces)
    compiled = {name: compiler.compile(format) for name, format in FORMATS.items()}
    before = options.output.with_suffix(".json")
    engines = json.loads(before.read_text(encoding="utf-8"))["engines"] if before.exists() else {}
    for threads in options.sampling_threads if exllama.is_second() else [None]:
        name = engine if threads is None else f"{engine}, sampling threads: {threads}"
        for lane in lanes.values():
            lane.set_threads(threads)
        # It samples in threads from a batch of three on.
        batches = [batch for batch in options.batches if threads in (None, 1) or batch >= 3]
        for (wait, batch), cell in ratios(lanes, compiled, texts, options, batches).items():
            forward = engines.setdefault(name, {}).setdefault(f"{options.milliseconds} ms {wait}", {})
            forward[str(batch)] = {
                "turns": len(cell["none"]),
                "ms without": round(1000 * statistics.median(cell["none"]), 3),
                "with filters": quartiles(cell["filters"]),
                "with empty filters": quartiles(cell["empty filters"]),
                "with ready masks": quartiles(cell["ready masks"]),
                "control": quartiles(cell["control"]),
                "with filters / with empty filters": quartiles(cell["beyond"]),
                "with filters, by format": {name: round(statistics.median(cell[name]), 5) for name in FORMATS},
            }
    return {"ids": len(vocabulary), "engines": engines}


def ratios(
    lanes: dict[str, Lane],
    compiled: dict[str, CompiledFormat],
    texts: Texts,
    options: argparse.Namespace,
    batches: list[int],
) -> dict[tuple[str, int], dict[str, list[float]]]:
    """Measure each lane by wait and batch: its turns divided by those without filters, and the seconds of those."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for number in range(-1, options.rounds):  # the first of them warms everything, and is not counted
        rng = random.Random(number)
        for wait in options.waits if number >= 0 else options.waits[:1]:
            for lane in lanes.values():
                lane.set_pace(options.milliseconds / 1000 if number >= 0 else 0.001, wait == "busy")
            for name, format in compiled.items():
                scripts = [texts.tokens(name, random.Random(f"{number}, {row}"), options.tokens) for row in range(8)]
                for batch in batches if number >= 0 else batches[-1:]:
                    steps = turns(lanes, scripts[:batch], format, rng)
                    if number >= 0:
                        cell = found.setdefault((wait, batch), {lane: [] for lane in LANES})
                        for each in LANES[1:]:
                            cell[each] += [step[each] / step["none"] for step in steps]
                        cell["none"] += [step["none"] for step in steps]
                        cell.setdefault("beyond", []).extend(step["filters"] / step["empty filters"] for step in steps)
                        cell.setdefault(name, []).extend(step["filters"] / step["none"] for step in steps)
    return found


def turns(
    lanes: dict[str, Lane], scripts: list[list[int]], compiled: CompiledFormat, rng: random.Random
) -> list[dict[str, float]]:
    """Measure the seconds that each step takes in each lane."""
    for name, lane in lanes.items():
        filters = []
        if name == "filters":
            filters = [lane.filter_of(compiled) for _ in scripts]
        elif name == "empty filters":
            filters = [lane.ready_filter([]) for _ in scripts]
        elif name == "ready masks":
            filters = [lane.ready_filter(rows_of(compiled, script)) for script in scripts]
        lane.start(scripts, filters)
    found = []
    with without_garbage_collection():
        for turn in range(len(scripts[0]) // STEPS):
            taken = {}
            for name in rng.sample(LANES, len(LANES)):
                lane = lanes[name]
                if turn == 0:
                    lane.step()  # which reads the prompt
                begun = time.perf_counter()
                for _ in range(STEPS):
                    lane.step()
                taken[name] = (time.perf_counter() - begun) / STEPS
            found.append(taken)
    for lane in lanes.values():
        lane.check()
    return found[:-1]  # at the end of the last one the jobs end


def rows_of(compiled: CompiledFormat, script: list[int]) -> list[NDArray[np.int32]]:
    """Compute the mask before each token; equal masks are one array."""
    formatter, found, known = compiled.formatter(), [], dict[bytes, NDArray[np.int32]]()
    for token in script:
        row = bitmask.allocate(1, len(compiled.vocabulary))[0]
        formatter.fill_bitmask(row)
        found.append(known.setdefault(row.tobytes(), row))
        if formatter.is_finished:
            break
        formatter.accept_token(token)
    return found


def quartiles(values: Sequence[float]) -> list[float]:
    """Compute the three quartiles."""
    return [round(value, 5) for value in statistics.quantiles(values, n=4, method="inclusive")]


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield engine, forward pass, batch, and figures."""
    for engine, forwards in found["engines"].items():
        for forward, batches in forwards.items():
            for batch, cell in batches.items():
                yield engine, forward, batch, cell


def show(found: dict[str, Any]) -> str:
    columns = ("with filters", "with ready masks", "with empty filters", "with filters / with empty filters", "control")
    rows = [
        [
            engine,
            forward,
            batch,
            f"{cell['ms without']:.2f}",
            str(cell["turns"]),
            *(shown(cell[name]) for name in columns),
            ", ".join(f"{name} {value:.4f}" for name, value in cell.get("with filters, by format", {}).items()),
        ]
        for engine, forward, batch, cell in lines(found)
    ]
    heads = ["engine", "forward pass", "batch", "ms of a step without", "turns", *columns, "medians by format"]
    table = markdown(heads, rows)
    aims = [f"{engine}, {forward}, batch {batch}: {judged(cell)}" for engine, forward, batch, cell in lines(found)]
    return "\n".join([f"{found['ids']:,} ids; medians (quartiles)", "", table, "", *aims])


def judged(cell: dict[str, Any]) -> str:
    """Say what filters add; if calling filters that do nothing already exceeds the goal, what ours add to that."""
    whole, beyond, (_, calls, _) = "with filters", "with filters / with empty filters", cell["with empty filters"]
    if calls <= GOAL:
        return aim(whole, cell[whole][1], GOAL)
    return f"with empty filters {calls:.4g}, {whole} {cell[whole][1]:.4g}; {aim(beyond, cell[beyond][1], GOAL)}"


def shown(values: Sequence[float]) -> str:
    low, middle, high = values
    return f"{middle:.4f} ({low:.4f}–{high:.4f})"


TITLE = "How much longer formatter-core's filters make a step of ExLlama, in turns with steps without"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw a panel for each release: how much longer a step is with filters, with empty ones, and by chance."""
    engines = sorted(found["engines"], key=newest_first)
    columns = -(-len(engines) // 2)
    figure, axes = pyplot.subplots(2, columns, figsize=(2.9 * columns, 5.2), sharey=True, squeeze=False)
    for axis, engine in zip(axes.flat, engines, strict=False):
        forwards = found["engines"][engine]
        forward = max(forwards, key=lambda name: name.endswith("busy"))
        cells = forwards[forward].values()
        places = list(range(len(cells)))
        low, high = ([100 * (cell["control"][at] - 1) for cell in cells] for at in (0, 2))
        axis.fill_between(places, low, high, color="0.9", label="no filter against no filter")
        for name, label, color in (
            ("with filters", "formatter-core's filter for each sequence", "C0"),
            ("with empty filters", "a filter that does nothing", "C1"),
        ):
            longer = [100 * (cell[name][1] - 1) for cell in cells]
            axis.plot(places, longer, "o-", color=color, label=label)
            if name == "with filters":
                axis.annotate(f"{longer[-1]:.1f} %", (places[-1], longer[-1]), (6, -4), textcoords="offset points")
        axis.axhline(
            100 * (GOAL - 1), color="0.5", linestyle="--", linewidth=1, label=f"goal: {100 * (GOAL - 1):.0f} %"
        )
        axis.set_title(engine.replace(", ", "\n"), fontsize=10)
        axis.set_xticks(places, list(forwards[forward]))
        axis.set_xlim(-0.2, len(places) - 0.2)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(engines) :]:
        axis.set_visible(False)
    figure.supxlabel("sequences in a batch", y=0.08, fontsize=10)
    figure.supylabel(f"longer steps (of {forward.partition(' ms')[0]} ms), %", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def newest_first(engine: str) -> tuple[bool, list[int], str]:
    """Order engines: ExLlamaV3 first, and of each the newest release first."""
    release, _, threads = engine.partition(", ")
    name, _, version = release.partition(" ")
    return name == "ExLlamaV2", [-int(part) for part in version.split(".")], threads
