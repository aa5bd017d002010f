"""Compare short answers alone, and at the end of a sentence that the format begins with.

    python3.11 dev.py bench answers_lead_in

A chat model rarely begins an answer with the bare value: it writes "The phone number is 523-1758." A format of the
value alone takes these words from it. The same questions of `answer_tasks.py` are asked with the value alone, and with
words before it as part of the format: `builder.append("The phone number is ", builder.regex(…))`. They are forced, so
they take tokens, but no choices.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.answer_engines import LlamaModel, guide_of
from benchmarks.answer_tasks import Task, tasks
from benchmarks.harness import markdown
from examples import real_model
from formatter_core import Compiler, FormatterBuilder

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--tasks": {"type": int, "default": 300, "help": "the first of the tasks; those with a short answer are asked"},
    "--threads": {"type": int, "default": 1},
}
SMOKE = {"tasks": 14}
#: By kind, a sentence that ends with the answer; `{}` is what the question is about.
SENTENCES = {
    "choice": "The capital of {} is ",
    "classification": "The sentiment is ",
    "number": "The number of legs is ",
    "regex": "The phone number is ",
}
LEAD_INS = ("", "Answer: ", "The answer is ", "a sentence")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """By kind and words before the answer: how many answers are right, and their tokens."""
    model = LlamaModel(str(real_model.file()), options.threads)
    compiler = Compiler(model.vocabulary)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for task in tasks(300)[: options.tasks]:
        if task.kind not in SENTENCES:
            continue
        subject = re.search(r"of ([A-Z]\w+)", task.request)
        sentence = SENTENCES[task.kind].format(subject[1] if subject else "")
        words = [sentence if lead_in == LEAD_INS[-1] else lead_in for lead_in in LEAD_INS]
        guides = [guide_of(compiler, format_of(task, each)) for each in words]
        written = model.answers(real_model.chat(task.request), [(guide, None) for guide in guides], 40)
        for lead_in, before, answer in zip(LEAD_INS, words, written, strict=True):
            counts = found.setdefault(task.kind, {}).setdefault(lead_in, {"answers": 0, "right": 0, "tokens": 0})
            counts["answers"] += 1
            counts["right"] += answer.ended and answer.text == before + answer_of(task)
            counts["tokens"] += answer.tokens
    return {"kinds": found}


def format_of(task: Task, before: str) -> FormatterBuilder:
    """The words, and one of the task's values."""
    builder = FormatterBuilder()
    if task.kind == "classification":
        value = builder.choice(["positive", "negative"], name="answer")
    elif task.kind == "choice":
        value = builder.choice(list(task.parts[0].options), name="answer")
    else:
        value = builder.regex("[0-9]{1,3}" if task.kind == "number" else task.regex(), name="answer")
    return builder.append(before, value) if before else builder.append(value)


def answer_of(task: Task) -> str:
    """The right value as text."""
    if isinstance(task.answer, dict):
        return str(task.answer["sentiment"])
    return "-".join(task.answer) if isinstance(task.answer, tuple) else str(task.answer)


def show(found: dict[str, Any]) -> str:
    """Right answers of all, by kind and words before the answer."""

    def cells(kind: dict[str, Any]) -> Iterator[str]:
        for counts in kind.values():
            yield f"{counts['right']} of {counts['answers']}, {counts['tokens']} tokens"

    head = ["right", *(f'"{lead_in}"' if lead_in.endswith(" ") else lead_in or "alone" for lead_in in LEAD_INS)]
    return markdown(head, [[kind, *cells(counts)] for kind, counts in found["kinds"].items()])
