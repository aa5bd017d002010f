"""How much slower ExLlamaV2 generates with a filter: every way of answering, in one process, taking turns.

    python3.11 dev.py bench exllamav2_overhead
    python3.11 dev.py bench exllamav2_overhead --read exllamav2_overhead.json --plot NAME.png

This repeats the experiment that ExLlamaV2's authors made with an earlier filter (`PUBLISHED`), without a GPU:
generator, sampler, filters and both thread pools are the package's own, and the forward pass is simulated. It returns
at once, and the copy of the logits waits until it would be over, asleep or busily (as CUDA waits), without the GIL.
The vocabulary is that of Llama 3, 128,256 ids. A script pushes the next token of a text to the top, so that all modes
write the same tokens, which is asserted; each round has texts of its own, and each format is compiled once. A mode is a
way to answer (a set, a list, a masked row of logits), asked in the foreground or in the generator's background threads.

The figure is the reduction in tokens/s against the runs without a filter of the same round; medians over the rounds.
The noise is the interquartile range of the runs without a filter around their median. Modes that
answer by sets or lists take long, and take part in the first `--slow-rounds` rounds only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.data import llama3_ranks
from benchmarks.exllama import BATCHES, FORMATS, SecondLane, Texts, model_folder, small_vocabulary
from benchmarks.harness import seconds_of
from examples import exllamav2_simulated as simulated
from formatter_core import Compiler

ENGINES = ("native", "kbnf")
ANSWERS = ("set", "set+threads", "list", "list+threads", "mask", "mask+threads")
#: Reduction in tokens/s, in %, at batch 1, 2, 4, 8, as published for a GPU: four stages of the earlier filter.
PUBLISHED = {
    "original (set)": (8.24, 5.44, 10.52, 13.65),
    "threads": (5.63, 6.16, 1.01, 4.50),
    "list": (3.22, 5.23, 6.53, 3.60),
    "threads, list": (2.38, 3.73, 0.18, -1.41),
    "threads, list, newer engine": (1.98, 2.65, -0.76, -2.17),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "--tokens": {"type": int, "default": 24},
    "--rounds": {"type": int, "default": 5, "help": "of the modes that mask, and of none"},
    "--slow-rounds": {"type": int, "default": 1, "help": "of those that make sets and lists"},
    "--batches": {"type": int, "nargs": "+", "default": list(BATCHES)},
    "--engines": {"nargs": "+", "choices": ENGINES, "default": list(ENGINES)},
    "--answers": {"nargs": "+", "choices": ANSWERS, "default": list(ANSWERS)},
    "--formats": {"nargs": "+", "choices": list(FORMATS), "default": list(FORMATS)},
    "--forwards": {"type": int, "nargs": "+", "default": [25, 10], "help": "milliseconds"},
    "--waits": {"nargs": "+", "choices": ["asleep", "busy"], "default": ["asleep", "busy"]},
    "--add": {"action": "store_true", "help": "keep what the .json has of other forward passes"},
}
SMOKE = {"forwards": [1], "waits": ["asleep"], "rounds": 1, "tokens": 4, "batches": [1, 3]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each run, by forward pass, format, batch and mode."""
    simulated.use_release()
    import exllamav2

    torch.set_num_threads(1)
    pieces = small_vocabulary() if options.smoke else list(llama3_ranks())
    lane = SecondLane(model_folder(pieces))
    made = lane.made
    modes = Modes(made, options)
    texts = Texts(pieces)
    found: dict[str, Any] = {
        "exllamav2": exllamav2.__version__,
        "torch": torch.__version__,
        "load": os.getloadavg(),
        "tokens": options.tokens,
        "ids": made.config.vocab_size,
        "sampling": sampling(made),
        "runs": {},
        "forced": {},
    }
    for number in range(-1, options.rounds):  # the first of them warms everything, and is not counted
        slow = number < options.slow_rounds
        for name in options.formats:
            scripts = [texts.tokens(name, random.Random(f"{number}, {row}"), options.tokens) for row in range(8)]
            if number == 0:
                found["forced"][name] = modes.share_of_forced(name, scripts)
            for milliseconds in options.forwards:
                for wait in options.waits if number >= 0 else options.waits[:1]:
                    made.forward.set_pace(milliseconds / 1000, wait == "busy")
                    for batch in options.batches if number >= 0 else options.batches[-1:]:
                        for mode in random.Random(number).sample(modes.names, len(modes.names)):
                            if (slow and number >= 0) or mode.partition(" ")[0] in ("none", "mask", "mask+threads"):
                                seconds = run(lane, modes.filters(mode, name, batch), scripts[:batch])
                                key = f"{milliseconds} ms {wait}, {name}, {batch}, {mode}"
                                if number >= 0:
                                    found["runs"].setdefault(key, []).append(seconds)
        print(f"round {number} is over, load {os.getloadavg()[0]:.1f}", flush=True)
    found["load after"] = os.getloadavg()
    before = options.output.with_suffix(".json")
    if options.add and before.exists():
        found["runs"] = json.loads(before.read_text())["runs"] | found["runs"]
    return found


