"""Measure what lists of the best tokens cost: against a loop over the rows, and inside generation.

    python -m benchmarks.top_tokens --output top_tokens    # writes top_tokens.json and, with matplotlib, top_tokens.png

Three parts:

- *ties*: lists of random logits in float32, float16 and bfloat16 against a plain sort, ties and all;
- *batch*: 64 rows of 50,257 logits at once; row by row (top-k, then the ties with the last, and log-probabilities); and
  a plain `torch.topk` and `logsumexp` of the whole batch, which has no exact ties. Ratios are medians over pairs of the
  same round, and the control is each reference beside itself, run once more in that round;
- *generation*: prefill (the first token included), milliseconds a step, and the whole, for n = 0, 5, 20 and 64 and
  batches of 1 to 64, on a GPT-2 of random weights (6 layers of width 256, 50,257 tokens) made on the spot. Tokens are
  the most probable ones; typical-p sampling with mass 0.5 is the reference, and plain sampling stands beside it.

Everything runs in this process on one thread, variants take turns, medians count; what n costs is the median over the
rounds of its ratio to n = 0 in the same round. Times are those of the processor, to which other jobs on the machine add
least. Where torch finds a GPU, generation runs there as well, by the clock on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from formatter_core.generation import Sampling, ScoreSettings, TextDelta, continuation
from formatter_transformers import top_tokens, transformers_model
from tests.engines_real.transformers_models import trained_tokenizer

WIDTH, ROWS, COUNTS = 50_257, 64, (0, 5, 20, 64)
PROMPT_TOKENS, STEPS = 64, 24
#: Published for another library's generator, milliseconds: n = 0, 5, 20, 64, and typical-p 0.5.
PUBLISHED = {
    "prefill": {"n = 0": 21.79, "n = 5": 26.72, "n = 20": 30.67, "n = 64": 40.20, "typical-p 0.5": 28.79},
    "a token": {"n = 0": 13.54, "n = 5": 17.81, "n = 20": 22.45, "n = 64": 34.53, "typical-p 0.5": 19.46},
}
VARIANTS: dict[str, tuple[Sampling, ScoreSettings]] = {
    **{f"n = {n}": (Sampling(), ScoreSettings(top=n, logprob=n > 0, unmasked=False)) for n in COUNTS},
    "plain sampling": (Sampling(temperature=1.0), ScoreSettings()),
    "typical-p 0.5": (Sampling(temperature=1.0, typical_p=0.5), ScoreSettings()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("top_tokens"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    options = parser.parse_args()
    torch.set_num_threads(1)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    report: dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "machine": {"processor": platform.machine(), "processors": os.cpu_count(), "python": platform.python_version()},
        "ties": ties(),
        "batch": batch(options.rounds),
        "generation": {device: generation(device, options.batches, options.rounds) for device in devices},
        "published": {**PUBLISHED, "cost": costs(PUBLISHED["a token"])},
    }
    if "cuda" not in devices:
        report["generation"]["cuda"] = "not run: no GPU"
    options.output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    show(report)
    plot(report, options.output.with_suffix(".png"))


def ties() -> dict[str, Any]:
    """Whether the lists are those of a sort, and how many ties there were."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        logits = (torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
        exact, extra = True, 0
        for n in (1, 5, 20, 40):
            for row, one in zip(logits, top_tokens(logits, n), strict=True):
                expected = sorted_list(row, n)[:64]
                exact &= list(one.ids) == expected
                extra += len(expected) - n
        found[str(dtype).removeprefix("torch.")] = {"exact": exact, "ties with the last": extra}
    return found


def sorted_list(row: torch.Tensor, n: int) -> list[int]:
    """The best tokens of a row, and those that tie with the last, by a stable sort of the whole row."""
    values, ids = row.sort(descending=True, stable=True)
    return ids[values >= values[n - 1]].tolist()


def row_loop(logits: torch.Tensor, n: int) -> list[list[tuple[int, float]]]:
    """The same lists with their log-probabilities, row by row, sorting no more than they hold."""
    lists = []
    for row in logits:
        wide = row.float()
        ids = (wide >= wide.topk(n).values[-1]).nonzero()[:, 0]
        values, order = wide[ids].sort(descending=True, stable=True)
        lists.append(list(zip(ids[order].tolist(), (values - wide.logsumexp(0)).tolist(), strict=True)))
    return lists


def plain_topk(logits: torch.Tensor, n: int) -> tuple[list[list[int]], list[list[float]]]:
    """Exactly `n` tokens of each row, whichever of those that tie, with their log-probabilities."""
    wide = logits.float()
    best = wide.topk(n, dim=1)
    return best.indices.tolist(), (best.values - wide.logsumexp(1, keepdim=True)).tolist()


def batch(rounds: int) -> dict[str, Any]:
    """Milliseconds for 64 rows at once and row by row, and their ratio."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        logits = (torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)) * 3).to(dtype)
        for n in COUNTS[1:]:
            times = taking_turns(
                {
                    "at once": partial(top_tokens, logits, n),
                    "row by row": partial(row_loop, logits, n),
                    "torch.topk": partial(plain_topk, logits, n),
                    "row by row, again": partial(row_loop, logits, n),
                    "torch.topk, again": partial(plain_topk, logits, n),
                },
                rounds,
            )
            medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
            found[f"{dtype}, n = {n}".removeprefix("torch.")] = {
                **medians,
                "ratio": ratio(times["at once"], times["row by row"]),
                "ratio to torch.topk": ratio(times["at once"], times["torch.topk"]),
                "control": ratio(times["row by row, again"], times["row by row"]),
                "control of torch.topk": ratio(times["torch.topk, again"], times["torch.topk"]),
            }
    return found


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over pairs of the same round."""
    return statistics.median(own / other for own, other in zip(ours, theirs, strict=True))


