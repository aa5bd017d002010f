"""What a filter of ExLlamaV2 or ExLlamaV3 costs in each step, call by call, in every release of its environment.

    python3.11 dev.py bench exllama_filters                                       # ExLlamaV2
    python3.11 dev.py run exllamav3 -m benchmarks exllama_filters                 # ExLlamaV3, added to the same file

A filter is called as the generators call it, with logits of Llama 3's 128,256 ids and without a model: once while the
model runs (in the generator's threads, by default), and once when its logits are there, for which the step waits. The
least CPU time of each step in many rounds counts, which other processes do not change; the control is the least of the
even rounds beside that of the odd ones. The share is that of a step of 10 or 25 ms, in a batch whose rows all have a
filter: of what is waited for, and of all, as without threads.
"""

from __future__ import annotations

import argparse
import importlib
import random
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.data import llama3_ranks
from benchmarks.exllama import BATCHES, FORMATS, Texts, engines_before, is_second
from benchmarks.harness import in_child, least, markdown, take_turns
from formatter_core import CompiledFormat, Compiler, Vocabulary

OPTIONS: dict[str, dict[str, Any]] = {
    "--tokens": {"type": int, "default": 24},
    "--rounds": {"type": int, "default": 40},
}
SMOKE = {"tokens": 4, "rounds": 2}
STEPS = (10, 25)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    pieces: list[bytes] = list(llama3_ranks())
    vocabulary = Vocabulary([*pieces, *[None] * 256], [len(pieces) + 1])
    compiler, texts = Compiler(vocabulary), Texts(pieces)
    cases = {
        name: (compiler.compile(format), texts.tokens(name, random.Random(0), options.tokens))
        for name, format in FORMATS.items()
    }
    environment = Path(sys.prefix)
    folders = sorted([*environment.glob("exllamav2/*/"), *environment.glob("releases/exllamav3-*/")])
    releases = {folder.name.rpartition("-")[2]: folder for folder in folders}
    if not is_second():
        releases[version("exllamav3")] = Path()
    measured = {}
    for name, folder in releases.items():

        def child(folder: Path = folder) -> dict[str, Any]:
            if folder.name:
                sys.path.insert(0, str(folder))
            return of_release(steps_v2 if is_second() else steps_v3, cases, options.rounds)

        measured[name] = in_child(child, None)
    engine = "ExLlamaV2" if is_second() else "ExLlamaV3"
    return {"ids": len(vocabulary), "engines": {**engines_before(options), engine: measured}}


def of_release(steps: Any, cases: dict[str, tuple[CompiledFormat, list[int]]], rounds: int) -> dict[str, Any]:
    """By format: the mean over the steps of the least microseconds of both calls, and the control."""
    tasks = {name: lambda case=case: steps(*case) for name, case in cases.items()}
    found = take_turns(tasks, rounds)
    result = {}
    for name, taken in found.items():
        before, waited = ([[step[part] for step in run] for run in taken] for part in (0, 1))
        both = [[sum(step) for step in run] for run in taken]
        result[name] = {
            "while the model runs, us": statistics.mean(least(before)),
            "waited for, us": statistics.mean(least(waited)),
            "even rounds / odd": sum(least(both[::2])) / sum(least(both[1::2])),
        }
    return result


def timed(task: Any, *arguments: Any) -> tuple[float, Any]:
    begun = time.process_time_ns()
    answer = task(*arguments)
    return (time.process_time_ns() - begun) / 1000, answer


def steps_v2(compiled: CompiledFormat, tokens: list[int]) -> list[tuple[float, float]]:
    from formatter_exllamav2 import FormatterFilter

    width = len(compiled.vocabulary)
    each = FormatterFilter(None, SimpleNamespace(config=SimpleNamespace(vocab_size=width)), compiled)
    each.begin("")
    noise = torch.randn(width, generator=torch.Generator().manual_seed(0))
    found = []
    for token in tokens:
        logits = noise.clone()
        if getattr(each, "can_mask_logits", lambda: False)():
            prepared, _ = timed(each.prepare_logit_mask)
            waited, _ = timed(each.mask_logits, logits)
        else:
            prepared, _ = timed(each.answer)
            waited, _ = timed(each.next)
        fed, _ = timed(each.feed, torch.tensor([[token]]))
        found.append((prepared, waited + fed))
    return found[1:]


