"""Measure the CPU time that constrained decoding adds to a step of vLLM, by every way of doing it, in one engine.

    python3.11 dev.py bench vllm_overhead
    python3.11 dev.py run dev -m benchmarks vllm_overhead --read vllm_overhead.json --plot docs/images/vllm_overhead.png

Every mode writes the same tokens: a script pushes the next token of one JSON text to the top, after all masks. `none`
has no mask; `control` applies masks that were recorded before, by the same function as `ours`, so that the difference
of those two is what the grammar and its bookkeeping cost; the others are backends of vLLM's structured outputs with the
same schema: `ours as backend` (all masks in one call), `xgrammar` and `guidance`, and one that returns recorded masks
row by row, `recorded rows`. An
engine of vLLM has one such backend, so it is exchanged between two runs. The modes take turns in an order that is
shuffled each time. Times are CPU time of the process, on one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import markdown, ratio, take_turns

MODES = ("none", "control", "ours", "recorded rows", "ours as backend", "xgrammar", "guidance")
CONTROLS = ("control", "recorded rows")
SCHEMA: dict[str, Any] = {
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
#: Different texts that a batch writes; further requests write the same ones again.
SCRIPTS = 8
OPTIONS: dict[str, dict[str, Any]] = {
    "--model": {"help": "a model folder; by default a small one is made, with 32,000 tokens"},
    "--batches": {"type": int, "nargs": "+", "default": [1, 4, 16, 32]},
    "--modes": {"nargs": "+", "choices": MODES, "default": list(MODES)},
    "--tokens": {"type": int, "default": 64},
    "--repetitions": {"type": int, "default": 15},
    "--here": {"action": "store_true", "help": argparse.SUPPRESS},  # set in the process that measures
}
SMOKE = {"batches": [2], "tokens": 8, "repetitions": 1}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own, because vLLM reads its settings when it is imported."""
    if options.here:
        return measure_here(options)
    from tests.engines_real.vllm_processes import environment

    model = options.model or made_model(options.output.absolute().parent / "vllm_overhead_model")
    words = [sys.executable, "-m", "benchmarks", "vllm_overhead", *sys.argv[2:], "--here", "--model", str(model)]
    settings = {"VLLM_LOGGING_LEVEL": "ERROR", "FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1"}
    subprocess.run(words, env={**environment(), **settings}, stdout=subprocess.DEVNULL, check=True)
    found: dict[str, Any] = json.loads(options.output.with_suffix(".json").read_text(encoding="utf-8"))
    return found


def made_model(folder: Path) -> Path:
    from tests.engines_real.vllm_models import make_model

    return folder if (folder / "model.safetensors").exists() else make_model(folder, size=32_000)


def text() -> str:
    rng = random.Random(0)
    entries = [
        {
            "id": rng.randrange(10_000),
            "name": "".join(rng.choices("abcdefghij ", k=rng.randint(4, 20))),
            "kind": rng.choice(SCHEMA["items"]["properties"]["kind"]["enum"]),
            "tags": ["".join(rng.choices("abcdefghij", k=4)) for _ in range(rng.randint(0, 4))],
        }
        for _ in range(400)
    ]
    return json.dumps(entries)


