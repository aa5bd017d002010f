"""Measure what constraining costs on llama.cpp, and what sharing prompts and batching continuously save.

    python3.11 dev.py bench llama_cpp      # writes llama_cpp.json and, with matplotlib, llama_cpp.png

Everything runs in this process on one thread, on a model of random weights made on the spot: 32,000 tokens, 6 layers of
width 256. Such a small model lies in the processor's cache, so that a batch saves little: samples in parallel are
measured on one of width 512 (129 MB) as well, whose weights are read from memory as those of real models are. Variants
take turns, round by round, in seconds of processor time; figures are medians over the rounds, and ratios medians of
each round's own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from benchmarks.harness import bars, markdown, medians, ratio, take_turns
from formatter_core import formats
from formatter_core.generation import Sampling
from formatter_llama_cpp import Scheduler, create_logits_processor, create_sampler, create_vocabulary
from tests.engines_real.llama_cpp_models import write_bpe

#: One language in two notations: most tokens are allowed everywhere, and an end is as improbable as any other token.
FORMAT = formats.regex("[a-zA-Z ,.]+")
GRAMMAR = "root ::= [a-zA-Z ,.]+"
PROMPT_TOKENS, STEPS, TOKENS = 512, 48, 64
#: Widths of the models.
SMALL, LARGER = 256, 512
#: A round on the larger model takes half a minute.
MOST_ROUNDS = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "default": 7},
    "--counts": {"type": int, "nargs": "+", "default": [1, 4, 16], "help": "samples of one prompt"},
}
SMOKE = {"rounds": 1, "counts": [1, 2]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    counts, rounds = options.counts, options.rounds
    with model(LARGER) as llama:
        larger = {str(count): parallel(llama, count, min(rounds, MOST_ROUNDS)) for count in counts[-1:]}
    with model(SMALL) as llama:
        return {
            "versions": {"llama_cpp": llama_cpp.__version__},
            "per_token": per_token(llama, rounds),
            "parallel": {str(count): parallel(llama, count, rounds) for count in counts},
            "parallel, larger model": larger,
            "batching": batching(llama, rounds),
            "short outputs": short_outputs(llama),
        }


@contextmanager
def model(width: int) -> Iterator[Any]:
    """Make a model of random weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_bpe(Path(folder) / "model.gguf", layers=6, width=width, size=32_000, context=4096)
        llama = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, seed=1)
        try:
            yield llama
        finally:
            llama.close()


def show(found: dict[str, Any]) -> str:
    each, short = found["per_token"], found["short outputs"]
    times = [[name, f"{micros:.0f}"] for name, micros in each["microseconds"].items()]
    samples = [
        [
            str(width),
            count,
            *(f"{seconds:.2f}" for seconds in one["seconds"].values()),
            f"{one['parallel to prompt kept']:.2f}",
        ]
        for width, part in ((SMALL, found["parallel"]), (LARGER, found["parallel, larger model"]))
        for count, one in part.items()
    ]
    batched = [
        [kind, f"{one['tokens a second']:.0f}", str(one["steps"]), f"{one['occupancy']:.0%}"]
        for kind, one in found["batching"].items()
        if isinstance(one, dict)
    ]
    added = (
        f"Our processor adds {each['ours to LlamaGrammar']:.3f} of what LlamaGrammar adds; beyond what a processor "
        f"that does nothing adds, it is {each['ours alone to LlamaGrammar']:.3f}."
    )
    ways = next(iter(found["parallel"].values()))["seconds"]
    return "\n\n".join(
        [
            f"llama-cpp-python {found['versions']['llama_cpp']}; {found['machine']}",
            markdown(["what chooses the token", "µs a token"], times),
            added,
            markdown(
                ["width of the model", "samples of one prompt", *(f"{way}, s" for way in ways), "ratio to prompt kept"],
                samples,
            ),
            markdown(["batching", "tokens/s", "steps", "busy"], batched),
            f"Short outputs: {short['tokens a step']:.1f} tokens a step.",
        ]
    )