def steps_v3(compiled: CompiledFormat, tokens: list[int]) -> list[tuple[float, float]]:
    importlib.import_module("tests.engines_real.exllamav3_without_gpu").import_exllamav3()
    from formatter_exllamav3 import FormatterFilter

    width = -(-len(compiled.vocabulary) // 32) * 32
    each = FormatterFilter(None, compiled)
    job = SimpleNamespace(filters=[each], checkpoint=None, new_tokens=0, min_new_tokens=0)
    job.pinned_logit_mask = torch.empty((1, width), dtype=torch.half)
    job.generator = SimpleNamespace(padded_vocab_size=width)
    each.attach(job)
    each.reset()
    found = []
    for token in tokens:
        prepared, _ = timed(each.get_next_logit_mask)
        accepted, _ = timed(each.accept_token, token)
        completed, _ = timed(each.is_completed)
        found.append((prepared, accepted + completed))
    return found[1:]


def show(found: dict[str, Any]) -> str:
    columns = [(batch, milliseconds) for milliseconds in STEPS for batch in (BATCHES[0], BATCHES[-1])]
    rows = []
    for engine, release, format, values in lines(found):
        shares = [
            " / ".join(f"{share(batch, milliseconds, taken):.4f}" for taken in (values["waited"], values["all"]))
            for batch, milliseconds in columns
        ]
        figures = [f"{values['all'] - values['waited']:.0f}", f"{values['waited']:.0f}", f"{values['control']:.3f}"]
        rows.append([f"{engine} {release}", format, *figures, *shares])
    heads = [f"batch {batch}, {milliseconds} ms" for batch, milliseconds in columns]
    names = ["release", "format", "while the model runs, µs", "waited for, µs", "even rounds / odd", *heads]
    head = f"{found['ids']:,} ids; {found['machine']}. Shares: with the generator's threads / without"
    return "\n".join([head, "", markdown(names, rows)])


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    """Engine, release, format, and the microseconds: what is waited for, all of it, and the control."""
    for engine, releases in found["engines"].items():
        for release, formats in releases.items():
            for format, values in formats.items():
                waited = values["waited for, us"]
                whole = waited + values["while the model runs, us"]
                yield engine, release, format, {"waited": waited, "all": whole, "control": values["even rounds / odd"]}


def share(batch: int, milliseconds: int, microseconds: float) -> float:
    """A step with a filter for each row, beside one without."""
    return 1 + batch * microseconds / 1000 / milliseconds


TITLE = "How much longer formatter-core's filters make a step of ExLlama, called one by one"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """The worse format of the last release of each engine, with threads, by batch."""
    worst: dict[str, tuple[str, float]] = {}
    for engine, release, _, values in lines(found):
        known, waited = worst.get(engine, ("", 0.0))
        worst[engine] = release, max(values["waited"], waited if known == release else 0.0)
    figure, axis = pyplot.subplots(figsize=(6, 3.4))
    for engine, (release, waited) in worst.items():
        longer = [100 * (share(batch, STEPS[-1], waited) - 1) for batch in BATCHES]
        axis.plot(range(len(BATCHES)), longer, "o-", label=f"formatter-core in {engine} {release}")
        axis.annotate(f"{longer[-1]:.2f} %", (len(BATCHES) - 1, longer[-1]), (6, -4), textcoords="offset points")
    axis.axhline(1, color="0.5", linestyle="--", linewidth=1, label="goal: 1 %")
    axis.set_xticks(range(len(BATCHES)), list(map(str, BATCHES)))
    axis.set_xlim(-0.2, len(BATCHES) - 0.5)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("sequences in a batch, each with a filter")
    axis.set_ylabel(f"longer steps (of {STEPS[-1]} ms), %")
    axis.legend(frameon=False, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure
