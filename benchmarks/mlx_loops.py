"""Measure what a format adds to a step of mlx-lm's loops.

    python3.11 dev.py bench mlx_loops                   # some twenty minutes
    python3.11 dev.py bench mlx_loops --parts cost

Steps are those of `generate_step` with the vocabulary of Llama 3 (128,256 ids) and a model with random weights: a run
without a processor, one that is the same again (the control), and one for each format with our processor and with
outlines' take turns. Because a step's noise is larger than what a processor costs, the cost is measured apart: in the
same loop, from the moment when the logits are there until they are masked and one number of them is computed, so that
the time to wake mlx is in all figures. Beside the two processors run ours once more (the control), one that does
nothing, and one that has all masks on the device and applies the next one, whatever the token is: less is not to be
had. Before each step a sum over as much memory as the weights of a small model empties the processor's caches. outlines
masks by a Metal kernel; without Metal, mlx itself applies its mask by the same operations. All times are processor time
of the process; medians over the rounds, of differences over the pairs of a round.

`tests/engines_real/test_mlx.py` checks the outputs.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models import llama

from benchmarks.data import llama3_ranks
from benchmarks.harness import aim, beside, difference, markdown, spread, take_turns
from formatter_core import CompiledFormat, Compiler, Vocabulary, formats
from formatter_mlx import FormatterLogitsProcessor
from formatter_mlx.masks import LogitsKind, Row, kind_of

#: The formats, which outlines can have too.
MEASURED = {
    "pattern": r"[A-Z][a-z]{2,9}: [0-9]{1,6}(, [a-z]{1,12}){2,40}\.",
    "free text": r"[^\n]{20,400}\n",
    "choice": "(yes|no|perhaps){40,60}",
}
DTYPES = ("bfloat16", "float32")
KINDS = ("ours", "outlines", "ready", "nothing", "control")
#: Bytes that a step reads before its processor is called.
WEIGHTS_BYTES = 2**25
PARTS = ("steps", "cost")

OPTIONS: dict[str, dict[str, Any]] = {
    "--parts": {"nargs": "+", "choices": PARTS, "default": list(PARTS)},
    "--tokens": {"type": int, "default": 24, "help": "in each run"},
    "--rounds": {"type": int, "default": 7, "help": "of the steps; of the cost there are four times as many"},
    "--layers": {"type": int, "default": 24, "help": "of the model with random weights"},
}
SMOKE = {"rounds": 1, "tokens": 4, "layers": 1}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"mlx-lm": mlx_lm.__version__, "mlx": mx.__version__, "device": str(mx.default_device())}
    vocabulary = Vocabulary([*llama3_ranks(), *[None] * 256], [128_001])
    parts = {"steps": steps, "cost": cost}
    return {**found, **{part: parts[part](options, vocabulary) for part in options.parts}}


def processors(vocabulary: Vocabulary) -> dict[str, Callable[[], Any]]:
    """Return what makes the processors that are measured, by their names."""
    makes: dict[str, Callable[[], Any]] = {
        f"{name}, ours": partial(FormatterLogitsProcessor, own) for name, own in compiled_for(vocabulary).items()
    }
    return makes | {f"{name}, outlines": make for name, make in outlines_processors(vocabulary)}


def compiled_for(vocabulary: Vocabulary) -> dict[str, CompiledFormat]:
    compiler = Compiler(vocabulary)
    return {name: compiler.compile(formats.regex(pattern)) for name, pattern in MEASURED.items()}


def steps(options: argparse.Namespace, vocabulary: Vocabulary) -> dict[str, Any]:
    """Measure CPU milliseconds of a step of the loop."""
    model = random_model(len(vocabulary), options.layers)

    def run(make: Callable[[], Any] | None) -> float:
        processors = None if make is None else [make()]
        loop = generate_step(mx.array([9906, 11]), model, max_tokens=options.tokens, logits_processors=processors)
        next(loop)
        begun, taken = time.process_time(), sum(1 for _ in loop)
        return 1000 * (time.process_time() - begun) / taken

    loops = {name: partial(run, make) for name, make in processors(vocabulary).items()}
    ms = take_turns({"none": partial(run, None), "control": partial(run, None), **loops}, options.rounds)
    return {
        "parameters": sum(value.size for _, value in tree_flatten(model.parameters())),
        "apart": spread(ms["none"]),
        "ms": beside(ms, "none"),
    }


def cost(options: argparse.Namespace, vocabulary: Vocabulary) -> dict[str, Any]:
    """Measure CPU microseconds of a processor and its mask in a step of the loop."""
    weights = mx.random.normal((WEIGHTS_BYTES // 4,))

    def run(make: Callable[[], Any], script: Script) -> float:
        clock = Clock(weights)
        processors = [clock.start, make(), clock.stop]
        options = {"max_tokens": len(script.tokens), "logits_processors": processors, "prompt_cache": []}
        loop = generate_step(mx.array([9906]), script.rewound(), **options)
        written = [token for token, _ in loop]
        if written != script.tokens:
            raise SystemExit(f"other tokens than those of the script: {written} for {script.tokens}")
        return statistics.mean(clock.us[1:])  # the first call sees the prompt

    makes, width = processors(vocabulary), len(vocabulary)
    loops = {}
    for (name, own), dtype in itertools.product(compiled_for(vocabulary).items(), DTYPES):
        script = Script(own, options.tokens, width, getattr(mx, dtype))
        makes[f"{name}, ready"] = partial(ready_masks, own, options.tokens, kind_of(width, getattr(mx, dtype)))
        makes[f"{name}, nothing"] = lambda: lambda _, logits: logits
        makes[f"{name}, control"] = makes[f"{name}, ours"]
        for kind in KINDS:
            if make := makes.get(f"{name}, {kind}"):
                loops[f"{name}, {kind}, {dtype}"] = partial(run, make, script)
    gc.freeze()  # the collection between two turns would go through a million objects and empty the processor's caches
    found = take_turns(loops, 4 * options.rounds)
    gc.unfreeze()
    return {"us more than nothing": more_than_nothing(found)}


def more_than_nothing(us: dict[str, list[float]]) -> dict[str, float]:
    """Compute the time that each processor adds to one that does nothing, by format, kind and dtype."""
    return {
        name: difference(values, us[f"{format}, nothing, {dtype}"])
        for name, values in us.items()
        for format, kind, dtype in [name.rsplit(", ", 2)]
        if kind != "nothing"
    }


class Clock:
    """Hold two processors around another one, and the CPU microseconds between them in each step."""

    def __init__(self, weights: mx.array) -> None:
        self._weights = weights
        self._begun = 0.0
        self.us: list[float] = []

    def start(self, tokens: mx.array, logits: mx.array) -> mx.array:
        mx.eval(logits, self._weights.sum())
        self._begun = time.process_time()
        return logits

    def stop(self, tokens: mx.array, logits: mx.array) -> mx.array:
        mx.eval(logits[:, :8].max())
        self.us.append(1e6 * (time.process_time() - self._begun))
        return logits


class Script:
    """Stand for a model: it takes next to no time, and makes greedy loops write a random output of a format."""

    layers: Sequence[Any] = ()

    def __init__(self, compiled: CompiledFormat, count: int, width: int, dtype: Any) -> None:
        self.tokens = walk(compiled, count)
        formatter = compiled.formatter()
        self._rows = []
        for token in self.tokens:
            row = np.full((1, 1, width), -np.inf, dtype=np.float32)
            row[..., list(formatter.allowed_tokens())] = 0
            row[..., token] = 50
            self._rows.append(mx.array(row).astype(dtype))
            formatter.accept_token(token)
        mx.eval(self._rows)

    def rewound(self) -> Script:
        """Return itself, at the beginning."""
        self._place = -1
        return self

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        self._place = min(self._place + 1, len(self._rows) - 1)
        row = self._rows[self._place]
        return row + (0 * tokens[0, -1]).astype(row.dtype)  # which waits for the token before, as a model does


def walk(compiled: Any, count: int) -> list[int]:
    """Draw the first tokens of a random output."""
    formatter, rng = compiled.formatter(), random.Random(0)
    for _ in range(count):
        text = [token for token in formatter.allowed_tokens() if token not in formatter.end_ids]
        formatter.accept_token(rng.choice(text))
    return list(formatter.tokens)


def ready_masks(compiled: CompiledFormat, count: int, kind: LogitsKind) -> Callable[[Any, mx.array], mx.array]:
    """Return a processor that applies the masks of `walk`, which are on the device, and stays at the last one."""
    formatter, row, masks = compiled.formatter(), Row(kind.width), []
    for token in walk(compiled, count):
        formatter.fill_bitmask(row.words)
        masks.append(row.mask(kind))
        formatter.accept_token(token)
    latest = itertools.chain(masks, itertools.repeat(masks[-1]))
    return lambda _, logits: next(latest).apply(logits)


def random_model(width: int, layers: int) -> Any:
    """Make a model in the shape of half a billion parameters, of the numbers that a CPU computes fastest with."""
    arguments = llama.ModelArgs(
        model_type="llama", hidden_size=896, num_hidden_layers=layers, intermediate_size=4864, num_attention_heads=14,
        num_key_value_heads=2, rms_norm_eps=1e-6, vocab_size=width, tie_word_embeddings=True,
    )  # fmt: skip
    model = llama.Model(arguments)
    mx.eval(model.parameters())
    return model


def outlines_processors(vocabulary: Vocabulary) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each pattern with what makes outlines' processor for mlx; nothing if outlines is absent."""
    try:
        import outlines_core
        from outlines.backends.outlines_core import OutlinesCoreLogitsProcessor
        from outlines_core.kernels import mlx as kernels
    except ImportError:
        return
    if not mx.metal.is_available():
        kernels.apply_token_bitmask = without_metal
    ids: dict[bytes, list[int]] = {}
    for token_id, piece in enumerate(vocabulary.tokens):
        if piece:
            ids.setdefault(piece, []).append(token_id)
    theirs = outlines_core.Vocabulary(vocabulary.end_ids[0], ids)
    for name, pattern in MEASURED.items():
        index = outlines_core.Index(pattern, theirs)
        yield name, partial(OutlinesCoreLogitsProcessor, index, "mlx")