def per_token(llama: Any, rounds: int) -> dict[str, Any]:
    """Measure microseconds a token: plain, with a processor that does nothing, with ours, with llama.cpp's grammar."""
    prompt = llama.tokenize(b"the name of a person")
    ours = create_logits_processor(llama, FORMAT)
    nothing = llama_cpp.LogitsProcessorList([lambda ids, scores: scores])
    grammar = llama_cpp.LlamaGrammar.from_string(GRAMMAR, verbose=False)

    def generate(**options: Any) -> float:
        ours.reset()
        tokens = llama.generate(prompt, temp=0.8, **options)
        next(tokens)  # the prompt is not what is measured
        start = time.process_time()
        for _ in range(TOKENS):
            next(tokens)
        return time.process_time() - start

    def chain(with_sampler: bool) -> float:
        made = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        if with_sampler:
            create_sampler(llama, FORMAT).add_to(made)
        for sampler in (
            llama_cpp.llama_sampler_init_top_k(40),
            llama_cpp.llama_sampler_init_temp(0.8),
            llama_cpp.llama_sampler_init_dist(1),
        ):
            llama_cpp.llama_sampler_chain_add(made, sampler)
        llama.reset()
        llama.eval(prompt)
        start = time.process_time()
        for _ in range(TOKENS):
            llama.eval([llama_cpp.llama_sampler_sample(made, llama.ctx, -1)])
        seconds = time.process_time() - start
        llama_cpp.llama_sampler_free(made)
        return seconds

    tasks: dict[str, Callable[[], float]] = {
        "plain": generate,
        "processor that does nothing": partial(generate, logits_processor=nothing),
        "our processor": partial(generate, logits_processor=ours),
        "LlamaGrammar": partial(generate, grammar=grammar),
        "own chain": partial(chain, False),
        "own chain with our sampler": partial(chain, True),
    }
    seconds = take_turns(tasks, rounds)

    def added(name: str, without: str) -> list[float]:
        return [one - other for one, other in zip(seconds[name], seconds[without], strict=True)]

    costs = {
        "processor that does nothing": added("processor that does nothing", "plain"),
        "our processor": added("our processor", "plain"),
        "LlamaGrammar": added("LlamaGrammar", "plain"),
        "our sampler": added("own chain with our sampler", "own chain"),
    }
    return {
        "microseconds": medians(seconds, 1e6 / TOKENS),
        "added": medians(costs, 1e6 / TOKENS),
        "ours to LlamaGrammar": ratio(costs["our processor"], costs["LlamaGrammar"]),
        # Without what the library itself takes to call a processor.
        "ours alone to LlamaGrammar": ratio(
            added("our processor", "processor that does nothing"), costs["LlamaGrammar"]
        ),
    }


def parallel(llama: Any, count: int, rounds: int) -> dict[str, Any]:
    """Measure seconds for samples of one prompt: in parallel, one after the other with the prompt kept, and without."""
    allowed = [token for token in range(llama.n_vocab()) if create_vocabulary(llama).text_token(token)]
    prompt = np.random.default_rng(0).choice(allowed, PROMPT_TOKENS).tolist()
    sampling = Sampling(0.8, top_k=40, seed=1)

    def together() -> float:
        with Scheduler(llama, max_sequences=count, context_size=PROMPT_TOKENS + count * STEPS + 256) as scheduler:
            start = time.process_time()
            scheduler.submit(prompt, samples=count, format=FORMAT, max_tokens=STEPS, sampling=sampling)
            for _ in scheduler.run():
                pass
            return time.process_time() - start

    def one_by_one(keep: bool) -> float:
        llama.reset()
        processor = create_logits_processor(llama, FORMAT)
        start = time.process_time()
        for _ in range(count):
            if not keep:
                llama.reset()
            processor.reset()
            for _ in zip(range(STEPS), llama.generate(prompt, temp=0.8, logits_processor=processor), strict=False):
                pass
        return time.process_time() - start

    tasks: dict[str, Callable[[], float]] = {
        "parallel": together,
        "one by one, prompt kept": partial(one_by_one, True),
        "one by one": partial(one_by_one, False),
    }
    times = take_turns(tasks, rounds)
    seconds = medians(times)
    return {
        "seconds": seconds,
        "tokens a second": {name: count * STEPS / value for name, value in seconds.items()},
        "parallel to prompt kept": ratio(times["parallel"], times["one by one, prompt kept"]),
        "parallel to one by one": ratio(times["parallel"], times["one by one"]),
    }


