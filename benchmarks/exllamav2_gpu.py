"""Measure what a filter costs ExLlamaV2 on a real GPU, with random weights in the shape of Llama 3.2 1B.

    python -m benchmarks exllamav2_gpu        # in an environment with exllamav2, torch for CUDA, transformers, tiktoken

One sequence at a time, by the dynamic generator without paged attention, which needs no flash-attn. Modes take turns:
without a filter (twice, as a control) and with each format of `benchmarks/gpu.py`. The figure is the time of a mode
over that of the free run of the same round.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.data import llama3_transformers
from benchmarks.gpu import FORMATS, PROMPT, llama_config
from benchmarks.harness import medians, ratio, take_turns
from formatter_core import Compiler

OPTIONS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "default": 8},
    "--tokens": {"type": int, "default": 64},
}
SMOKE = {"rounds": 1, "tokens": 8}


def write_model(folder: Path) -> None:
    """Save a model of random weights as transformers does."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        network = transformers.LlamaForCausalLM(llama_config()).half()
    network.save_pretrained(folder, max_shard_size="10GB")
    llama3_transformers().save_pretrained(folder)
    written = folder / "config.json"
    config = json.loads(written.read_text(encoding="utf-8"))
    # Names of newer releases of transformers that exllamav2 does not know.
    written.write_text(json.dumps({"rope_theta": 10000.0, **config, "rope_scaling": None, "torch_dtype": "float16"}))


def generators(folder: Path, tokens: int) -> dict[str, Callable[[], float]]:
    """Make for each mode a task that returns the seconds of one output."""
    import exllamav2
    from exllamav2.generator import ExLlamaV2DynamicGenerator, ExLlamaV2DynamicJob, ExLlamaV2Sampler

    from formatter_exllamav2 import create_filter, create_vocabulary

    config = exllamav2.ExLlamaV2Config(str(folder))
    config.no_flash_attn = True
    model = exllamav2.ExLlamaV2(config)
    cache = exllamav2.ExLlamaV2Cache(model, max_seq_len=2048, lazy=True)
    model.load_autosplit(cache)
    tokenizer = exllamav2.ExLlamaV2Tokenizer(config)
    generator = ExLlamaV2DynamicGenerator(model=model, cache=cache, tokenizer=tokenizer, max_batch_size=1, paged=False)
    compiler = Compiler(create_vocabulary(tokenizer, model=model))
    compiled = {name: compiler.compile(format) for name, format in FORMATS.items()}

    def seconds(name: str) -> float:
        hook = create_filter(tokenizer, compiled[name], model=model) if name in compiled else None
        job = ExLlamaV2DynamicJob(
            input_ids=tokenizer.encode(PROMPT),
            max_new_tokens=tokens,
            gen_settings=ExLlamaV2Sampler.Settings.greedy(),
            stop_conditions=[] if hook is None else hook.end_ids,
            filters=[] if hook is None else [hook],
        )
        torch.cuda.synchronize()
        begun = time.perf_counter()
        generator.enqueue(job)
        while generator.num_remaining_jobs():
            generator.iterate()
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    return {name: lambda name=name: seconds(name) for name in ("free", "control", *compiled)}  # type: ignore[misc]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name))
        found = take_turns(generators(Path(name), options.tokens), options.rounds)
    return {
        "gpu": torch.cuda.get_device_name(),
        "tokens_per_second": {mode: options.tokens / seconds for mode, seconds in medians(found).items()},
        "ratio": {mode: ratio(seconds, found["free"]) for mode, seconds in found.items() if mode != "free"},
        "rounds": options.rounds,
    }


def show(found: dict[str, Any]) -> str:
    lines = [f"{found['gpu']}, {found['tokens_per_second']['free']:.0f} tokens/s without a filter"]
    return "\n".join([*lines, *(f"{mode}: {value:.3f} of its time" for mode, value in found["ratio"].items())])
