"""Measure what constraining costs on llama.cpp, and what sharing prompts and batching continuously save.

    python -m benchmarks.llama_cpp --output llama_cpp      # writes llama_cpp.json and, with matplotlib, llama_cpp.png

Everything runs in this process on one thread, on a model of random weights made on the spot: 32,000 tokens, 6 layers of
width 256. Variants take turns, round by round, and the best round of each counts, in seconds of processor time: other
jobs on the machine only ever add, and to that the least.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_bpe(Path(folder) / "model.gguf", layers=6, width=256, size=32_000, context=4096)
        llama = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, seed=1)
        report = {
            "versions": {"llama_cpp": llama_cpp.__version__, "python": platform.python_version()},
            "machine": {"processor": platform.machine(), "processors": os.cpu_count()},
            "per_token": per_token(llama, options.rounds),
            "parallel": parallel(llama, max(2, options.rounds // 2)),
            "batching": batching(llama),
        }
        llama.close()
    options.output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    plot(report, options.output.with_suffix(".png"))


def best_of(rounds: int, variants: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The seconds of each variant's best round; each says itself how long it took."""
    for run in variants.values():
        run()  # warm
    return {
        name: min(times)
        for name, times in zip(
            variants, zip(*[[run() for run in variants.values()] for _ in range(rounds)], strict=True), strict=True
        )
    }


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

    seconds = best_of(
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
    microseconds = {name: value / TOKENS * 1e6 for name, value in seconds.items()}
    added = {name: microseconds[name] - microseconds["plain"] for name in ("our processor", "LlamaGrammar")}
    added["our sampler"] = microseconds["own chain with our sampler"] - microseconds["own chain"]
    return {
        "microseconds": microseconds,
        "added": added,
        "ours to LlamaGrammar": added["our processor"] / added["LlamaGrammar"],
    }


def parallel(llama: Any, rounds: int) -> dict[str, Any]:
    """Seconds for N samples of one prompt: in parallel, one after the other with the prompt kept, and without."""
    allowed = [token for token in range(llama.n_vocab()) if create_vocabulary(llama).text_token(token)]
    prompt = np.random.default_rng(0).choice(allowed, PROMPT_TOKENS).tolist()
    report: dict[str, Any] = {}
    for count in (1, 4, 16):

        def together(count: int = count) -> float:
            with Scheduler(llama, places=count, cells=PROMPT_TOKENS + count * STEPS + 256) as scheduler:
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

        seconds = best_of(
            rounds,
            {
                "parallel": together,
                "one by one, prompt kept": one_by_one,
                "one by one": partial(one_by_one, count, keep=False),
            },
        )
        report[str(count)] = {
            "seconds": seconds,
            "tokens a second": {name: count * STEPS / value for name, value in seconds.items()},
            "parallel to prompt kept": seconds["parallel"] / seconds["one by one, prompt kept"],
        }
    return report


def batching(llama: Any) -> dict[str, Any]:
    """64 requests of mixed length through 16 places: each place refilled at once, or all when the last has ended."""
    lengths = np.random.default_rng(1).integers(4, 64, 64).tolist()
    report: dict[str, Any] = {}
    for name, group in (("continuous", len(lengths)), ("static", 16)):
        with Scheduler(llama, places=16, cells=2048) as scheduler:
            start, steps, tokens = time.process_time(), 0, 0
            for first in range(0, len(lengths), group):
                for number, length in enumerate(lengths[first : first + group]):
                    ids = llama.tokenize(f"the number {first + number} of".encode())
                    scheduler.submit(ids, format=FORMAT, max_tokens=length)
                while not scheduler.is_idle:
                    tokens += sum(update.token_id is not None for update in scheduler.step())
                    steps += 1
            seconds = time.process_time() - start
        report[name] = {
            "seconds": seconds,
            "tokens a second": tokens / seconds,
            "steps": steps,
            "occupancy": tokens / (steps * 16),
        }
    return report


def plot(report: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    costs = report["per_token"]["microseconds"]
    left.barh(list(costs), list(costs.values()))
    left.set_xlabel("µs a token")
    counts = list(report["parallel"])
    for name in report["parallel"]["1"]["seconds"]:
        right.plot(counts, [report["parallel"][count]["tokens a second"][name] for count in counts], "o-", label=name)
    right.set_xlabel("samples of one prompt")
    right.set_ylabel("tokens a second")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