def batching(llama: Any, rounds: int) -> dict[str, Any]:
    """Serve 64 requests of mixed length by 16 sequences: each refilled at once, or all when the last has ended."""
    lengths = np.random.default_rng(1).integers(4, 64, 64).tolist()
    counts: dict[str, tuple[int, int]] = {}

    def run(name: str, group: int) -> float:
        with Scheduler(llama, max_sequences=16, context_size=2048) as scheduler:
            start, steps, tokens = time.process_time(), 0, 0
            for first in range(0, len(lengths), group):
                for number, length in enumerate(lengths[first : first + group]):
                    ids = llama.tokenize(f"the number {first + number} of".encode())
                    scheduler.submit(ids, format=FORMAT, max_tokens=length)
                while not scheduler.is_idle:
                    tokens += sum(update.token_id is not None for update in scheduler.step())
                    steps += 1
            counts[name] = steps, tokens
            return time.process_time() - start

    tasks = {"continuous": partial(run, "continuous", len(lengths)), "static": partial(run, "static", 16)}
    times = take_turns(tasks, rounds)
    report: dict[str, Any] = {
        name: {
            "seconds": seconds,
            "tokens a second": counts[name][1] / seconds,
            "steps": counts[name][0],
            "occupancy": counts[name][1] / (counts[name][0] * 16),
        }
        for name, seconds in medians(times).items()
    }
    report["continuous to static"] = ratio(times["continuous"], times["static"])
    return report


def short_outputs(llama: Any) -> dict[str, Any]:
    """Write 64 samples of at most 20 tokens that might have written 256, in a context of 512 tokens."""
    steps = 0
    with Scheduler(llama, max_sequences=16, context_size=512) as scheduler:
        short = formats.regex("[a-z ]{8,16}[.]")
        sampling = Sampling(1.0, seed=1)
        request = scheduler.submit("the name of", samples=64, format=short, max_tokens=256, sampling=sampling)
        while not scheduler.is_idle:
            scheduler.step()
            steps += 1
    tokens = sum(len(sample.output.tokens) for sample in request.samples if sample.output is not None)
    return {"steps": steps, "tokens": tokens, "tokens a step": tokens / steps}


#: Names the ways in the picture.
LABELS = {
    "plain": "no format",
    "our processor": "formatter-core's processor",
    "LlamaGrammar": "llama.cpp's own LlamaGrammar",
    "own chain": "no format, a chain of samplers",
    "own chain with our sampler": "the same with formatter-core's sampler",
}
TITLE = "What formatter-core costs on llama-cpp-python, and what its parallel sequences save"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw microseconds a token, and samples of one prompt."""
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 2.6), width_ratios=(4, 3), layout="constrained")
    count, samples = list(found["parallel"].items())[-1]
    costs = found["per_token"]["microseconds"]
    panels = {
        "µs of CPU time for a token": {LABELS.get(name, name): cost for name, cost in costs.items()},
        f"tokens/s, {count} samples of one prompt": samples["tokens a second"],
    }
    for axis, (title, lengths) in zip(axes, panels.items(), strict=True):
        bars(axis, {"": lengths}, lying=True, labels=" %.0f")
        axis.set(xlim=(0, 1.2 * max(lengths.values())), xlabel=title)
    return figure
