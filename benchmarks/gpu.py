"""What masks cost on a GPU, in one command, for whoever has one; prints a page in Markdown.

    python3.11 dev.py gpu                          # this, and generation and lists of best tokens on the GPU
    python3.11 dev.py bench gpu --device cpu       # the same code without a GPU; the page then says "not run"

- *masks*: bitmasks of 128,256 ids go to the device, from pinned memory without waiting and from ordinary memory, and
  are applied to logits that are there; microseconds, medians.
- *synchronisations*: how often a step of the loop makes the host wait for the device, with and without a format, as
  `torch.cuda.set_sync_debug_mode` tells.
- *format*: milliseconds of a step of `completion` with a format, and of `continuation` without one, in turns, on a
  GPT-2 of random weights (12 layers of 768).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks.harness import medians, ratio, take_turns
from formatter_core import formats
from formatter_core.generation import completion, continuation
from formatter_core.runtime import torch_bitmask
from formatter_transformers import TransformersModel, transformers_model
from tests.engines_real.transformers_models import trained_tokenizer

OPTIONS: dict[str, dict[str, Any]] = {
    "--device": {"default": "cuda" if torch.cuda.is_available() else "cpu"},
    "--rounds": {"type": int, "default": 20},
    "--ids": {"type": int, "default": 128_256},
    "--batches": {"type": int, "nargs": "+", "default": [1, 8, 32, 64]},
    "--tokens": {"type": int, "default": 64},
    "--layers": {"type": int, "default": 12},
}
SMOKE = {"rounds": 2, "ids": 1000, "batches": [1, 2], "tokens": 4, "layers": 1}
PROMPT = "One two three"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(options.device)
    is_gpu = device.type == "cuda"
    model = made_model(device, options.layers)
    return {
        "gpu": torch.cuda.get_device_name(device) if is_gpu else None,
        "torch": torch.__version__,
        "ids": options.ids,
        "masks": {str(batch): masks(device, batch, options) for batch in options.batches},
        "synchronisations": synchronisations(model, options.tokens) if is_gpu else None,
        "steps": {str(batch): steps(model, batch, options) for batch in options.batches},
    }


def made_model(device: torch.device, layers: int) -> TransformersModel:
    tokenizer = trained_tokenizer()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(tokenizer), n_layer=layers, bos_token_id=0, eos_token_id=0)
    network = transformers.GPT2LMHeadModel(config).eval().to(device)
    return transformers_model(network, tokenizer=tokenizer)


def waited(task: Callable[[], Any], device: torch.device) -> Callable[[], float]:
    """Seconds of a task, until the device is done with it."""

    def timed() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begun = time.perf_counter()
        task()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - begun

    return timed


def masks(device: torch.device, batch: int, options: argparse.Namespace) -> dict[str, float]:
    """Microseconds of getting masks to the device and into logits."""
    logits = torch.randn(batch, options.ids, device=device)
    ordinary = torch_bitmask.allocate(batch, options.ids, "all")
    pinned = torch_bitmask.allocate(batch, options.ids, "all", pinned=device.type == "cuda")
    there = ordinary.to(device)
    tasks: dict[str, Callable[[], Any]] = {
        "upload, pinned": lambda: pinned.to(device, non_blocking=True),
        "upload, ordinary": lambda: ordinary.to(device),
        "apply": lambda: torch_bitmask.apply_inplace(logits, there),
        "upload and apply": lambda: torch_bitmask.apply_inplace(logits, pinned),
    }
    found = take_turns({name: waited(task, device) for name, task in tasks.items()}, options.rounds)
    return medians(found, 1e6)


def writers(model: TransformersModel, tokens: int) -> dict[str, Callable[[int], Any]]:
    """Outputs of so many tokens with and without a format."""
    free = continuation(model, max_tokens=tokens, ignore_eos=True)
    bound = completion(model, formats.regex("[a-z ]{2000}"), max_tokens=tokens, forced_text="off")
    return {
        "free": lambda batch: free([PROMPT] * batch, seed=1),
        "format": lambda batch: bound([PROMPT] * batch, seed=1),
    }


def synchronisations(model: TransformersModel, tokens: int) -> dict[str, float]:
    """How often each step waits for the device."""
    found = {}
    for name, write in writers(model, tokens).items():
        write(1)
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                write(1)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        found[name] = sum("synchroniz" in str(warning.message) for warning in seen) / tokens
    return found


def steps(model: TransformersModel, batch: int, options: argparse.Namespace) -> dict[str, float]:
    """Milliseconds a step, and what the format adds to it, in the same round."""
    tasks = {
        name: waited(lambda write=write: write(batch), model.device)  # type: ignore[misc]
        for name, write in writers(model, options.tokens).items()
    }
    found = take_turns(tasks, max(1, options.rounds // 4))
    shown = medians(found, 1000 / options.tokens)
    return {**shown, "ratio": ratio(found["format"], found["free"]), "rounds": len(found["free"])}


def show(found: dict[str, Any]) -> str:
    """The page."""
    where = f"Run on {found['gpu']}." if found["gpu"] else "**Not run on a GPU**: these are times of a CPU."
    lines = ["# Masks on a GPU", "", f"{where} torch {found['torch']}, {found['machine']}.", ""]
    names = list(next(iter(found["masks"].values())))
    lines += [
        f"Masks of {found['ids']:,} ids, µs:",
        "",
        f"| batch | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    lines += [
        f"| {batch} | {' | '.join(f'{row[name]:.1f}' for name in names)} |" for batch, row in found["masks"].items()
    ]
    lines += ["", "A step of the loop, ms:", "", "| batch | free | format | ratio |", "|---|---|---|---|"]
    lines += [
        f"| {batch} | {row['free']:.2f} | {row['format']:.2f} | {row['ratio']:.3f} |"
        for batch, row in found["steps"].items()
    ]
    counts = found["synchronisations"]
    told = "not run" if counts is None else ", ".join(f"{name} {count:.2f}" for name, count in counts.items())
    return "\n".join([*lines, "", f"Times that a step waits for the device: {told}."])
