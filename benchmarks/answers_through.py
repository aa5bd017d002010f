"""Compare the greedy answers of one model through several inference engines, each with our adapter.

    python3.11 dev.py bench answers --tasks 40 --samples 0 --engines formatter-core --answers one.jsonl
    python3.11 dev.py bench answers … --through transformers --answers other.jsonl
    python3.11 dev.py bench answers_through --answers one.jsonl other.jsonl …

Masks are the same everywhere, so answers differ only where the numbers of two engines differ and two tokens are nearly
as likely (docs/decisions/five-answers.md).
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.answers import OURS, judge_again, read
from benchmarks.harness import markdown

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--answers": {"type": Path, "nargs": "+", "required": True, "help": "what `answers --answers` wrote of each"},
}
SMOKE: dict[str, Any] = {}

#: A task, and whether its format is in the prompt.
Prompt = tuple[str, bool]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Count by inference engine, and count for each pair the answers that are the same."""
    engines: dict[str, dict[Prompt, dict[str, Any]]] = {}
    for record in judge_again(itertools.chain.from_iterable(map(read, options.answers))):
        if record["engine"] == OURS and record["seed"] is None:
            engines.setdefault(record["through"], {})[record["task"], record["hint"]] = record
    times = Counter(itertools.chain.from_iterable(engines.values()))
    engines = {
        name: {key: answer for key, answer in answers.items() if times[key] > 1} for name, answers in engines.items()
    }
    pairs: dict[str, Any] = {}
    for one, other in itertools.combinations(engines, 2):
        shared = [(mine, engines[other][key]) for key, mine in engines[one].items() if key in engines[other]]
        same = sum(mine["text"] == theirs["text"] for mine, theirs in shared)
        pairs[f"{one}, {other}"] = {"answers": len(shared), "the same": same}
    return {
        "engines": {
            name: {
                "answers": len(answers),
                **{what: sum(answer[what] for answer in answers.values()) for what in ("valid", "right", "tokens")},
            }
            for name, answers in engines.items()
        },
        "pairs": pairs,
    }


def show(found: dict[str, Any]) -> str:
    """Write the engines, and how many answers of two are the same."""
    engines = [
        [name, *(str(engine[what]) for what in ("answers", "valid", "right", "tokens"))]
        for name, engine in found["engines"].items()
    ]
    pairs = [[name, f"{pair['the same']} of {pair['answers']}"] for name, pair in found["pairs"].items()]
    return "\n\n".join(
        [markdown(["", "answers", "valid", "right", "tokens"], engines), markdown(["", "the same"], pairs)]
    )