def measure_here(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each batch and mode: CPU and wall milliseconds a step, and for ours also those inside it."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    from formatter_vllm import create_extra_args
    from tests.engines_real.vllm_processes import DTYPE

    processor = scripted_processor()
    llm = LLM(
        options.model,
        dtype=DTYPE,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=max(options.batches),
        logits_processors=[processor],
    )
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode(text(), add_special_tokens=False)
    # Each request of a batch writes another part of the text, from one of its objects on.
    processor.record(llm, [[ids[0], *ids[start : start + options.tokens - 1]] for start in starts(tokenizer, ids)])

    backends = Backends(llm, [processor.recorded[tuple(script)] for script in processor.scripts])

    def parameters(mode: str, row: int) -> Any:
        script = processor.scripts[row % len(processor.scripts)]
        extra: dict[str, Any] = {"script": script, "mode": mode}
        own: dict[str, Any] = {}
        if mode == "ours":
            extra.update(create_extra_args(SCHEMA))
        elif mode in backends.modes:
            comment = str(row % len(processor.scripts))
            own["structured_outputs"] = StructuredOutputsParams(json={**SCHEMA, "$comment": comment})
        return SamplingParams(temperature=0, max_tokens=len(script), ignore_eos=True, extra_args=extra, **own)

    def run(mode: str, batch: int) -> dict[str, float]:
        """Run one batch from its beginning to its end."""
        backends.choose(mode)
        wanted = [parameters(mode, row) for row in range(batch)]
        prompts = [{"prompt_token_ids": [5, 6, 7, 8]}] * batch
        processor.seconds.clear()
        clock, begun = time.perf_counter(), time.process_time()
        outputs = llm.generate(prompts, wanted, use_tqdm=False)
        spent = {"cpu": time.process_time() - begun, "wall": time.perf_counter() - clock, **processor.seconds}
        for one, output in zip(wanted, outputs, strict=True):
            if list(output.outputs[0].token_ids) != one.extra_args["script"]:
                raise SystemExit(f"{mode} does not allow the script: {output.outputs[0].text!r}")
        return {name: 1000 * seconds / options.tokens for name, seconds in spent.items()}

    found: dict[str, Any] = {"tokens": options.tokens, "batches": {}}
    for batch in options.batches:
        samples = take_turns({mode: partial(run, mode, batch) for mode in options.modes}, options.repetitions)
        processor.is_counting = True
        samples["inside ours"] = [run("ours", batch) for _ in range(options.repetitions)]
        processor.is_counting = False
        found["batches"][str(batch)] = summary(samples)
    return found


class Backends:
    """Exchange the backends of structured outputs of one engine in this process between runs."""

    def __init__(self, llm: Any, recorded: Sequence[Any]) -> None:
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend
        from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

        from formatter_vllm import backend, structured_outputs

        structured_outputs.register()
        self._config = llm.llm_engine.vllm_config
        self._manager = llm.llm_engine.engine_core.engine_core.structured_output_manager
        ours = backend.create_backend_class(StructuredOutputBackend, StructuredOutputGrammar)
        #: The name in the configuration and the backend of each mode.
        self.modes = {
            "ours as backend": ("auto", self._make(ours)),
            "recorded rows": ("auto", self._make(recorded_backend(ours, recorded))),
            "guidance": ("guidance", self._make(GuidanceBackend)),
            "xgrammar": ("xgrammar", self._make(XgrammarBackend)),
        }

    def _make(self, backend: Any) -> Any:
        width = self._config.model_config.get_vocab_size()
        return backend(self._config, tokenizer=self._manager.tokenizer, vocab_size=width)

    def choose(self, mode: str) -> None:
        if mode in self.modes:
            self._config.structured_outputs_config.backend, self._manager.backend = self.modes[mode]
            self._manager._grammar_bitmask = None


def recorded_backend(ours: type, recorded: Sequence[Any]) -> type:
    """Make our backend with masks that were recorded for the script whose number the schema has as a comment."""

    class RecordedGrammar(ours.GRAMMAR):  # type: ignore[misc, name-defined]
        def __init__(self, rows: Any) -> None:
            self.rows, self.length = rows, 0

        def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
            self.length += len(tokens)
            return True

        def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
            bitmask[batch_index].numpy()[:] = self.rows[min(self.length, len(self.rows) - 1)]

    class RecordedBackend(ours):  # type: ignore[misc]
        fill_bitmasks = None  # row by row, as vLLM asks any backend

        def compile_grammar(self, request_type: Any, grammar_spec: str, stop_token_ids: Any = None) -> Any:
            return RecordedGrammar(recorded[int(json.loads(grammar_spec)["$comment"])])

    return RecordedBackend


def starts(tokenizer: Any, ids: list[int]) -> list[int]:
    """Find the token positions where objects of the array begin: a script is `[` and the tokens from there."""
    found = [index for index, token in enumerate(ids) if index and tokenizer.decode([token]).lstrip().startswith("{")]
    return found[:SCRIPTS]


class Following:
    """Give the next token of each row's script the highest logit, before a logits processor in its subclass.

    Attributes:
        outputs: of each row the `extra_args` of its request, whose `script` it follows, and its output so far.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.outputs: dict[int, tuple[dict[str, Any], list[int]]] = {}

    def update_state(self, batch_update: Any) -> None:
        super().update_state(batch_update)  # type: ignore[misc]
        for row in batch_update.removed if batch_update else ():
            self.outputs.pop(row, None)
        for row, parameters, _, output in batch_update.added if batch_update else ():
            self.outputs[row] = parameters.extra_args, output
        for first, second, direction in batch_update.moved if batch_update else ():
            self.outputs[second], other = self.outputs.pop(first), self.outputs.pop(second, None)
            if other is not None and direction.name == "SWAP":
                self.outputs[first] = other

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        logits = super().apply(logits, ctx)  # type: ignore[misc]
        rows = [self.outputs[row] for row in range(len(logits))]
        logits[range(len(rows)), [extra["script"][len(output)] for extra, output in rows]] += 1e6
        return logits


def scripted_processor() -> Any:
    import numpy as np
    import torch

    from formatter_core import bitmask
    from formatter_core.runtime import torch_bitmask
    from formatter_vllm import FormatterLogitsProcessor, create_extra_args, masks

    class CountedProcessor(FormatterLogitsProcessor):
        """Apply our masks, then the recorded ones of control rows; on request count the time inside."""

        scripts: list[list[int]] = []  # noqa: RUF012 - one engine a process
        recorded: dict[tuple[int, ...], Any] = {}  # noqa: RUF012
        is_counting = False  # a look at the clock takes microseconds
        seconds: dict[str, float] = defaultdict(float)  # noqa: RUF012 - of CPU time; counted from inside

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            type(self).compiler = self._compiler

        @classmethod
        def record(cls, llm: Any, scripts: list[list[int]]) -> None:
            width = llm.llm_engine.vllm_config.model_config.get_vocab_size()
            compiled = cls.compiler.compile(create_extra_args(SCHEMA)["formatter"])
            for script in scripts:
                formatter = compiled.formatter()
                rows = bitmask.allocate(len(script), width)
                for row, token in zip(rows, script, strict=True):
                    formatter.fill_bitmask(row)
                    formatter.accept_token(token)
                cls.recorded[tuple(script)] = rows
                cls.scripts.append(script)
            cls.bits = bitmask.allocate(llm.llm_engine.vllm_config.scheduler_config.max_num_seqs, width)

        @classmethod
        def counted(cls, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
            if not cls.is_counting:
                return function(*arguments)
            begun = time.process_time()
            answer = function(*arguments)
            cls.seconds[name] += time.process_time() - begun
            return answer

        def update_state(self, batch_update: Any) -> None:
            self.counted("processor", super().update_state, batch_update)

        def apply(self, logits: torch.Tensor, ctx: Any = None) -> Any:
            logits = self.counted("processor", super().apply, logits, ctx)
            rows = [self.outputs[row] for row in range(len(logits))]
            bits = [
                self.recorded[tuple(extra["script"])][len(output)]
                for extra, output in rows
                if extra["mode"] == "control"
            ]
            if bits:
                torch_bitmask.apply_inplace(logits, np.stack(bits, out=self.bits[: len(bits)]))
            return logits

    class ScriptedProcessor(Following, CountedProcessor):
        """Push towards the next token of the script as well."""

    masks.step = partial(ScriptedProcessor.counted, "masks", masks.step)
    return ScriptedProcessor


def summary(samples: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Summarise each mode: medians, and its CPU time over that of each control in the same repetition."""
    found = {
        mode: {name: statistics.median(sample.get(name, 0.0) for sample in taken) for name in taken[0]}
        for mode, taken in samples.items()
    }
    for control in CONTROLS:
        for mode in samples if control in samples else ():
            if mode in MODES:
                found[mode][f"of {control}"] = ratio(
                    *([one["cpu"] for one in samples[each]] for each in (mode, control))
                )
    return found


def show(found: dict[str, Any]) -> str:
    head = (
        "batch",
        "mode",
        "CPU ms a step",
        "of control",
        "of recorded rows",
        "tokens a second",
        "in the processor",
        "masks",
    )
    rows = []
    for batch, samples in found["batches"].items():
        for mode in (mode for mode in MODES if mode in samples):
            spent = samples[mode]
            controls = CONTROLS if MODES.index(mode) >= MODES.index("recorded rows") else CONTROLS[:1]
            shares = [
                f"{spent[of]:.3f}" if (of := f"of {each}") in spent and each in controls else "" for each in CONTROLS
            ]
            row = [batch, mode, f"{spent['cpu']:.2f}", *shares, f"{1000 * int(batch) / spent['wall']:.0f}"]
            row += [f"{samples['inside ours'][name]:.3f}" for name in ("processor", "masks") if mode == "ours"]
            rows.append(row + [""] * (len(head) - len(row)))
    return markdown(head, rows)


#: Names the modes in the picture.
LABELS = {
    "none": "no format",
    "control": "masks recorded before",
    "ours": "formatter-core",
    "recorded rows": "a backend with masks recorded before",
    "ours as backend": "formatter-core as vLLM's backend",
    "xgrammar": "XGrammar, a backend of vLLM",
    "guidance": "llguidance, a backend of vLLM",
}
TITLE = "CPU time of a step of vLLM, by what constrains it"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the time of a step with each mode, by batch, compared with the control's."""
    figure, axis = pyplot.subplots(figsize=(7.5, 3.8), layout="constrained")
    batches = found["batches"]
    lines: dict[Any, float] = {}
    for mode in (mode for mode in MODES if mode in next(iter(batches.values()))):
        style = {"linestyle": "--", "color": "grey" if mode == "none" else "black"} if mode in MODES[:2] else {}
        shown = [samples[mode].get("of control") for samples in batches.values()]
        (line,) = axis.plot(list(map(str, batches)), shown, marker="o", **style)
        lines[line] = shown[-1] or 0.0
        line.set_label(LABELS[mode])
    axis.set(xlabel="requests in a batch", ylabel="CPU time of a step; recorded masks = 1")
    # In the order in which the lines end, for names beside lines that end together would overlap.
    axis.legend(handles=sorted(lines, key=lines.__getitem__, reverse=True), loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
