"""Measure whole outputs of `completion` and `continuation` beside `generate`, and what the format itself costs.

    python3.11 dev.py bench generation --plot docs/images/generation.png
    python3.11 dev.py bench generation --read generation.json

A GPT-2 of random weights, 6 layers of 256, 50,257 tokens. What is compared takes turns, in an order that is shuffled
each time; the figures are medians of wall-clock and of CPU time, on one thread. Ratios are medians over pairs of
runs of the same turn, in CPU time; the reference beside its own next turn says how far to trust them.

- *fan-out*: samples of a prompt of 512 tokens; `generate` computes the prompt once for each of them, `generate, shared
  prefill` once, by a forward pass whose keys and values are repeated for the samples and given to it.
- *short prompt*: "This is a prompt", 100 tokens with end tokens suppressed, 1 and 10 samples, the prefix cache on and
  off.
- *format*: the same tokens written in each mode, for a script chooses them: `free` has no mask; `control` applies masks
  that were recorded before, so that the difference to `format` is what the grammar and its bookkeeping cost.

`forced_passes` measures what forced text saves.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness import bars, difference, ratio, spread, take_turns
from formatter_core import bitmask
from formatter_core.generation import NO_SCORES, SamplingRows, completion, continuation, multinomial
from formatter_transformers import TransformersModel, transformers_model

WARM = multinomial(temperature=1.0)
#: Samples and steps of a fan-out, and the share of `generate`'s time that we aim at.
FANS = {(8, 32): 0.6, (32, 16): 0.35}
SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "identifier": {"type": "integer", "minimum": 0, "maximum": 9999},
            "display_name": {"type": "string", "maxLength": 20},
            "classification": {"enum": ["small", "large", "unknown"]},
        },
        "required": ["identifier", "display_name", "classification"],
        "additionalProperties": False,
    },
}

OPTIONS: dict[str, dict[str, Any]] = {
    "--repetitions": {"type": int, "default": 9},
    "--devices": {"nargs": "+", "default": ["cpu", "cuda"], "help": "one that is not there is not run"},
}
SMOKE = {"repetitions": 1}

Task = Callable[[], Any]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    devices: dict[str, Any] = {}
    for device in options.devices:
        is_there = device == "cpu" or torch.cuda.is_available()
        devices[device] = Measurements(device, options.repetitions, options.smoke).run() if is_there else None
    return {"repetitions": options.repetitions, "devices": devices}


class Measurements:
    """Make all comparisons on one device."""

    def __init__(self, device: str, repetitions: int, is_smoke: bool) -> None:
        tokenizer = made_tokenizer(2000 if is_smoke else 50_257)
        self.device = device
        self.repetitions = repetitions
        self.is_smoke = is_smoke
        self.torch_model = made_model(len(tokenizer), is_smoke).to(device)
        self.model = transformers_model(self.torch_model, tokenizer=tokenizer, cache_bytes=0)
        self.cached = transformers_model(self.torch_model, tokenizer=tokenizer)

    def run(self) -> dict[str, Any]:
        return {
            "fan-out": {f"{n} x {steps}": self.fan_out(n, steps) for n, steps in FANS},
            "short prompt": {str(n): self.short_prompt(n) for n in (1, 10)},
            "format": {str(n): self.format(n) for n in (1, 4, 16)},
        }

    def fan_out(self, samples: int, steps: int) -> dict[str, Any]:
        ids = np.random.default_rng(0).integers(300, len(self.model.vocabulary), 512).tolist()
        if self.is_smoke:
            ids, samples, steps = ids[:16], 2, 3
        write = continuation(self.model, max_tokens=steps, ignore_eos=True, sampling=WARM, scores=NO_SCORES)
        return self._turns(
            {
                "generate": lambda: self._generate(ids, samples, steps),
                "generate, shared prefill": lambda: self._generate_shared(ids, samples, steps),
                "ours": lambda: write(ids, samples=samples, seed=1),
            }
        )

    def short_prompt(self, samples: int) -> dict[str, Any]:
        ids, steps = self.model.encode("This is a prompt"), 3 if self.is_smoke else 100
        options: dict[str, Any] = {"max_tokens": steps, "ignore_eos": True, "sampling": WARM, "scores": NO_SCORES}
        without, with_cache = continuation(self.model, **options), continuation(self.cached, **options)
        return self._turns(
            {
                "generate": lambda: self._generate(ids, samples, steps),
                "ours, cache off": lambda: without(ids, samples=samples, seed=1),
                "ours, cache on": lambda: with_cache(ids, samples=samples, seed=1),
            }
        )

    def format(self, batch: int) -> dict[str, Any]:
        """Measure milliseconds a step; every mode writes the same tokens."""
        compiled = self.model.compiler.compile(SCHEMA)
        scripts = [self._script(row, 6 if self.is_smoke else 64) for row in range(batch)]
        masks = []
        for script in scripts:
            formatter = compiled.formatter()
            rows = bitmask.allocate(len(script), len(self.model.vocabulary))
            for row, token in zip(rows, script, strict=True):
                formatter.fill_bitmask(row)
                formatter.accept_token(token)
            masks.append(rows)
        recorded = np.stack(masks, axis=1)

        def scripted(logits: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
            place = len(rows.tokens[0])
            return torch.tensor([script[place] for script in scripts])

        def writer(format: Any) -> Any:
            return completion(
                self.model,
                format,
                max_tokens=len(scripts[0]),
                sampling=scripted,
                scores=NO_SCORES,
                forced_text="off",
                fit=False,  # the script is cut where it is
            )

        free, formatted = writer(None), writer(compiled)
        prompts = [self.model.encode("This is a prompt")] * batch

        def control() -> Any:
            with masked(self.model, recorded):
                return free(prompts)

        found = self._turns(
            {
                "free": lambda: free(prompts),
                "control": control,
                "format": lambda: formatted(prompts),
            },
            repetitions=1 if self.is_smoke else 2 * self.repetitions,
            steps=len(scripts[0]),
        )
        for output in formatted(prompts):
            if output.error is not None or list(output.tokens) not in scripts:
                raise SystemExit(f"the format does not allow the script: {output.text!r} {output.error}")
        return found

    def _turns(self, tasks: dict[str, Task], repetitions: int | None = None, steps: int = 1) -> dict[str, Any]:
        """Measure milliseconds a step of each task, see `summary`."""

        def clocks(task: Task) -> tuple[float, float]:
            wall, cpu = time.perf_counter(), time.process_time()
            task()
            if self.device != "cpu":
                torch.cuda.synchronize()
            return 1000 * (time.perf_counter() - wall) / steps, 1000 * (time.process_time() - cpu) / steps

        turns = take_turns(
            {name: partial(clocks, task) for name, task in tasks.items()}, repetitions or self.repetitions
        )
        wall, cpu = ({name: [one[place] for one in times] for name, times in turns.items()} for place in (0, 1))
        return summary(wall, cpu)

    def _generate_shared(self, ids: Sequence[int], samples: int, steps: int) -> Any:
        """Call `generate` with the prompt computed once."""
        given = torch.tensor([ids], device=self.device)
        with torch.inference_mode():
            past = self.torch_model.base_model(given[:, :-1], use_cache=True).past_key_values  # no logits
            if isinstance(past, tuple):  # keys and values of each layer, before transformers 5
                past = tuple(tuple(part.repeat_interleave(samples, 0) for part in layer) for layer in past)
            else:
                past.batch_repeat_interleave(samples)
        return self._generate(ids, 1, steps, given.expand(samples, -1), past_key_values=past)

    def _generate(
        self, ids: Sequence[int], samples: int, steps: int, given: torch.Tensor | None = None, **options: Any
    ) -> Any:
        if given is None:
            given = torch.tensor([ids], device=self.device)
        output = self.torch_model.generate(
            given,
            attention_mask=torch.ones_like(given),
            do_sample=True,
            top_k=0,
            num_return_sequences=samples,
            max_new_tokens=steps,
            min_new_tokens=steps,
            **options,
        )
        if output.shape != (samples * len(given), len(ids) + steps):
            raise SystemExit(f"generate gave {tuple(output.shape)}")
        return output

    def _script(self, row: int, length: int) -> list[int]:
        rng = random.Random(row)
        entries = [
            {
                "identifier": rng.randrange(10_000),
                "display_name": "".join(rng.choices("etaoinshrdlu ", k=rng.randint(4, 20))),
                "classification": rng.choice(SCHEMA["items"]["properties"]["classification"]["enum"]),
            }
            for _ in range(40)
        ]
        tokens = self.model.encode_continuation(json.dumps(entries).encode())
        if tokens is None:
            raise SystemExit("the tokenizer does not spell JSON")
        return tokens[:length]


@contextmanager
def masked(model: TransformersModel, recorded: np.ndarray) -> Iterator[None]:
    """Let a model apply recorded masks, int32 (steps, rows, words), to sequences without a format."""
    real = model.pick

    def pick(logits: Any, allowed: Any, sampler: Any, rows: SamplingRows, **options: Any) -> Any:
        return real(logits, recorded[len(rows.tokens[0])], sampler, rows, **options)

    model.pick = pick  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.pick


def made_tokenizer(size: int) -> Any:
    """Train a byte-level BPE on made-up words, as large as that of GPT-2."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 8))) for _ in range(size + 10_000)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((" ".join(words[start : start + 20]) for start in range(0, len(words), 20)), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