def run(lane: SecondLane, filters: list[Any], scripts: list[list[int]]) -> float:
    """Generate one batch; how long it took."""
    gc.collect()
    lane.start(scripts, filters)
    begun = time.perf_counter()
    while lane.made.generator.num_remaining_jobs():
        lane.step()
    seconds = time.perf_counter() - begun
    lane.check()
    return seconds


def sampling(made: simulated.Parts) -> float:
    """How long it takes to sample one token without a filter, in seconds: what a list of one id would save."""
    from exllamav2.generator import ExLlamaV2Sampler

    logits = torch.randn((1, 1, made.forward.width))
    ids = torch.zeros((1, 3), dtype=torch.long)
    settings = ExLlamaV2Sampler.Settings()
    sample = seconds_of(lambda: ExLlamaV2Sampler.sample(logits, settings, ids, 0.5, made.tokenizer), time.perf_counter)
    return statistics.median(sample() for _ in range(100))


class Modes:
    """The filters of each mode; one compiler for each engine, one compiled format for each of both."""

    def __init__(self, made: simulated.Parts, options: argparse.Namespace) -> None:
        from formatter_exllamav2 import create_vocabulary

        vocabulary = create_vocabulary(made.tokenizer, model=made.model)
        self.names = ["none", *(f"{answer} {engine}" for engine in options.engines for answer in options.answers)]
        self._made = made
        self._compiled = {
            (engine, name): Compiler(vocabulary, engine=engine).compile(FORMATS[name])
            for engine in options.engines
            for name in options.formats
        }

    def filters(self, mode: str, name: str, batch: int) -> list[Any]:
        from formatter_exllamav2 import FormatterFilter

        if mode == "none":
            return []
        answer, engine = mode.split()
        compiled = self._compiled[engine, name]
        found = []
        for _ in range(batch):
            each = FormatterFilter(
                self._made.model, self._made.tokenizer, compiled, background=answer.endswith("threads")
            )
            if not answer.startswith("mask"):
                each.can_mask_logits = lambda: False  # type: ignore[method-assign]
            if answer.startswith("set"):
                each.allow_return_type_list = False
            found.append(each)
        return found

    def share_of_forced(self, name: str, scripts: list[list[int]]) -> float:
        """In how many of the states exactly one id is allowed."""
        compiled = next(each for (_, of), each in self._compiled.items() if of == name)
        forced = 0
        for script in scripts:
            formatter = compiled.formatter()
            for token in script:
                forced += len(formatter.allowed_tokens()) == 1
                formatter.accept_token(token)
        return forced / sum(map(len, scripts))


# --- telling ---------------------------------------------------------------------------------------------------------


def groups(found: dict[str, Any]) -> Iterator[tuple[str, dict[int, dict[str, list[float]]]]]:
    """The runs by forward pass and format; in each of them by batch and mode."""
    grouped: dict[str, dict[int, dict[str, list[float]]]] = {}
    for key, seconds in found["runs"].items():
        case, batch, mode = key.rsplit(", ", 2)
        grouped.setdefault(case, {}).setdefault(int(batch), {})[mode] = seconds
    yield from grouped.items()


