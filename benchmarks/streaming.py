"""Measure what a snapshot and a list of changes cost after each token.

    python3.11 dev.py bench streaming           # writes streaming.json

Microseconds of CPU time for each token of four bytes, `Formatter.accept_token` left out; the median of the rounds.
`deltas` is `Formatter.deltas()`, `plain` is `Formatter.snapshot(plain=True)`, and `typed` is `Formatter.snapshot()` of
a list of dataclasses. `whole text` reads everything that is written so far after each token, as clients without an
incremental reader do: `pydantic_core.from_json(text, allow_partial="trailing-strings")`. `growth` divides the cost of
the last tenth of the tokens by that of the second tenth: 1 where a token costs what it adds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from benchmarks.data import of_chunks
from benchmarks.harness import aim, markdown, seconds_of
from formatter_core import CompiledFormat, Compiler, Formatter, FormatterBuilder

#: The aims of this project: microseconds a token, and growth.
TOKEN, GROWTH = 20.0, 1.5
TOKEN_BYTES = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "--rounds": {"type": int, "default": 7},
    "--sizes": {"type": int, "nargs": "+", "default": [3_000, 40_000]},
}
SMOKE = {"rounds": 1, "sizes": [300, 1000]}


@dataclasses.dataclass
class Item:
    """Hold an item of the list that is written."""

    name: str
    n: int
    tags: list[str]


def as_list(size: int) -> str:
    """Make a list of objects of about so many bytes."""
    items: list[Any] = []
    while len(json.dumps(items, ensure_ascii=False)) < size:
        number = len(items)
        items += [
            {"name": f"item {number} é", "n": number, "tags": ["a", "bc"]} for number in range(number, number + 5)
        ]
    return json.dumps(items, ensure_ascii=False)


def as_text(size: int) -> str:
    """Make one long string."""
    return json.dumps({"text": "some words of a story, " * (size // 23)})


def in_a_hole(format: Any) -> FormatterBuilder:
    """Measure the same in a hole of a text."""
    b = FormatterBuilder()
    return b.append("Answer: ", b.json(format, name="answer"), ".")


STORY = {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False,
}  # fmt: skip
#: By name: what is asked after each token; nothing where a client without an incremental reader reads the whole text.
ASKED: dict[str, Callable[[Formatter], object] | None] = {
    "deltas": Formatter.deltas,
    "plain": lambda formatter: formatter.snapshot(plain=True),
    "typed": Formatter.snapshot,
    "whole text": None,
}
#: The format, its text by size, and what is asked of it.
FORMATS: dict[str, tuple[Any, Callable[[int], str], tuple[str, ...]]] = {
    "list of objects": (list[Item], as_list, ("deltas", "plain", "typed", "whole text")),
    "one long string": (STORY, as_text, ("deltas", "plain", "whole text")),
    "list in a hole": (in_a_hole(list[Item]), lambda size: f"Answer: {as_list(size)}.", ("deltas",)),
}


def times_of(
    compiled: CompiledFormat[Any], tokens: list[int], ask: Callable[[Formatter], object] | None
) -> list[float]:
    """Measure the seconds that each token costs."""
    formatter, text, times = compiled.formatter(), bytearray(), []

    def read_all() -> object:
        return from_json(bytes(text), allow_partial="trailing-strings")

    task = seconds_of(read_all if ask is None else lambda: ask(formatter))
    for token in tokens:
        formatter.accept_token(token)
        text += compiled.vocabulary.text_token(token) or b""
        times.append(task())
    return times


def cost(format: Any, text: str, ask: Callable[[Formatter], object] | None, rounds: int) -> dict[str, float]:
    """Measure microseconds a token, and how they grow."""
    data = (text if ask is not None else text.replace("é", "e")).encode()  # the peer takes no part of a character
    vocabulary, tokens = of_chunks(data, TOKEN_BYTES)
    compiled = Compiler(vocabulary, engine="native").compile(format)
    means, growths = [], []
    for _ in range(rounds):
        times = times_of(compiled, tokens, ask)
        tenth = len(times) // 10
        means.append(statistics.mean(times) * 1e6)
        growths.append(statistics.mean(times[-tenth:]) / statistics.mean(times[tenth : 2 * tenth]))
    return {"tokens": len(tokens), "us": statistics.median(means), "growth": statistics.median(growths)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found = {
        f"{name}, {ask}": {str(size): cost(format, text(size), ASKED[ask], options.rounds) for size in options.sizes}
        for name, (format, text, asks) in FORMATS.items()
        for ask in asks
    }
    return {"rounds": options.rounds, "sizes": options.sizes, "cases": found}


def show(found: dict[str, Any]) -> str:
    sizes = [str(size) for size in found["sizes"]]
    header = ["after each token", *(f"{int(size):,} bytes: µs" for size in sizes), "tokens", "growth"]
    rows = []
    for name, by_size in found["cases"].items():
        largest = by_size[sizes[-1]]
        costs = [f"{by_size[size]['us']:.1f}" for size in sizes]
        rows.append((name, *costs, f"{largest['tokens']:,}", f"{largest['growth']:.2f}"))
    ours = {name: by_size for name, by_size in found["cases"].items() if not name.endswith("whole text")}
    aims = [aim(f"{name}, {int(sizes[0]):,} bytes: µs", case[sizes[0]]["us"], TOKEN) for name, case in ours.items()]
    linear = {name: case for name, case in ours.items() if name.endswith("deltas")}
    aims += [aim(f"{name}: growth", case[sizes[-1]]["growth"], GROWTH) for name, case in linear.items()]
    return "\n".join([markdown(header, rows), "", *aims])
