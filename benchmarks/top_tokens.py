"""Measure what lists of the best tokens cost, compared with a loop over the rows, and inside generation.

    python3.11 dev.py bench top_tokens    # writes top_tokens.json and top_tokens.png

Two parts (`tests/adapters/test_top_tokens.py` checks the lists):

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
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import transformers

from benchmarks.generation import made_model
from benchmarks.harness import medians, ratio, seconds_of, take_turns
from formatter_core.generation import Sampling, ScoreSettings, TextDelta, continuation
from formatter_transformers import top_tokens, transformers_model
from tests.engines_real.transformers_models import trained_tokenizer

WIDTH, ROWS, COUNTS = 50_257, 64, (0, 5, 20, 64)
PROMPT_TOKENS, STEPS = 64, 24
OPTIONS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "default": 5},
    "--batches": {"type": int, "nargs": "+", "default": [1, 4, 16, 64]},
}
SMOKE = {"rounds": 1, "batches": [1, 2]}
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


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "batch": batch(options.rounds),
        "generation": {"cpu": generation("cpu", options.batches, options.rounds), "cuda": "not run: no GPU"},
        "published": {**PUBLISHED, "cost": costs(PUBLISHED["a token"])},
    }
    if torch.cuda.is_available():
        found["generation"]["cuda"] = generation("cuda", options.batches, options.rounds)
    return found


def row_loop(logits: torch.Tensor, n: int) -> list[list[tuple[int, float]]]:
    """List the best tokens and their log-probabilities row by row, sorting no more than a list holds."""
    lists = []
    for row in logits:
        wide = row.float()
        ids = (wide >= wide.topk(n).values[-1]).nonzero()[:, 0]
        values, order = wide[ids].sort(descending=True, stable=True)
        lists.append(list(zip(ids[order].tolist(), (values - wide.logsumexp(0)).tolist(), strict=True)))
    return lists


def plain_topk(logits: torch.Tensor, n: int) -> tuple[list[list[int]], list[list[float]]]:
    """List exactly `n` tokens of each row with their log-probabilities, and any of those that tie."""
    wide = logits.float()
    best = wide.topk(n, dim=1)
    return best.indices.tolist(), (best.values - wide.logsumexp(1, keepdim=True)).tolist()


def batch(rounds: int) -> dict[str, Any]:
    """Measure milliseconds for 64 rows at once and row by row, and their ratio."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        logits = (torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)) * 3).to(dtype)
        for n in COUNTS[1:]:
            tasks: dict[str, Callable[..., Any]] = {
                "at once": top_tokens,
                "row by row": row_loop,
                "torch.topk": plain_topk,
                "row by row, again": row_loop,
                "torch.topk, again": plain_topk,
            }
            times = take_turns({name: seconds_of(partial(task, logits, n)) for name, task in tasks.items()}, rounds)
            found[f"{dtype}, n = {n}".removeprefix("torch.")] = {
                **medians(times, 1e3),
                "ratio": ratio(times["at once"], times["row by row"]),
                "ratio to torch.topk": ratio(times["at once"], times["torch.topk"]),
                "control": ratio(times["row by row, again"], times["row by row"]),
                "control of torch.topk": ratio(times["torch.topk, again"], times["torch.topk"]),
            }
    return found


def generation(device: str, batches: Sequence[int], rounds: int) -> dict[str, Any]:
    """Measure prefill, a step and the whole for each batch and variant, and their costs beside n = 0."""
    tokenizer, loaded = trained_tokenizer(), made_model(WIDTH, is_smoke=False)
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
        clock = time.process_time if device == "cpu" else time.perf_counter
        times = take_turns({name: partial(timed, write, prompts, clock) for name, write in writers.items()}, rounds)
        found[str(size)] = {name: summary(times[name], times["n = 0"]) for name in writers}
    return found


def timed(write: Any, prompts: list[list[int]], clock: Callable[[], float]) -> tuple[float, float]:
    """Measure the seconds until every prompt has its first token, and those of all further steps."""
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
    """Compute milliseconds, and ratios to n = 0, less one."""
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


def show(found: dict[str, Any]) -> str:
    """Write a line for each figure."""
    lines = [
        f"64 rows, {name}: {one['at once']:.2f} ms; "
        f"of row by row {one['ratio']:.2f} (control {one['control']:.2f}); "
        f"of torch.topk {one['ratio to torch.topk']:.2f} (control {one['control of torch.topk']:.2f})"
        for name, one in found["batch"].items()
    ]
    for device, batches in found["generation"].items():
        if isinstance(batches, str):
            lines.append(f"generation on {device}: {batches}")
            continue
        for size, variants in batches.items():
            lines.append(f"generation on {device}, batch {size}: ms of prefill, a token, all; cost of a token, of all")
            for name, one in variants.items():
                times = f"{one['prefill']:9.2f} {one['a token']:8.2f} {one['total']:9.1f}"
                lines.append(f"  {name:15} {times}   {one['cost of a token']:+7.1%} {one['cost of the whole']:+7.1%}")
    published = ", ".join(f"{name} {value:+.0%}" for name, value in found["published"]["cost"].items())
    return "\n".join([*lines, f"published, cost of a token: {published}"])


TITLE = "What a list of the best tokens costs in a built-in loop of formatter-core"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw what lists cost a token by their length, beside the published figures."""
    figure, axis = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    costs_of = {f"batch {size}": {n: one[f"n = {n}"]["cost of a token"] for n in COUNTS[1:]}
                for size, one in found["generation"]["cpu"].items()}  # fmt: skip
    costs_of["published"] = {n: found["published"]["cost"][f"n = {n}"] for n in COUNTS[1:]}
    for name, by_length in costs_of.items():
        of_others = name == "published"
        color, label = ("grey", "another library, as published") if of_others else (None, f"formatter-core, {name}")
        axis.plot(list(by_length), [100 * cost for cost in by_length.values()], "o-", color=color, label=label)
    axis.set(xlabel="best tokens in a list", ylabel="% more CPU time for a token", xticks=COUNTS[1:])
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
    axis.grid(visible=True, axis="y", alpha=0.3)
    axis.legend(ncols=2)
    return figure