def taking_turns(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each variant in each round; one round before is not counted."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - start)
    return times


def generation(device: str, batches: Sequence[int], rounds: int) -> dict[str, Any]:
    """For each batch and variant the medians of prefill, of a step and of the whole, and what it costs beside n = 0."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=WIDTH, n_embd=256, n_layer=6, n_head=8, n_positions=512, bos_token_id=0, eos_token_id=0
    )
    tokenizer = trained_tokenizer()
    loaded = transformers.GPT2LMHeadModel(config).eval()
    loaded.generation_config.eos_token_id = tokenizer.eos_token_id
    model = transformers_model(loaded, device, tokenizer=tokenizer, cache_bytes=0)
    writers = {
        name: continuation(
            model, max_tokens=STEPS, ignore_eos=True, sampling=sampler, scores=scores, batch=max(batches)
        )
        for name, (sampler, scores) in VARIANTS.items()
    }
    found: dict[str, Any] = {}
    for size in batches:
        draws = random.Random(size)
        prompts = [[draws.randrange(3, 400) for _ in range(PROMPT_TOKENS)] for _ in range(size)]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
        for turn in range(rounds + 1):
            for name, write in writers.items():
                measured = timed(write, prompts, time.process_time if device == "cpu" else time.perf_counter)
                if turn:
                    times[name].append(measured)
        found[str(size)] = {name: summary(times[name], times["n = 0"]) for name in writers}
    return found


def timed(write: Any, prompts: list[list[int]], clock: Callable[[], float]) -> tuple[float, float]:
    """The seconds until every prompt has its first token, and those of all further steps."""
    waiting = set(range(len(prompts)))
    start = clock()
    first = None
    for event in write.stream(prompts, seed=1):
        if isinstance(event, TextDelta) and waiting:
            waiting.discard(event.prompt)
            if not waiting:
                first = clock()
    end = clock()
    if first is None:
        raise RuntimeError("a prompt had no token")
    return first - start, end - first


def summary(times: list[tuple[float, float]], base: list[tuple[float, float]]) -> dict[str, float]:
    """Milliseconds, and ratios to n = 0, less one."""
    steps = STEPS - 1

    def cost(part: Callable[[tuple[float, float]], float]) -> float:
        return statistics.median(part(one) / part(zero) for one, zero in zip(times, base, strict=True)) - 1

    return {
        "prefill": statistics.median(prefill for prefill, _ in times) * 1e3,
        "a token": statistics.median(rest for _, rest in times) / steps * 1e3,
        "total": statistics.median(map(sum, times)) * 1e3,
        "cost of prefill": cost(lambda one: one[0]),
        "cost of a token": cost(lambda one: one[1]),
        "cost of the whole": cost(sum),
    }


def costs(milliseconds: dict[str, float]) -> dict[str, float]:
    return {name: value / milliseconds["n = 0"] - 1 for name, value in milliseconds.items()}


def show(report: dict[str, Any]) -> None:
    for dtype, one in report["ties"].items():
        print(f"ties, {dtype}: exact {one['exact']}, {one['ties with the last']} ties with the last")
    for name, one in report["batch"].items():
        print(
            f"64 rows, {name}: {one['at once']:.2f} ms; "
            f"of row by row {one['ratio']:.2f} (control {one['control']:.2f}); "
            f"of torch.topk {one['ratio to torch.topk']:.2f} (control {one['control of torch.topk']:.2f})"
        )
    for device, batches in report["generation"].items():
        if isinstance(batches, str):
            print(f"generation on {device}: {batches}")
            continue
        for size, variants in batches.items():
            print(f"generation on {device}, batch {size}: ms of prefill, a token, all; cost of a token, of all")
            for name, one in variants.items():
                times = f"{one['prefill']:9.2f} {one['a token']:8.2f} {one['total']:9.1f}"
                print(f"  {name:15} {times}   {one['cost of a token']:+7.1%} {one['cost of the whole']:+7.1%}")
    print("published, cost of a token:", ", ".join(f"{k} {v:+.0%}" for k, v in report["published"]["cost"].items()))


def plot(report: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    names = ["n = 5", "n = 20", "n = 64", "typical-p 0.5"]
    series = {f"batch {size}": one for size, one in report["generation"]["cpu"].items()}
    width = 0.8 / (len(series) + 1)
    for place, (label, variants) in enumerate(series.items()):
        heights = [100 * variants[name]["cost of a token"] for name in names]
        places = [at + place * width for at in range(len(names))]
        bars = axes.bar(places, heights, width, label=f"formatter-core, {label}")
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    heights = [100 * report["published"]["cost"][name] for name in names]
    places = [at + len(series) * width for at in range(len(names))]
    axes.bar_label(axes.bar(places, heights, width, label="published", color="grey"), fmt="%.0f", fontsize=7)
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(names))], names)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylabel("% more time a token than n = 0 (linear up to 10)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