def without_metal(logits: mx.array, mask: Any) -> mx.array:
    """Mask as outlines' Metal kernel does, in mlx itself."""
    words = mx.array(mask.view(np.uint32))
    bits = ((words[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1).astype(mx.bool_).reshape(len(mask), -1)
    return mx.where(bits[:, : logits.shape[-1]], logits, mx.array(-np.inf, logits.dtype))


# --- telling ---------------------------------------------------------------------------------------------------------


def show(found: dict[str, Any]) -> str:
    lines = [f"mlx-lm {found['mlx-lm']}, mlx {found['mlx']}, {found['device']}; {found['machine']}"]
    if "steps" in found:
        ms, parameters = found["steps"]["ms"], found["steps"]["parameters"]
        rows = [[name, f"{one['median']:.1f}", f"{100 * (one['ratio'] - 1):+.1f} %"] for name, one in ms.items()]
        noise = 100 * found["steps"]["apart"]
        lines += ["", f"{parameters:,} parameters; a step without a format, beside the next: {noise:.1f} %"]
        lines += ["", markdown(["what", "step, CPU ms", "beside none"], rows)]
    if "cost" in found:
        us = found["cost"]["us more than nothing"]
        added = {
            (name, dtype, kind): us[f"{name}, {kind}, {dtype}"]
            for name, dtype, kind in itertools.product(MEASURED, DTYPES, KINDS)
            if f"{name}, {kind}, {dtype}" in us
        }
        rows = []
        for (name, dtype, kind), value in added.items():
            theirs = added.get((name, dtype, "outlines"))
            rows.append([name, dtype, kind, f"{value:+.0f}", f"{value / theirs:.2f}" if theirs else ""])
        lines += [
            "",
            markdown(
                ["format", "dtype", "processor", "CPU µs more than one that does nothing", "beside outlines'"], rows
            ),
            "",
        ]
        for name in MEASURED if "steps" in found else ():
            share = added[name, DTYPES[-1], "ours"] / found["steps"]["ms"]["none"]["median"] / 10
            lines.append(aim(f"{name}: ours, in % of a step", share, 3))
        for dtype in DTYPES:
            if theirs := sum(added.get((name, dtype, "outlines"), 0) for name in MEASURED):
                ours = sum(added[name, dtype, "ours"] for name in MEASURED)
                lines.append(
                    aim(f"all formats, {dtype}: ours / outlines', each less one that does nothing", ours / theirs, 0.2)
                )
    return "\n".join(lines)
