"""Measure the cost of masks on a GPU.

    python3.11 dev.py gpu                          # this, and generation and lists of best tokens on the GPU
    python3.11 dev.py bench gpu --device cpu       # the same code without a GPU; the page then says "not run"

- *masks*: bitmasks of 128,256 ids go to the device, from pinned memory without waiting and from ordinary memory, and
  are applied to logits that are there; microseconds, medians.
- *synchronisations*: how often a step of the loop makes the host wait for the device, with and without a format, as
  `torch.cuda.set_sync_debug_mode` tells.
- *completion*: milliseconds of a step of `completion` with a format, and of `continuation` without one, in turns.
- *generate*: the same of transformers' own `generate`, with our logits processor and without.

The model has random weights: a GPT-2 (12 layers of 768), or with `--model llama` the shape of Llama 3.2 1B in bfloat16
with the 128,256 ids of Llama 3, which needs the shared data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers

from benchmarks.data import llama3_transformers
from benchmarks.harness import markdown, medians, ratio, take_turns
from formatter_core import formats
from formatter_core.generation import completion, continuation
from formatter_core.runtime import torch_bitmask
from formatter_transformers import TransformersModel, create_logits_processor, transformers_model
from tests.engines_real.transformers_models import trained_tokenizer

OPTIONS: dict[str, dict[str, Any]] = {
    "--device": {"default": "cuda" if torch.cuda.is_available() else "cpu"},
    "--rounds": {"type": int, "default": 20},
    "--ids": {"type": int, "default": 128_256},
    "--batches": {"type": int, "nargs": "+", "default": [1, 8, 32, 64]},
    "--tokens": {"type": int, "default": 64},
    "--model": {"choices": ("gpt2", "llama"), "default": "gpt2"},
    "--layers": {"type": int, "help": "by default 12 of GPT-2, 16 of Llama"},
}
SMOKE = {"rounds": 2, "ids": 1000, "batches": [1, 2], "tokens": 4, "layers": 1}
PROMPT = "One two three"
#: Formats so long that no output of the benchmark completes them: letters, and an array of objects.
FORMATS: dict[str, Any] = {
    "letters": formats.regex("[a-z ]{2000}"),
    "objects": {
        "type": "array",
        "minItems": 1000,
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
            },
            "required": ["name", "age", "tags"],
            "additionalProperties": False,
        },
    },
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(options.device)
    is_gpu = device.type == "cuda"
    model = made_model(device, options.model, options.layers)
    return {
        "model": options.model,
        "gpu": torch.cuda.get_device_name(device) if is_gpu else None,
        "torch": torch.__version__,
        "ids": options.ids,
        "masks": {str(batch): masks(device, batch, options) for batch in options.batches},
        "synchronisations": synchronisations(model, options.tokens) if is_gpu else None,
        "completion": {
            str(batch): steps(writers(model, options.tokens), model, batch, options) for batch in options.batches
        },
        "generate": {
            str(batch): steps(generators(model, options.tokens), model, batch, options) for batch in options.batches
        },
    }


def made_model(device: torch.device, name: str, layers: int | None) -> TransformersModel:
    torch.manual_seed(0)
    if name == "llama":
        tokenizer: Any = llama3_transformers()
        config: Any = llama_config(layers or 16)
        with torch.device(device):
            network: Any = transformers.LlamaForCausalLM(config).bfloat16()
    else:
        tokenizer = trained_tokenizer()
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer), n_layer=layers or 12, bos_token_id=0, eos_token_id=0
        )
        network = transformers.GPT2LMHeadModel(config)
    return transformers_model(network, device, tokenizer=tokenizer)


def llama_config(layers: int = 16) -> transformers.LlamaConfig:
    """Return the shape of Llama 3.2 1B."""
    return transformers.LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        bos_token_id=128_000,
        eos_token_id=128_001,
    )


def waited(task: Callable[[], Any], device: torch.device) -> Callable[[], float]:
    """Make a function that returns the seconds of a task, until the device is done with it."""

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
    """Measure microseconds of getting masks to the device and into logits."""
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
    """Make tasks that write this many tokens by our own loop, with and without a format."""
    free = continuation(model, max_tokens=tokens, ignore_eos=True)
    tasks: dict[str, Callable[[int], Any]] = {"free": lambda batch: free([PROMPT] * batch, seed=1)}
    for name, format in FORMATS.items():
        bound = completion(model, format, max_tokens=tokens, forced_text="off", fit=False)
        tasks[name] = lambda batch, bound=bound: bound([PROMPT] * batch, seed=1)  # type: ignore[misc]
    return tasks


def generators(model: TransformersModel, tokens: int) -> dict[str, Callable[[int], Any]]:
    """Make tasks that write this many tokens by transformers' own loop, with and without our logits processor."""

    def generate(batch: int, format: Any = None) -> None:
        given = model.tokenizer([PROMPT] * batch, return_tensors="pt").to(model.device)
        hooks = [] if format is None else [create_logits_processor(model.tokenizer, format, model=model.model)]
        model.model.generate(
            **given, logits_processor=hooks, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens
        )

    compiled = {name: model.compiler.compile(format) for name, format in FORMATS.items()}
    return {"free": generate, **{name: partial(generate, format=format) for name, format in compiled.items()}}


def synchronisations(model: TransformersModel, tokens: int) -> dict[str, float]:
    """Count how often each step waits for the device."""
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


def steps(
    tasks: dict[str, Callable[[int], Any]], model: TransformersModel, batch: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure milliseconds a step, and the ratio to a step without a format in the same round."""
    timed = {name: waited(partial(task, batch), model.device) for name, task in tasks.items()}
    timed["control"] = timed["free"]
    found = take_turns(timed, max(1, options.rounds // 4))
    return {
        "ms": medians(found, 1000 / options.tokens),
        "ratio": {name: ratio(seconds, found["free"]) for name, seconds in found.items() if name != "free"},
        "rounds": len(found["free"]),
    }


def show(found: dict[str, Any]) -> str:
    where = f"Run on {found['gpu']}." if found["gpu"] else "**Not run on a GPU**: these are times of a CPU."
    lines = ["# Masks on a GPU", "", f"{where} torch {found['torch']}, {found['machine']}.", ""]
    names = list(next(iter(found["masks"].values())))
    rows = [[batch, *(f"{row[name]:.1f}" for name in names)] for batch, row in found["masks"].items()]
    lines += [f"Masks of {found['ids']:,} ids, µs:", "", markdown(["batch", *names], rows)]
    for loop in ("completion", "generate"):
        names = list(next(iter(found[loop].values()))["ratio"])
        rows = [
            [batch, f"{row['ms']['free']:.2f}", *(f"{row['ratio'][name]:.3f}" for name in names)]
            for batch, row in found[loop].items()
        ]
        lines += ["", f"A step of `{loop}` without a format, ms, and the ratio to it:", ""]
        lines.append(markdown(["batch", "free", *names], rows))
    counts = found["synchronisations"]
    said = "not run" if counts is None else ", ".join(f"{name} {count:.2f}" for name, count in counts.items())
    return "\n".join([*lines, "", f"Times that a step waits for the device: {said}."])
