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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import llama3_ranks
from benchmarks.harness import seconds_of
from examples import exllamav2_simulated as simulated
from formatter_core import Compiler, formats

ENGINES = ("native", "kbnf")
ANSWERS = ("set", "set+threads", "list", "list+threads", "mask", "mask+threads")
BATCHES = (1, 2, 4, 8)
#: Forward pass in ms, and whether it is waited for busily.
FORWARDS = ((25, False), (25, True), (10, False), (10, True))
#: Reduction in tokens/s, in %, at batch 1, 2, 4, 8, as published for a GPU: four stages of the earlier filter.
PUBLISHED = {
    "original (set)": (8.24, 5.44, 10.52, 13.65),
    "threads": (5.63, 6.16, 1.01, 4.50),
    "list": (3.22, 5.23, 6.53, 3.60),
    "threads, list": (2.38, 3.73, 0.18, -1.41),
    "threads, list, newer engine": (1.98, 2.65, -0.76, -2.17),
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["article", "review", "note", "letter"]},
        "title": {"type": "string", "maxLength": 120},
        "authors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "born": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                    "address": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
                },
                "required": ["name", "born"],
                "additionalProperties": False,
            },
        },
        "score": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "kind", "title", "authors", "tags"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "town": {"type": "string"}},
            "required": ["town"],
        }
    },
}
REGEX = r"(Dear [A-Z][a-z]+,\n)?([A-Za-z ,']+[.!?] ?)+\d{4}-\d{2}-\d{2}: [^\n]+\n"
FORMATS = {"regex": formats.regex(REGEX), "schema": formats.json_schema(SCHEMA)}
COMMON = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power
"""
WORDS = COMMON.split()
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
    source = Script()
    made = simulated.Parts(model_folder(pieces), source)
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
                                source.scripts = scripts[:batch]
                                seconds = run(made, modes.filters(mode, name, batch), scripts[:batch])
                                key = f"{milliseconds} ms {wait}, {name}, {batch}, {mode}"
                                if number >= 0:
                                    found["runs"].setdefault(key, []).append(seconds)
        print(f"round {number} is over, load {os.getloadavg()[0]:.1f}", flush=True)
    found["load after"] = os.getloadavg()
    before = options.output.with_suffix(".json")
    if options.add and before.exists():
        found["runs"] = json.loads(before.read_text())["runs"] | found["runs"]
    return found


def run(made: simulated.Parts, filters: list[Any], scripts: list[list[int]]) -> float:
    """Generate one batch; how long it took."""
    from exllamav2.generator import ExLlamaV2DynamicJob, ExLlamaV2Sampler

    generator = made.generator
    generator.reset_page_table()
    gc.collect()
    jobs = [
        ExLlamaV2DynamicJob(
            input_ids=torch.tensor([[0, 1, row]]),
            max_new_tokens=len(script),
            seed=row,
            gen_settings=ExLlamaV2Sampler.Settings(),
            filters=filters[row : row + 1],
            stop_conditions=[made.tokenizer.eos_token_id],
        )
        for row, script in enumerate(scripts)
    ]
    tokens: dict[Any, list[int]] = {job: [] for job in jobs}
    begun = time.perf_counter()
    generator.enqueue(jobs)
    while generator.num_remaining_jobs():
        for output in generator.iterate():
            if "token_ids" in output:
                tokens[output["job"]] += output["token_ids"].flatten().tolist()
    seconds = time.perf_counter() - begun
    for script, job in zip(scripts, jobs, strict=True):
        if tokens[job] != script:
            raise SystemExit(f"other tokens than those of the script: {tokens[job]} for {script}")
    for each in filters:
        if each.error is not None:
            raise each.error
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


class Script:
    """Logits that push the next token of a row's script to the top of noise that stays the same."""

    def __init__(self) -> None:
        self.scripts: list[list[int]] = []
        self._noise = torch.randn(2**18, generator=torch.Generator().manual_seed(0))
        self._row_of: dict[int, int] = {}

    def logits(self, row: torch.Tensor, sequence: int, position: int, last: int) -> None:
        if position == 3:  # behind the prompt, whose last token is the number of the row
            self._row_of[sequence] = last
        row.copy_(self._noise[: len(row)])
        row[self.scripts[self._row_of[sequence]][position - 3]] += 60


class Texts:
    """Texts in the formats, as tokens: at each place the longest piece that fits."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._ids = {piece: token_id for token_id, piece in reversed(list(enumerate(pieces)))}
        self._longest = min(32, max(map(len, pieces)))

    def tokens(self, name: str, rng: random.Random, count: int) -> list[int]:
        text = self._letter(rng) if name == "regex" else self._document(rng)
        data, place, found = text.encode(), 0, list[int]()
        while len(found) < count:
            size = next(n for n in range(self._longest, 0, -1) if data[place : place + n] in self._ids)
            size = min(size, len(data) - place)
            found.append(self._ids[data[place : place + size]])
            place += size
        return found

    @staticmethod
    def _words(rng: random.Random, least: int, most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(least, most)))

    def _letter(self, rng: random.Random) -> str:
        lines = " ".join(self._words(rng, 4, 9).capitalize() + rng.choice(".!?") for _ in range(2))
        day = f"{rng.randint(1900, 2030)}-{rng.randint(10, 12)}-{rng.randint(10, 28)}"
        return f"Dear {rng.choice(WORDS).capitalize()},\n{lines} {day}: {self._words(rng, 200, 220)}\n"

    def _document(self, rng: random.Random) -> str:
        def author() -> dict[str, Any]:
            born = f"{rng.randint(1900, 2000)}-{rng.randint(10, 12)}-{rng.randint(10, 28)}"
            place = {"street": self._words(rng, 1, 2), "town": rng.choice(WORDS)}
            return {"name": self._words(rng, 2, 3).title(), "born": born, "address": rng.choice(["no " * 3, place])}

        return json.dumps(
            {
                "id": rng.randint(1, 10**6),
                "kind": rng.choice(["article", "review", "note", "letter"]),
                "title": self._words(rng, 3, 6).capitalize(),
                "authors": [author() for _ in range(rng.randint(8, 9))],
                "tags": [rng.choice(WORDS) for _ in range(40)],
            }
        )


def small_vocabulary() -> list[bytes]:
    return [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]


def model_folder(pieces: list[bytes]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="exllamav2-"))
    special = {f"<|special {number}|>": len(pieces) + number for number in range(256)}
    tokenizer = simulated.byte_level_tokenizer(pieces[256:], first=pieces[:256], **special)
    end = len(pieces) + 1
    return simulated.write_model(folder, tokenizer, vocab_size=len(pieces) + 256, bos=len(pieces), eos=end)


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


#: Above the picture.
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
