"""Compare the greedy answers of one model through several inference engines, each with our adapter.

    python3.11 dev.py bench answers --tasks 40 --samples 0 --engines formatter-core --answers one.jsonl
    python3.11 dev.py bench answers … --through transformers --answers other.jsonl
    python3.11 dev.py bench answers_through --answers one.jsonl other.jsonl …

The masks are the same everywhere, so answers part only where the numbers of two engines differ and two tokens are
nearly as likely. This is measured, too. Where two answers part, the model is computed once more in 32 bits up to there:
*gap* is the difference of the two tokens' logarithms of probability. *Noise* is how far llama.cpp, which rounds what
goes into each product of matrices to 8 bits, is from 32 bits: by how much that difference changes for the two likeliest
tokens, at all places of the answers.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answer_tasks import tasks
from benchmarks.answers import OURS, judge_again, read
from benchmarks.harness import markdown, percentiles
from examples import real_model

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--answers": {"type": Path, "nargs": "+", "required": True, "help": "what `answers --answers` wrote of each"},
    "--threads": {"type": int, "default": 1},
}
SMOKE: dict[str, Any] = {}

Logits = np.ndarray[Any, np.dtype[np.float32]]
#: A task, and whether its format is in the prompt.
Prompt = tuple[str, bool]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Counts by inference engine, and of each pair how often the answers are the same, and why not."""
    engines: dict[str, dict[Prompt, dict[str, Any]]] = {}
    for record in judge_again(itertools.chain.from_iterable(map(read, options.answers))):
        if record["engine"] == OURS and record["seed"] is None:
            engines.setdefault(record["through"], {})[record["task"], record["hint"]] = record
    times = Counter(itertools.chain.from_iterable(engines.values()))
    engines = {
        name: {key: answer for key, answer in answers.items() if times[key] > 1} for name, answers in engines.items()
    }
    reference = Reference(options.threads)
    pairs: dict[str, Any] = {}
    for one, other in itertools.combinations(engines, 2):
        shared = [(mine, engines[other][key]) for key, mine in engines[one].items() if key in engines[other]]
        parted = [(mine, theirs) for mine, theirs in shared if mine["text"] != theirs["text"]]
        gaps = [reference.gap(mine, theirs) for mine, theirs in parted]
        pairs[f"{one}, {other}"] = {
            "answers": len(shared),
            "the same": len(shared) - len(parted),
            "gap": percentiles(gaps, (50, 100)) if gaps else {},
        }
    noise = [change for answer in next(iter(engines.values())).values() for change in reference.noise(answer)]
    return {
        "engines": {
            name: {
                "answers": len(answers),
                **{what: sum(answer[what] for answer in answers.values()) for what in ("valid", "right", "tokens")},
            }
            for name, answers in engines.items()
        },
        "pairs": pairs,
        "noise of llama.cpp": percentiles(noise, (50, 90, 100)),
    }


class Reference:
    """The model in 32 bits on transformers, and on llama.cpp, with the logits of all places of a text."""

    def __init__(self, threads: int) -> None:
        import torch
        from llama_cpp import Llama
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(threads)
        self.torch = torch
        folder = str(real_model.folder())
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.llama = Llama(str(real_model.file()), n_ctx=1024, n_threads=threads, logits_all=True, verbose=False)
        self.by_name = {task.name: task for task in tasks(300)}

    def _prompt(self, record: dict[str, Any]) -> list[int]:
        text = real_model.chat(self.by_name[record["task"]].prompt(hint=record["hint"]))
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _logits(self, ids: Sequence[int]) -> Logits:
        with self.torch.inference_mode():
            return np.asarray(self.model(self.torch.tensor([ids])).logits[0].numpy())

    def gap(self, one: dict[str, Any], other: dict[str, Any]) -> float:
        """Compare the log-probabilities of the two tokens at which answers to the same prompt part."""
        pairs = zip(one["ids"], other["ids"], strict=False)
        place, (mine, theirs) = next(pair for pair in enumerate(pairs) if pair[1][0] != pair[1][1])
        logits = self._logits([*self._prompt(one), *one["ids"][:place]])[-1]
        return abs(float(logits[mine] - logits[theirs]))

    def noise(self, record: dict[str, Any]) -> Iterator[float]:
        """By how much llama.cpp changes the difference of the two likeliest tokens, at each token of an answer."""
        prompt = self._prompt(record)
        ids = [*prompt, *record["ids"][:-1]]
        exact = self._logits(ids)[len(prompt) - 1 :]
        self.llama.reset()
        self.llama.eval(ids)
        rounded = self.llama.scores[len(prompt) - 1 : len(ids)]
        for one, other in zip(exact, rounded, strict=True):
            second, first = np.argpartition(one, -2)[-2:]
            yield abs(float((one[first] - one[second]) - (other[first] - other[second])))


def show(found: dict[str, Any]) -> str:
    """The engines, and how often the answers of two are the same."""
    engines = [
        [name, *(str(engine[what]) for what in ("answers", "valid", "right", "tokens"))]
        for name, engine in found["engines"].items()
    ]
    pairs = [
        [name, f"{pair['the same']} of {pair['answers']}", *(str(pair["gap"].get(p, "–")) for p in ("p50", "p100"))]
        for name, pair in found["pairs"].items()
    ]
    noise = ", ".join(f"{place} {value}" for place, value in found["noise of llama.cpp"].items())
    return "\n\n".join(
        [
            markdown(["", "answers", "valid", "right", "tokens"], engines),
            markdown(["", "the same", "gap where they part, p50", "at most"], pairs),
            f"noise of llama.cpp: {noise}",
        ]
    )
