"""mlx-lm's loops with formats: whether every output is right, and what a step costs.

    python3.11 dev.py bench mlx_loops                        # all of it: about half an hour
    python3.11 dev.py bench mlx_loops --parts steps cost     # the cost of a step alone

Outputs are those of the small trained model of the repository: eight formats by as many prompts as there are seeds,
greedy and sampled, each checked against its format without tokens; batches of sixteen with different formats beside
solo runs; and greedy outputs with a draft model, which is the model with noise on its weights, beside those without.

Steps are those of `generate_step` with the vocabulary of Llama 3 (128,256 ids) and a model with random weights: a run
without a processor, one that is the same again (the control), and one for each format with our processor and with
outlines' take turns. Because a step's noise is larger than what a processor costs, the cost is measured apart: in the
same loop, from the moment when the logits are there until they are masked and one number of them is computed, so that
what wakes mlx is in all figures. Beside the two processors stand ours once more (the control), one that does nothing,
and one that has all masks on the device and applies the next one, whatever the token is: less is not to be had. Before
each step a sum over as much memory as the weights of a small model empties the processor's caches. outlines masks by a
Metal kernel; where there is no Metal, its mask is applied by the same operations in mlx itself. All times are processor
time of the process; medians over the rounds, of differences over the pairs of a round.
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
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler

from benchmarks.data import llama3_ranks
from benchmarks.harness import aim, beside, difference, markdown, spread, take_turns
from formatter_core import CompiledFormat, Compiler, Vocabulary, formats, parse
from formatter_mlx import FormatterLogitsProcessor, create_logits_processor
from formatter_mlx.masks import LogitsKind, Row, kind_of

TINY = Path(__file__).resolve().parents[1] / "examples" / "tiny_model"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "born": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "city": {"enum": ["Oslo", "Delhi", "Lima"]},
    },
    "required": ["name", "born", "city"],
    "additionalProperties": False,
}
FORMATS: dict[str, Any] = {
    "schema": formats.json_schema(PERSON),
    "open schema": formats.json_schema(
        {"type": "object", "properties": {"age": {"type": "integer"}}, "maxProperties": 3}
    ),
    "array": formats.json_schema({"type": "array", "items": {"type": "boolean"}, "maxItems": 6}),
    "regex": formats.regex("[A-Z][a-z]{2,9}, [0-9]{1,3} years"),
    "parts of characters": formats.regex("(é|ü|感|[a-c]){3,12}"),
    "choice": formats.choice(["yes", "no", "perhaps", "I do not know"]),
    "grammar": formats.kbnf('start ::= "(" start ")" | #"[a-z]{1,3}";'),
    "quotation": formats.substring_of("Ivo lives in Delhi and works as a pilot."),
}
#: What the cost is measured on: as outlines can have it too.
MEASURED = {
    "pattern": r"[A-Z][a-z]{2,9}: [0-9]{1,6}(, [a-z]{1,12}){2,40}\.",
    "free text": r"[^\n]{20,400}\n",
    "choice": "(yes|no|perhaps){40,60}",
}
DTYPES = ("bfloat16", "float32")
KINDS = ("ours", "outlines", "ready", "nothing", "control")
#: What a step reads of memory before its processor is called.
WEIGHTS_BYTES = 2**25
NAMES = ("Ivo", "Ann", "Mia", "Bo", "Zoe", "Max", "Lena", "Omar")
CITIES = ("Delhi", "Oslo", "Lima", "Cairo")
JOBS = ("pilot", "teacher", "baker", "nurse")
PARTS = ("outputs", "batches", "drafts", "steps", "cost")

OPTIONS: dict[str, dict[str, Any]] = {
    "--parts": {"nargs": "+", "choices": PARTS, "default": list(PARTS)},
    "--seeds": {"type": int, "default": 200, "help": "outputs of each format, greedy and sampled"},
    "--batches": {"type": int, "default": 25, "help": "of sixteen rows"},
    "--drafts": {"type": int, "default": 200, "help": "greedy outputs with a draft model"},
    "--tokens": {"type": int, "default": 24, "help": "in each run of the cost"},
    "--rounds": {"type": int, "default": 7, "help": "of the steps; of the cost there are four times as many"},
    "--layers": {"type": int, "default": 24, "help": "of the model with random weights"},
}
SMOKE = {"seeds": 1, "batches": 1, "drafts": 2, "rounds": 1, "tokens": 4, "layers": 1}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"mlx-lm": mlx_lm.__version__, "mlx": mx.__version__, "device": str(mx.default_device())}
    loaded = mlx_lm.load(str(TINY))
    pieces: list[bytes | None] = [*llama3_ranks(), *[None] * 256]
    vocabulary = Vocabulary(pieces, [128_001])
    parts: dict[str, Callable[[], Any]] = {
        "outputs": lambda: outputs(loaded, options.seeds),
        "batches": lambda: batches(loaded, options.batches),
        "drafts": lambda: drafts(loaded, options.drafts),
        "steps": lambda: steps(options, vocabulary),
        "cost": lambda: cost(options, vocabulary),
    }
    return {**found, **{part: parts[part]() for part in options.parts}}


def prompt_of(seed: int) -> str:
    rng = random.Random(seed)
    age = rng.randint(1, 99)
    return f"{rng.choice(NAMES)} is {age} years old, lives in {rng.choice(CITIES)} and works as a {rng.choice(JOBS)}.\n"


def alone(loaded: tuple[Any, ...], prompt: Any, format: Any, budget: int | None = None, **options: Any) -> Any:
    """The result of one output."""
    model, tokenizer = loaded
    processor = create_logits_processor(tokenizer, format, model=model, max_tokens=budget)
    options = {"max_tokens": 60, "logits_processors": [processor], **options}
    *_, last = mlx_lm.stream_generate(model, tokenizer, prompt, **options)
    return processor.result(last)


def outputs(loaded: tuple[Any, ...], seeds: int) -> dict[str, Any]:
    """How many outputs are complete and valid, are cut and say so, or are wrong; by format, sampling and budget."""
    found: dict[str, dict[str, int]] = {}
    for (name, format), temperature, budget in itertools.product(FORMATS.items(), (0.0, 1.0), (60, None)):
        kind = f"{name}, {'sampled' if temperature else 'greedy'}, {'budget' if budget else 'no budget'}"
        counts = found.setdefault(kind, dict.fromkeys(("complete", "cut", "wrong"), 0))
        for seed in range(seeds):
            mx.random.seed(seed)
            result = alone(loaded, prompt_of(seed), format, budget, sampler=make_sampler(temperature))
            if result.is_complete and parse(format, result.bytes).is_complete:
                counts["complete"] += 1
            elif not result.is_complete and (result.ended, len(result.tokens)) == ("length", 60):
                counts["cut"] += 1
            else:
                counts["wrong"] += 1
    return found


def batches(loaded: tuple[Any, ...], count: int) -> dict[str, int]:
    """Rows of batches of sixteen with different formats, and how many differ from the same prompts alone."""
    model, tokenizer = loaded
    rows = differing = 0
    for batch in range(count):
        rng = random.Random(batch)
        requests = [
            (tokenizer.encode(prompt_of(16 * batch + row)), rng.choice(list(FORMATS.values()))) for row in range(16)
        ]
        generator = BatchGenerator(model, max_tokens=60, stop_tokens=[[end] for end in tokenizer.eos_token_ids])
        hooks = [create_logits_processor(tokenizer, format, model=model) for _, format in requests]
        generator.insert([prompt for prompt, _ in requests], logits_processors=[[hook] for hook in hooks])
        lasts = {}
        while responses := generator.next_generated():
            lasts.update({response.uid: response for response in responses})
        generator.close()
        for row, (prompt, format) in enumerate(requests):
            own, other = hooks[row].result(lasts[row]), alone(loaded, prompt, format)
            rows += 1
            differing += (own.bytes, own.ended) != (other.bytes, other.ended)
    return {"rows": rows, "different": differing}


def drafts(loaded: tuple[Any, ...], count: int) -> dict[str, int]:
    """Greedy outputs, how many differ with a draft model, and how many of their tokens were drafted."""
    model, tokenizer = loaded
    draft, _ = mlx_lm.load(str(TINY))
    noise = mx.random.key(0)
    weights = [
        (name, value + 0.04 * mx.random.normal(value.shape, key=noise))
        for name, value in tree_flatten(draft.parameters())
    ]
    draft.load_weights([(name, value.astype(mx.float16)) for name, value in weights])
    different = tokens = drafted = 0
    for seed in range(count):
        format = list(FORMATS.values())[seed % len(FORMATS)]
        expected = alone(loaded, prompt_of(seed), format)
        processor = create_logits_processor(tokenizer, format, model=model)
        options = {"max_tokens": 60, "draft_model": draft, "num_draft_tokens": 1 + seed % 4}
        responses = list(
            mlx_lm.stream_generate(model, tokenizer, prompt_of(seed), logits_processors=[processor], **options)
        )
        result = processor.result(responses[-1])
        different += (result.tokens, result.ended) != (expected.tokens, expected.ended)
        tokens += len(responses)
        drafted += sum(response.from_draft for response in responses)
    return {"outputs": count, "different": different, "tokens": tokens, "drafted": drafted}


# --- cost ------------------------------------------------------------------------------------------------------------


def processors(vocabulary: Vocabulary) -> dict[str, Callable[[], Any]]:
    """What makes the processors that are measured, by their names."""
    makes: dict[str, Callable[[], Any]] = {
        f"{name}, ours": partial(FormatterLogitsProcessor, own) for name, own in compiled_for(vocabulary).items()
    }
    return makes | {f"{name}, outlines": make for name, make in outlines_processors(vocabulary)}


def compiled_for(vocabulary: Vocabulary) -> dict[str, CompiledFormat]:
    compiler = Compiler(vocabulary)
    return {name: compiler.compile(formats.regex(pattern)) for name, pattern in MEASURED.items()}


def steps(options: argparse.Namespace, vocabulary: Vocabulary) -> dict[str, Any]:
    """CPU milliseconds of a step of the loop."""
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
    """CPU microseconds of a processor and its mask in a step of the loop."""
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
    """Two processors, to stand around another one: the CPU microseconds that pass between them in each step."""

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
    """A model that takes next to no time, and makes greedy loops write a random output of a format."""

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
        """Itself, at the beginning."""
        self._place = -1
        return self

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        self._place = min(self._place + 1, len(self._rows) - 1)
        row = self._rows[self._place]
        return row + (0 * tokens[0, -1]).astype(row.dtype)  # which waits for the token before, as a model does


def walk(compiled: Any, count: int) -> list[int]:
    """The first tokens of a random output."""
    formatter, rng = compiled.formatter(), random.Random(0)
    for _ in range(count):
        text = [token for token in formatter.allowed_tokens() if token not in formatter.end_ids]
        formatter.accept_token(rng.choice(text))
    return list(formatter.tokens)


def ready_masks(compiled: CompiledFormat, count: int, kind: LogitsKind) -> Callable[[Any, mx.array], mx.array]:
    """What applies the masks of `walk`, which are on the device, and stays at the last one."""
    formatter, row, masks = compiled.formatter(), Row(kind.width), []
    for token in walk(compiled, count):
        formatter.fill_bitmask(row.words)
        masks.append(row.mask(kind))
        formatter.accept_token(token)
    latest = itertools.chain(masks, itertools.repeat(masks[-1]))
    return lambda _, logits: next(latest).apply(logits)


def random_model(width: int, layers: int) -> Any:
    """The shape of a model of half a billion parameters, in the numbers that a CPU computes fastest with."""
    arguments = llama.ModelArgs(
        model_type="llama", hidden_size=896, num_hidden_layers=layers, intermediate_size=4864, num_attention_heads=14,
        num_key_value_heads=2, rms_norm_eps=1e-6, vocab_size=width, tie_word_embeddings=True,
    )  # fmt: skip
    model = llama.Model(arguments)
    mx.eval(model.parameters())
    return model


def outlines_processors(vocabulary: Vocabulary) -> Iterator[tuple[str, Callable[[], Any]]]:
    """By pattern, what makes outlines' processor for mlx; nothing where outlines is absent."""
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
    """What outlines' Metal kernel does, in mlx itself."""
    words = mx.array(mask.view(np.uint32))
    bits = ((words[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1).astype(mx.bool_).reshape(len(mask), -1)
    return mx.where(bits[:, : logits.shape[-1]], logits, mx.array(-np.inf, logits.dtype))


# --- telling ---------------------------------------------------------------------------------------------------------


def show(found: dict[str, Any]) -> str:
    lines = [f"mlx-lm {found['mlx-lm']}, mlx {found['mlx']}, {found['device']}; {found['machine']}"]
    if "outputs" in found:
        rows = [[name, *map(str, counts.values())] for name, counts in found["outputs"].items()]
        lines += ["", markdown(["outputs", "complete", "cut", "wrong"], rows)]
    for part in ("batches", "drafts"):
        if part in found:
            lines += ["", f"{part}: " + ", ".join(f"{count:,} {what}" for what, count in found[part].items())]
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