def ordered(batches: dict[int, dict[str, list[float]]]) -> list[str]:
    """The modes by grammar engine, then by answer."""
    known = ["none", *(f"{answer} {engine}" for engine in ENGINES for answer in ANSWERS)]
    return [mode for mode in known if mode in next(iter(batches.values()))]


def reduction(runs: dict[str, list[float]], mode: str) -> float:
    """In % of the tokens/s without a filter; the median over the rounds, each against its own round."""
    pairs = zip(runs["none"], runs[mode], strict=False)
    return 100 * statistics.median(1 - none / seconds for none, seconds in pairs)


def noise(runs: dict[str, list[float]]) -> float:
    """The interquartile range of the runs without a filter, in % of their median."""
    times = runs["none"]
    if len(times) < 2:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return 100 * (high - low) / statistics.median(times)


def show(found: dict[str, Any]) -> str:
    lines = [f"exllamav2 {found['exllamav2']}, {found['ids']:,} ids, {found['tokens']} tokens, load {found['load']}"]
    lines.append(f"to sample one token takes {1000 * found['sampling']:.2f} ms")
    for name, share in found["forced"].items():
        lines.append(f"states of the {name} with exactly one id: {100 * share:.1f} %")
    for case, batches in groups(found):
        modes = ordered(batches)
        lines += ["", f"{case}: reduction in tokens/s, in %", f"{'batch':28}" + "".join(f"{b:>9}" for b in batches)]
        for mode in modes:
            if mode != "none":
                count = len(next(iter(batches.values()))[mode])
                shown = "".join(f"{reduction(runs, mode):9.2f}" for runs in batches.values())
                lines.append(f"{mode:28}{shown}   ({count} rounds)")
        lines.append(f"{'noise without a filter':28}" + "".join(f"{noise(runs):9.2f}" for runs in batches.values()))
        rates = (found["tokens"] * b / statistics.median(runs["none"]) for b, runs in batches.items())
        lines.append(f"{'tokens/s without a filter':28}" + "".join(f"{rate:9.1f}" for rate in rates))
    lines += ["", "published, on a GPU, with an earlier filter", f"{'batch':28}" + "".join(f"{b:>9}" for b in BATCHES)]
    lines += [f"{name:28}" + "".join(f"{value:9.2f}" for value in values) for name, values in PUBLISHED.items()]
    return "\n".join(lines)


#: What the plot shows of the native engine, each beside its color: what was, and what a user gets now.
SHOWN = {
    "set": ("a set, as before 0.2.1", "C3"),
    "list": ("a list", "C1"),
    "mask+threads": ("a mask, in threads: what you get", "C2"),
}


TITLE = "How much slower ExLlamaV2 is with formatter-core, by how its filter answers"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """The reductions by batch: a panel for each format, with the longest forward pass that is waited for busily."""
    chosen: dict[str, tuple[str, dict[int, dict[str, list[float]]]]] = {}
    for case, batches in groups(found):
        forward, format = case.split(", ")
        if format not in chosen or _rank(forward) > _rank(chosen[format][0]):
            chosen[format] = forward, batches
    figure, axes = pyplot.subplots(1, len(chosen), figsize=(4.6 * len(chosen), 3.6), sharey=True, squeeze=False)
    for axis, (format, (forward, batches)) in zip(axes.flat, sorted(chosen.items()), strict=True):
        places = list(range(len(batches)))
        axis.fill_between(
            places, [noise(runs) for runs in batches.values()], color="0.9", label="noise without a filter"
        )
        for answer, (label, color) in SHOWN.items():
            if f"{answer} native" in next(iter(batches.values())):
                values = [reduction(runs, f"{answer} native") for runs in batches.values()]
                axis.plot(places, values, "o-", color=color, label=label)
                axis.annotate(f"{values[-1]:.1f} %", (places[-1], values[-1]), (6, -4), textcoords="offset points")
        axis.set_title(f"{format}, forward pass of {forward}", fontsize=10)
        axis.set_xticks(places, [str(batch) for batch in batches])
        axis.set_xlim(-0.2, len(places) - 0.4)
        axis.set_xlabel("sequences in a batch")
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("fewer tokens/s, %")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def _rank(forward: str) -> tuple[bool, int]:
    milliseconds, _, wait = forward.partition(" ms ")
    return wait == "busy", int(milliseconds)
