"""Measure what constraining costs on llama.cpp, and what sharing prompts and batching continuously save.

    python -m benchmarks.llama_cpp --output llama_cpp      # writes llama_cpp.json and, with matplotlib, llama_cpp.png

Everything runs in this process on one thread, on a model of random weights made on the spot: 32,000 tokens, 6 layers of
width 256. Variants take turns, round by round, in seconds of processor time; figures are medians over the rounds, and
ratios medians of each round's own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from formatter_core import formats
from formatter_core.generation import Sampling
from formatter_llama_cpp import Scheduler, create_logits_processor, create_sampler, create_vocabulary
from tests.engines_real.llama_cpp_models import write_bpe

#: The same language for both: most tokens are allowed at every place, and an end is as improbable as any one of them.
FORMAT = formats.regex("[a-zA-Z ,.]+")
GRAMMAR = "root ::= [a-zA-Z ,.]+"
PROMPT_TOKENS, STEPS, TOKENS = 512, 48, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("llama_cpp"))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_bpe(Path(folder) / "model.gguf", layers=6, width=256, size=32_000, context=4096)
        llama = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, seed=1)
        report = {
            "versions": {"llama_cpp": llama_cpp.__version__, "python": platform.python_version()},
            "machine": {"processor": platform.machine(), "processors": os.cpu_count()},
            "per_token": per_token(llama, options.rounds),
            "parallel": parallel(llama, options.rounds),
            "batching": batching(llama, options.rounds),
        }
        llama.close()
    options.output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    plot(report, options.output.with_suffix(".png"))


def taking_turns(rounds: int, variants: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The seconds of each variant in each round; each says itself how long it took."""
    for run in variants.values():
        run()  # warm
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            seconds[name].append(run())
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in seconds.items()}


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the rounds' own ratios."""
    return statistics.median(one / other for one, other in zip(over, under, strict=True))


def per_token(llama: Any, rounds: int) -> dict[str, Any]:
    """Microseconds a token: plain, with a processor that does nothing, with ours, with llama.cpp's grammar."""
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

    seconds = taking_turns(
        rounds,
        {
            "plain": generate,
            "processor that does nothing": lambda: generate(logits_processor=nothing),
            "our processor": lambda: generate(logits_processor=ours),
            "LlamaGrammar": lambda: generate(grammar=grammar),
            "own chain": lambda: chain(False),
            "own chain with our sampler": lambda: chain(True),
        },
    )
    microseconds = {name: value / TOKENS * 1e6 for name, value in medians(seconds).items()}

    def added(name: str, without: str) -> list[float]:
        return [one - other for one, other in zip(seconds[name], seconds[without], strict=True)]

    costs = {
        "processor that does nothing": added("processor that does nothing", "plain"),
        "our processor": added("our processor", "plain"),
        "LlamaGrammar": added("LlamaGrammar", "plain"),
        "our sampler": added("own chain with our sampler", "own chain"),
    }
    return {
        "microseconds": microseconds,
        "added": {name: value / TOKENS * 1e6 for name, value in medians(costs).items()},
        "ours to LlamaGrammar": ratio(costs["our processor"], costs["LlamaGrammar"]),
    }


def parallel(llama: Any, rounds: int) -> dict[str, Any]:
    """Seconds for N samples of one prompt: in parallel, one after the other with the prompt kept, and without."""
    allowed = [token for token in range(llama.n_vocab()) if create_vocabulary(llama).text_token(token)]
    prompt = np.random.default_rng(0).choice(allowed, PROMPT_TOKENS).tolist()
    report: dict[str, Any] = {}
    for count in (1, 4, 16):

        def together(count: int = count) -> float:
            with Scheduler(llama, max_sequences=count, context_size=PROMPT_TOKENS + count * STEPS + 256) as scheduler:
                start = time.process_time()
                scheduler.submit(
                    prompt, samples=count, format=FORMAT, max_tokens=STEPS, sampling=Sampling(0.8, top_k=40, seed=1)
                )
                for _ in scheduler.run():
                    pass
                return time.process_time() - start

        def one_by_one(count: int = count, keep: bool = True) -> float:
            llama.reset()
            processor = create_logits_processor(llama, FORMAT)
            start = time.process_time()
            for _ in range(count):
                if not keep:
                    llama.reset()
                processor.reset()
                for _, _ in zip(
                    range(STEPS), llama.generate(prompt, temp=0.8, logits_processor=processor), strict=False
                ):
                    pass
            return time.process_time() - start

        times = taking_turns(
            rounds,
            {
                "parallel": together,
                "one by one, prompt kept": one_by_one,
                "one by one": partial(one_by_one, count, keep=False),
            },
        )
        seconds = medians(times)
        report[str(count)] = {
            "seconds": seconds,
            "tokens a second": {name: count * STEPS / value for name, value in seconds.items()},
            "parallel to prompt kept": ratio(times["parallel"], times["one by one, prompt kept"]),
            "parallel to one by one": ratio(times["parallel"], times["one by one"]),
        }
    return report


def batching(llama: Any, rounds: int) -> dict[str, Any]:
    """64 requests of mixed length through 16 places: each place refilled at once, or all when the last has ended."""
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

    times = taking_turns(
        rounds,
        {"continuous": partial(run, "continuous", len(lengths)), "static": partial(run, "static", 16)},
    )
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


def plot(report: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4), width_ratios=(4, 4, 2))
    costs = report["per_token"]["microseconds"]
    left.barh(list(costs), list(costs.values()))
    left.invert_yaxis()
    left.set_xlabel("µs a token")
    counts = list(report["parallel"])
    for name in report["parallel"]["1"]["seconds"]:
        middle.plot(counts, [report["parallel"][count]["tokens a second"][name] for count in counts], "o-", label=name)
    middle.set_xlabel(f"samples of one prompt of {PROMPT_TOKENS} tokens")
    middle.set_ylabel("tokens a second")
    middle.legend()
    kinds = ("continuous", "static")
    bars = right.bar(kinds, [report["batching"][kind]["tokens a second"] for kind in kinds])
    right.bar_label(bars, [f"{report['batching'][kind]['occupancy']:.0%} busy" for kind in kinds])
    right.set_ylabel("tokens a second")
    right.set_title("64 requests, 16 places")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
