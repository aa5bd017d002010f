"""Measure how many random walks over real schemas fit, with `max_tokens` as a budget and without.

    python3.11 dev.py bench budgets --output budgets        # writes budgets.json and budgets.png

Each walk chooses uniformly among the allowed tokens of Llama 3, which is the worst of models: text goes on and on. It
may have from `min_tokens` to `min_tokens` + 200 tokens. With a budget it must end in time, complete and valid; without
one it is cut there. Documents are judged by `jsonschema`. Times are CPU time of the thread; a mask is near the end from
the first one on that the budget narrows.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import VOCABULARIES, read_cases, valid_documents
from benchmarks.harness import aim, markdown, percentiles, ratio, spread, take_turns, without_garbage_collection
from formatter_core import CompiledFormat, Compiler, Formatter, bitmask
from formatter_core.errors import FormatterError, TokenRejected

MOST_MORE = 200
#: Our targets: milliseconds of a narrowed mask, and the ratio of a step far from the end.
NEAR_MS, FAR = 1.0, 1.1
STEPS = 400
DISTINCT = {"type": "array", "uniqueItems": True}
#: Formats of which the budget has to count more than the bytes that are missing, beside one of plain strings.
FAR_FORMATS: dict[str, Any] = {
    "strings": {"type": "array", "items": {"type": "string"}, "minItems": STEPS},
    "strings that differ": {**DISTINCT, "items": {"type": "string"}, "minItems": STEPS},
    "integers that differ": {**DISTINCT, "items": {"type": "integer"}, "minItems": STEPS},
    "a pattern that differs": {
        **DISTINCT,
        "items": {"type": "string", "pattern": "^[a-z]+-[0-9]+$"},
        "minItems": STEPS,
    },
    "minProperties": {"type": "object", "minProperties": STEPS // 4},
}
NEAR_FORMATS: dict[str, Any] = {
    "strings that differ, 3": {**DISTINCT, "items": {"type": "string"}, "minItems": 3},
    "strings that differ, 40": {**DISTINCT, "items": {"type": "string"}, "minItems": 40},
    "integers that differ, 40": {**DISTINCT, "items": {"type": "integer"}, "minItems": 40},
    "contains among strings that differ": {**DISTINCT, "items": {"type": "string"}, "contains": {"const": "a"}},
    "minProperties": {"type": "object", "minProperties": 5},
}
#: The number of bits of each byte.
BITS = np.array([value.bit_count() for value in range(256)], dtype=np.uint32)
ROUNDS = 15
OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 200},
    "--walks": {"type": int, "default": 10, "help": "of each schema"},
    "--vocabulary": {"choices": VOCABULARIES, "default": "llama3"},
    "--seed": {"type": int, "default": 1},
}
SMOKE = {"schemas": 0, "walks": 1, "vocabulary": "tekken"}


class Walks:
    """Count what became of the walks of all schemas."""

    def __init__(self) -> None:
        self.count = self.complete = self.valid = self.invalid = self.in_time = self.complete_without = 0
        self.refused = 0
        self.shares: dict[int, list[bool]] = {}
        self.near: list[float] = []
        self.others: list[float] = []

    def add(self, compiled: CompiledFormat, schema: Any, rng: random.Random) -> None:
        """Walk once with a budget, and once without."""
        more = rng.randint(0, MOST_MORE)
        most = compiled.min_tokens + more
        formatter = compiled.formatter(max_tokens=most)
        tokens = sum(1 for _ in self.steps(formatter, rng))
        result = formatter.result()
        self.count += 1
        self.in_time += tokens <= most
        self.complete += result.is_complete
        verdict = is_valid(result.text, schema)
        self.valid += verdict is True
        self.invalid += verdict is False
        without = compiled.formatter()
        for _, _step in zip(range(most), self.steps(without, rng, timed=False), strict=False):
            pass
        self.complete_without += without.is_finished
        self.shares.setdefault(more // 20 * 20, []).append(without.is_finished)

    def steps(self, formatter: Formatter, rng: random.Random, *, timed: bool = True) -> Iterator[int]:
        """Yield random tokens up to an end id, and note the time of each mask."""
        row = bitmask.allocate(1, len(formatter.compiled.vocabulary))[0]
        is_near = False
        while not formatter.is_finished:
            start = time.thread_time()
            formatter.fill_bitmask(row)
            took = 1000 * (time.thread_time() - start)
            if timed:
                is_near = is_near or formatter.result().shortened is not None
                (self.near if is_near else self.others).append(took)
            token = drawn(row, rng)
            try:
                formatter.accept_token(token)
            except TokenRejected:  # a wrong mask
                self.refused += 1
                return
            yield token


def drawn(row: np.ndarray, rng: random.Random) -> int:
    """Draw one of the allowed tokens, without a list of all of them, which would take longer than the mask."""
    words = row.view(np.uint8)
    counts = np.cumsum(BITS[words])
    place = rng.randrange(int(counts[-1]))
    byte = int(np.searchsorted(counts, place, side="right"))
    bits = [bit for bit in range(8) if int(words[byte]) >> bit & 1]
    return 8 * byte + bits[place - int(counts[byte])]


def is_valid(text: str, schema: Any) -> bool | None:
    """Tell whether `jsonschema` accepts a document; None if it cannot say."""
    try:
        from jsonschema.validators import validator_for

        kind = validator_for(schema)
        return bool(kind(schema).is_valid(json.loads(text)))
    except json.JSONDecodeError:
        return False
    except Exception:  # noqa: BLE001 - references to the network, recursion, an absent package
        return None


def far_cost(compiled: CompiledFormat, rng: random.Random) -> dict[str, float]:
    """Compare a warm step with a budget that is far away and one without."""
    row = bitmask.allocate(1, len(compiled.vocabulary))[0]
    tokens: list[int] = []
    formatter = compiled.formatter()
    while len(tokens) < STEPS and not formatter.is_finished:
        formatter.fill_bitmask(row)
        if formatter.must_stop:
            break
        tokens.append(drawn(row, rng))
        formatter.accept_token(tokens[-1])

    def walk(max_tokens: int | None) -> float:
        formatter = compiled.formatter(max_tokens=max_tokens)
        start = time.thread_time()
        for token in tokens:
            formatter.step(token, row)
        return time.thread_time() - start

    tasks = {"with": partial(walk, 100_000), "without": partial(walk, None), "control": partial(walk, None)}
    with without_garbage_collection():
        times = take_turns(tasks, ROUNDS)
    return {
        "ratio": ratio(times["with"], times["without"]),
        "control": ratio(times["control"], times["without"]),
        "spread": spread(times["control"]),
    }


def near_masks(compiled: CompiledFormat, rng: random.Random) -> dict[str, float]:
    """Measure milliseconds of cold masks from the first narrowed one on, in a few walks."""
    walks = Walks()
    for more in (3, 20, 80) * 4:
        formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
        for _step in walks.steps(formatter, rng):
            pass
    return percentiles(walks.near or [0.0], digits=3)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    vocabulary, encode = VOCABULARIES[options.vocabulary]()
    compiler = Compiler(vocabulary, engine="native")
    rng = random.Random(options.seed)
    cases = list(read_cases()) if options.schemas else []
    rng.shuffle(cases)
    walks = Walks()
    needed_ms: list[float] = []
    shorter = known = used = 0
    for case in cases:
        if used == options.schemas:
            break
        try:
            compiled = compiler.compile(case["schema"])
            start = time.thread_time()
            needed = compiled.min_tokens
        except FormatterError:
            continue
        needed_ms.append(1000 * (time.thread_time() - start))
        used += 1
        for document in valid_documents(case):
            text = json.dumps(document, separators=(",", ":"))
            known += 1
            shorter += compiled.parse(text).is_complete and len(encode(text)) + 1 < needed
        for _ in range(options.walks):
            walks.add(compiled, case["schema"], rng)
    far = {name: far_cost(compiler.compile(format), rng) for name, format in FAR_FORMATS.items()}
    near = {name: near_masks(compiler.compile(format), rng) for name, format in NEAR_FORMATS.items()}
    return {
        "schemas": used,
        "walks": walks.count,
        "within the budget": walks.in_time,
        "complete": walks.complete,
        "valid": walks.valid,
        "not valid": walks.invalid,
        "tokens in a mask that were refused": walks.refused,
        "complete without a budget": walks.complete_without,
        "complete without a budget, by tokens above min_tokens": {
            more: float(np.mean(done)) for more, done in sorted(walks.shares.items())
        },
        "documents": known,
        "documents of fewer tokens than min_tokens": shorter,
        "ms of min_tokens": percentiles(needed_ms or [0.0], digits=3),
        "ms of masks near the end": percentiles(walks.near or [0.0], digits=3),
        "ms of other masks": percentiles(walks.others or [0.0], digits=3),
        "step far from the end": far.pop("strings"),
        "step far from the end, other formats": far,
        "ms of masks near the end where values must differ": near,
    }


def short(value: Any) -> str:
    """Write a figure, a text, or some figures by name."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {short(part)}" for name, part in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show(found: dict[str, Any]) -> str:
    rows = [(name, short(value)) for name, value in found.items()]
    aims = [
        aim("complete within the budget: share", found["complete"] / max(1, found["walks"]), 1.0, at_least=True),
        aim("masks near the end: p99 ms", found["ms of masks near the end"]["p99"], NEAR_MS),
        aim("a step far from the end: ratio", found["step far from the end"]["ratio"], FAR),
    ]
    return "\n".join([markdown(["what", "found"], rows), "", *aims])


TITLE = "Outputs of random walks over 200 real schemas that are complete, with and without a budget of tokens"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the share of complete outputs by the number of tokens."""
    figure, axis = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    shares = found["complete without a budget, by tokens above min_tokens"]
    places = [int(more) for more in shares]
    fitting = 100 * found["complete"] / max(1, found["walks"])
    axis.plot(places, [fitting] * len(places), marker="o", label="with max_tokens as a budget")
    axis.plot(places, [100 * share for share in shares.values()], marker="o", label="cut at max_tokens")
    axis.set_xlabel("max_tokens above the fewest that are enough")
    axis.set_ylabel("complete outputs (%)")
    axis.set_ylim(-5, 105)
    axis.legend()
    return figure
