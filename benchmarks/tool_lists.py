"""Measure a list of tools in each layout: its first mask, and a step of free text that may become a call.

    python3.11 dev.py bench tool_lists --before FOLDER

The list has 128 tools of maskbench, `tool_choice` is "auto", the vocabulary is that of Llama 3, and the layout's
markers are special tokens of it. Each round runs each code in a process of its own, in turns, and each layout in a fork
of it that has seen no tool before:

- "first": until the first mask, where neither the tools nor the layout were seen before;
- "again": until the first mask, compiled once more without any cache of whole formats;
- "cold": a step of free text, in a format that was just compiled;
- "warm": the same steps once more.

With `--before`, a checkout of an older commit whose crate has been built there, layouts that this one knows too are
compared. Times are CPU time. Today's code runs twice, so that the ratio of these shows what another one is worth.
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
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEASURES = ("first", "again", "cold", "warm")
PASSES = 5
#: Bounds: µs of a warm step of free text, and the first mask as a share of before.
WARM, FIRST = 5.0, 1.0
TEXT = """Let me think about what you asked. There are several ways to look at it: first, the weather in Paris is often
mild in May (12 to 20 °C), but it rains on one day in three. Second, trains from Lyon take about 2 hours; a ticket costs
"from 45 €", as their site says, if you book it early enough.

- Bring a light coat, and an umbrella.
- Don't book the hotel near the station: it's loud & expensive [1].

If x < 5 and y > 3, then `f(x, y)` is {"small": true}; otherwise I would ask somebody who knows, or look it up.
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "--before": {"help": "a checkout of an older commit"},
    "--layouts": {"nargs": "+", "help": "by default all"},
    "--rounds": {"type": int, "default": 7},
}
SMOKE = {"rounds": 1, "layouts": ["hermes", "qwen3-coder"]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds by code, layout and measure."""
    from benchmarks.tools import TOOLS, listed_tools
    from formatter_core import Layout

    tools, _ = listed_tools()
    if len(tools) < TOOLS:
        raise SystemExit("the folder of shared data sets is absent: set FORMATTER_SHARED")
    layouts = [(name, list(Layout.named(name).markers)) for name in options.layouts or Layout.names()]
    trees = {"now": ROOT, "now again": ROOT}
    if options.before:
        trees["before"] = Path(options.before).absolute()
    task = json.dumps({"tools": tools, "layouts": layouts})
    rounds: list[dict[str, Any]] = []
    for turn in range(options.rounds):
        order = random.Random(turn).sample(list(trees), len(trees))
        rounds.append({name: of_tree(trees[name], task) for name in order})
        print(f"round {turn + 1} of {options.rounds}", flush=True)
    seconds = {
        code: {
            layout: {key: [found[code][layout][key] for found in rounds] for key in MEASURES}
            for layout in rounds[0][code]
        }
        for code in trees
    }
    return {"tools": len(tools), "rounds": options.rounds, "layouts": summary(seconds)}


def summary(seconds: dict[str, dict[str, dict[str, list[float]]]]) -> dict[str, dict[str, dict[str, float]]]:
    """By layout and measure: seconds of today's code, its ratio to itself and, where it is known, to the other code."""
    from benchmarks.harness import ratio

    now, again, before = seconds["now"], seconds["now again"], seconds.get("before", {})
    return {
        layout: {
            key: {
                "seconds": statistics.median(times[key] + again[layout][key]),
                "of itself": ratio(times[key], again[layout][key]),
                **({"of before": ratio(times[key], before[layout][key])} if layout in before else {}),
            }
            for key in MEASURES
        }
        for layout, times in now.items()
    }


def of_tree(tree: Path, task: str) -> Any:
    """Return the figures of one process with the code of this tree."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "integrations")])}
    env.setdefault("FORMATTER_SHARED", str(ROOT.parent / "shared"))
    done = subprocess.run(
        [sys.executable, __file__], env=env, cwd=tree, input=task, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def show(found: dict[str, Any]) -> str:
    """A row for each layout, and what is missed."""
    from benchmarks.harness import aim, markdown

    layouts = found["layouts"]
    rows = []
    for layout, measures in layouts.items():
        cells = [f"{measures[key]['seconds'] * 1e3:.1f} ms" for key in MEASURES[:2]]
        cells += [f"{measures[key]['seconds'] * 1e6:.2f} µs" for key in MEASURES[2:]]
        shares = [f" ({one['of before']:.2f})" if "of before" in one else "" for one in measures.values()]
        rows.append([f"`{layout}`", *map(str.__add__, cells, shares)])
    lines = [markdown(["layout", *MEASURES], rows), ""]
    for key in MEASURES:
        values = [measures[key]["of itself"] for measures in layouts.values()]
        lines.append(f"{key}: today's code over itself {min(values):.2f} to {max(values):.2f}")
    slowest = max(layouts, key=lambda layout: layouts[layout]["warm"]["seconds"])
    lines.append(aim(f"µs of a warm step of free text, {slowest}:", layouts[slowest]["warm"]["seconds"] * 1e6, WARM))
    for key in MEASURES:
        of_before = {name: one[key]["of before"] for name, one in layouts.items() if "of before" in one[key]}
        if of_before:
            worst = max(of_before, key=of_before.__getitem__)
            told = f"the most is {worst},"
            told = aim(told, of_before[worst], FIRST) if key in MEASURES[:2] else f"{told} {of_before[worst]:.3f}"
            lines.append(f"{key} of before: median {statistics.median(of_before.values()):.3f}; {told}")
    return "\n".join(lines)


def serve() -> None:
    """In a process of its own, with either code."""
    sys.path.remove(str(Path(__file__).parent))  # other modules go by the names of benchmarks too
    from benchmarks.data import llama3
    from benchmarks.harness import ChildError, in_child
    from formatter_core import Compiler, Vocabulary, formats

    task = json.load(sys.stdin)
    plain, encode = llama3()
    tokens = encode(TEXT)
    found: dict[str, Any] = {}
    for layout, markers in task["layouts"]:
        special = {marker: len(plain) + index for index, marker in enumerate(markers)}
        vocabulary = Vocabulary([*plain.tokens, *[None] * len(special)], plain.end_ids, special)
        compiler = Compiler(vocabulary, cache_bytes=0)
        compiler.compile(formats.regex("[a-z]+")).formatter().allowed_tokens()
        with suppress(ChildError):  # the layout is new, or refuses a tool
            found[layout] = in_child(partial(times_of, compiler, vocabulary, layout, task["tools"], tokens), None)
    print(json.dumps(found))


def times_of(compiler: Any, vocabulary: Any, layout: str, tools: list[Any], tokens: list[int]) -> dict[str, float]:
    """Seconds until the first mask, twice, and of a step, the first time and later."""
    from formatter_core import Layout, bitmask, formats

    special = vocabulary.special_tokens
    known = {token: index for index, token in enumerate(vocabulary.tokens) if token and len(token) == 1}
    opening = [
        token
        for text, is_marker in Layout.named(layout).pieces(Layout.named(layout).content.open)
        for token in ([special[text]] if is_marker else [known[bytes([byte])] for byte in text.encode()])
    ]
    row = bitmask.allocate(1, len(vocabulary))[0]
    clock = time.thread_time
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


if __name__ == "__main__":
    serve()
