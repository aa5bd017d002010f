"""Measure a list of tools in each layout: its first mask, and a step of free text that may become a call.

    python3.11 dev.py bench tool_lists

The list has 128 tools of maskbench, `tool_choice` is "auto", the vocabulary is that of Llama 3, and the layout's
markers are special tokens of it. Each layout is measured in forks of a process that has seen no tool before:

- "first": until the first mask, of tools and a layout that are new;
- "again": until the first mask, compiled once more without any cache of whole formats;
- "cold": a step of free text, in a format that was just compiled;
- "warm": the same steps once more.

Times are CPU time. Each layout has two forks in each round; the ratio of their times says how far to trust a figure.
"""

from __future__ import annotations

import argparse
import random
import statistics
from functools import partial
from time import thread_time as clock
from typing import Any

from benchmarks.data import llama3
from benchmarks.harness import ChildError, aim, in_child, markdown, ratio
from benchmarks.tools import TOOLS, listed_tools
from formatter_core import Compiler, Layout, Vocabulary, bitmask, formats

MEASURES = ("first", "again", "cold", "warm")
PASSES = 5
#: Our target: µs of a warm step of free text.
WARM = 5.0
TEXT = """Let me think about what you asked. There are several ways to look at it: first, the weather in Paris is often
mild in May (12 to 20 °C), but it rains on one day in three. Second, trains from Lyon take about 2 hours; a ticket costs
"from 45 €", as their site says, if you book it early enough.

- Bring a light coat, and an umbrella.
- Don't book the hotel near the station: it's loud & expensive [1].

If x < 5 and y > 3, then `f(x, y)` is {"small": true}; otherwise I would ask somebody who knows, or look it up.
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "--layouts": {"nargs": "+", "help": "by default all"},
    "--rounds": {"type": int, "default": 7},
}
SMOKE = {"rounds": 1, "layouts": ["hermes", "qwen3-coder"]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    tools, _ = in_child(listed_tools, None)  # which reads texts with them
    if len(tools) < TOOLS:
        raise SystemExit("the folder of shared data sets is absent: set FORMATTER_SHARED")
    plain, encode = llama3()
    tokens = encode(TEXT)
    layouts = options.layouts or Layout.names()
    found: dict[str, list[list[dict[str, float]]]] = {}
    for turn in range(options.rounds):
        for layout in random.Random(turn).sample(list(layouts), len(layouts)):
            special = {marker: len(plain) + index for index, marker in enumerate(Layout.named(layout).markers)}
            vocabulary = Vocabulary([*plain.tokens, *[None] * len(special)], plain.end_ids, special)
            compiler = Compiler(vocabulary, cache_bytes=0)
            compiler.compile(formats.regex("[a-z]+")).formatter().allowed_tokens()
            work = partial(times_of, compiler, layout, tools, tokens)
            try:
                times = [in_child(work, None) for _ in range(2)]
            except ChildError as error:
                print(f"{layout} is left out: {error}")
                continue
            found.setdefault(layout, []).append(times)
        print(f"round {turn + 1} of {options.rounds}", flush=True)
    return {"tools": len(tools), "rounds": options.rounds, "layouts": {name: summary(found[name]) for name in found}}


def summary(rounds: list[list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Summarise each measure: seconds, and the ratio of the two forks of a round."""
    columns = {key: [[one[key], other[key]] for one, other in rounds] for key in MEASURES}
    return {
        key: {
            "seconds": statistics.median(value for pair in pairs for value in pair),
            "of itself": ratio(*zip(*pairs, strict=True)),
        }
        for key, pairs in columns.items()
    }


def times_of(compiler: Compiler, layout: str, tools: list[Any], tokens: list[int]) -> dict[str, float]:
    """Measure the seconds until the first mask, twice, and of a step, the first time and later."""
    vocabulary = compiler.vocabulary
    special = vocabulary.special_tokens
    known = {token: index for index, token in enumerate(vocabulary.tokens) if token and len(token) == 1}
    opening = [
        token
        for text, is_marker in Layout.named(layout).pieces(Layout.named(layout).content.open)
        for token in ([special[text]] if is_marker else [known[bytes([byte])] for byte in text.encode()])
    ]
    row = bitmask.allocate(1, len(vocabulary))[0]
    found = {}
    for name in ("first", "again"):
        begun = clock()
        compiled = compiler.compile(formats.chat_answer(layout, tools=tools))
        compiled.formatter().fill_bitmask(row)
        found[name] = clock() - begun
    compiled = compiler.compile(formats.chat_answer(layout, tools=tools))
    passes = []
    for _ in range(PASSES + 1):
        formatter = compiled.formatter()
        formatter.accept_tokens(opening)
        formatter.fill_bitmask(row)
        begun = clock()
        for token in tokens:
            formatter.step(token, row)
        passes.append((clock() - begun) / len(tokens))
    return {**found, "cold": passes[0], "warm": statistics.median(passes[1:])}


def show(found: dict[str, Any]) -> str:
    """Write a row for each layout, the control, and our target."""
    layouts = found["layouts"]
    rows = []
    for layout, measures in layouts.items():
        cells = [f"{measures[key]['seconds'] * 1e3:.1f} ms" for key in MEASURES[:2]]
        cells += [f"{measures[key]['seconds'] * 1e6:.2f} µs" for key in MEASURES[2:]]
        rows.append([f"`{layout}`", *cells])
    lines = [markdown(["layout", *MEASURES], rows), ""]
    for key in MEASURES:
        values = [measures[key]["of itself"] for measures in layouts.values()]
        lines.append(f"{key}: a fork over the other {min(values):.2f} to {max(values):.2f}")
    slowest = max(layouts, key=lambda layout: layouts[layout]["warm"]["seconds"])
    lines.append(aim(f"µs of a warm step of free text, {slowest}:", layouts[slowest]["warm"]["seconds"] * 1e6, WARM))
    return "\n".join(lines)