def made_model(width: int, is_smoke: bool) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    layers, size = (1, 32) if is_smoke else (6, 256)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=width, n_layer=layers, n_embd=size, n_head=8, bos_token_id=0, eos_token_id=0)
    )
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = 0
    return model.eval()


def summary(wall: dict[str, list[float]], cpu: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Summarise each task: medians of both clocks, how far turns are apart, and comparisons with each other task.

    Comparisons are medians over pairs of the same turn: the ratio of CPU times, and the differences of both clocks.
    """
    return {
        name: {
            "wall": statistics.median(wall[name]),
            "cpu": statistics.median(cpu[name]),
            "apart": spread(cpu[name]),
            "beside": {
                other: {
                    "ratio": ratio(cpu[name], cpu[other]),
                    "more": [difference(clock[name], clock[other]) for clock in (wall, cpu)],
                }
                for other in wall
                if other != name
            },
        }
        for name in wall
    }


def both(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the medians of wall-clock and of CPU time of each task."""
    return {name: (one["wall"], one["cpu"]) for name, one in found.items()}


def itself(found: dict[str, Any]) -> list[float]:
    """Return the time that the format adds to recorded masks, by both clocks."""
    added: list[float] = found["format"]["beside"]["control"]["more"]
    return added


def show(found: dict[str, Any]) -> str:
    lines = [f"medians of {found['repetitions']} runs, milliseconds: wall-clock (CPU)"]
    for device, measured in found["devices"].items():
        lines.append(f"\n{device}" + (": not run" if measured is None else ""))
        if measured is None:
            continue
        for (samples, steps), aim in FANS.items():
            runs = measured["fan-out"][f"{samples} x {steps}"]
            lines.append(f"  512 tokens, {samples} samples x {steps} steps, aim {aim}")
            lines += _beside(both(runs), "generate")
            for reference in ("generate", "generate, shared prefill"):
                share = f"{runs['ours']['beside'][reference]['ratio']:.2f}"
                apart = f"{runs[reference]['apart']:.0%} apart"
                lines.append(f"    ours beside {reference}: {share} (the reference beside itself: {apart})")
        for samples in (1, 10):
            lines.append(f'  "This is a prompt", 100 tokens, {samples} samples')
            lines += _beside(both(measured["short prompt"][str(samples)]), "generate")
        lines.append("  a step of a format (the same tokens in each mode)")
        for batch in (1, 4, 16):
            one = both(measured["format"][str(batch)])
            own = itself(measured["format"][str(batch)])
            lines.append(
                f"    batch {batch:3}: "
                + ", ".join(f"{mode} {wall:.2f} ({cpu:.2f})" for mode, (wall, cpu) in one.items())
                + f"; the format itself {own[0]:+.2f} ({own[1]:+.2f}) = {own[1] / one['free'][1]:+.1%} of a free step"
            )
    return "\n".join(lines)


def _beside(one: dict[str, tuple[float, float]], reference: str) -> list[str]:
    wall, cpu = one[reference]
    return [
        f"    {name:18} {own[0]:9.1f} ({own[1]:9.1f})   {own[0] / wall:6.2f} ({own[1] / cpu:.2f})"
        for name, own in one.items()
    ]


TITLE = "Whole outputs of formatter-core beside transformers' generate, and what a format adds to a step"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw shares of `generate`'s CPU time, and what a format adds to a step, on the first device that was run."""
    device, measured = next((name, one) for name, one in found["devices"].items() if one is not None)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3), width_ratios=(3, 2), layout="constrained")
    shares = {
        f"{title.format(name)}: {mode}".replace("ours", "formatter-core"): one[mode]["beside"]["generate"]["ratio"]
        for title, part in (("512 tokens, {}", "fan-out"), ("short prompt, × {}", "short prompt"))
        for name, one in measured[part].items()
        for mode in one
        if mode != "generate"
    }
    bars(left, {"": shares}, lying=True, labels=" %.2f")
    left.axvline(1, color="black", linewidth=0.8)
    left.set(xlim=(0, 1.15 * max(1, *shares.values())), xlabel=f"CPU time of whole outputs; generate = 1 ({device})")
    added = {f"batch {batch}": 100 * itself(one)[1] / both(one)["free"][1] for batch, one in measured["format"].items()}
    bars(right, {"": added}, lying=True, labels=" %.1f %%")
    right.set(xlim=(min(0, *added.values()) - 1, max(5, *added.values()) + 1), xlabel="% that a format adds to a step")
    return figure
