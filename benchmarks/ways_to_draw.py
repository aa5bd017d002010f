"""Compare ways to draw answers of a pretrained model: under a mask, faithfully, as particles, and after thinking.

    python3.11 dev.py bench ways_to_draw

The model is SmolLM2-135M-Instruct on llama.cpp, and the tasks are those of `answers.py` that have a JSON Schema, which
is in the prompt. All answers are drawn at temperature 0.8:

- *under the mask*: each token among those that are allowed;
- *faithful*: exactly from the model's own distribution over texts that begin with an output of the format, where that
  takes at most `--draws` drafts; a sample that takes more is drawn under the mask with a weight, and counts as
  *weighted*;
- *particles*: as many together as `--samples` says; their score is the share of the answer's strings and numbers that
  stand in the request. Each answer counts by its weight;
- *think first*: a sentence of at most 40 words of the model's own, then the answer.

An answer is *right* if each field that the task knows has the right value; *more right* is the difference to the
answers under the mask. *Passes* are forward passes of an answer; those that several answers share count for each.
*Masked* is the logarithm of the probability that the model gave to what was allowed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any

import jsonschema

from benchmarks.answer_tasks import Task, tasks
from benchmarks.answers import fields
from benchmarks.harness import markdown
from formatter_core import FormatterBuilder, formats
from formatter_core.generation import Faithful, Generated, Particles, ScoreSettings, completion, multinomial

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--tasks": {"type": int, "default": 66, "help": "at most; kinds take turns"},
    "--minutes": {"type": float, "help": "no further task is begun after so long"},
    "--samples": {"type": int, "default": 8, "help": "answers to each task in each way"},
    "--draws": {"type": int, "default": 20, "help": "drafts of a faithful sample at most"},
    "--most": {"type": int, "default": 120, "help": "tokens of an answer"},
}
SMOKE = {"tasks": 1, "samples": 2, "draws": 2, "most": 60}

DRAW = multinomial(temperature=0.8)
#: The way that the others are put beside.
MASKED = "under the mask"
FIGURES = ("valid", "right", "fields", "tokens", "passes", "drafts", "masked", "weighted")
THINK = r"[A-Za-z0-9,.'$ -]{1,200}\n"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    import llama_cpp

    from examples import real_model
    from formatter_llama_cpp import llama_model

    llama = llama_cpp.Llama(str(real_model.file()), n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
    model = llama_model(llama, max_sequences=2 * options.samples, context_size=8192)
    asked = [task for task in tasks(300) if task.schema is not None][: options.tasks]
    by_way: dict[str, list[dict[str, float]]] = {name: [] for name in ways(options)}
    begun, count = time.monotonic(), 0
    for task in asked:  # all ways of a task, so that what is left out is left out of all
        if options.minutes and time.monotonic() - begun > 60 * options.minutes:
            break
        for name, how in ways(options).items():
            answers = list(answers_of(model, task, real_model.chat, how, options))
            by_way[name].append({what: fmean(answer[what] for answer in answers) for what in FIGURES})
        count += 1
        print(f"{count} of {len(asked)} tasks after {time.monotonic() - begun:.0f} s", flush=True)
    found = {name: summary(means, by_way[MASKED]) for name, means in by_way.items()}
    return {"tasks": count, "samples": options.samples, "draws": options.draws, "ways": found}


def summary(means: Sequence[dict[str, float]], masked: Sequence[dict[str, float]]) -> dict[str, float]:
    """The means over tasks; of right answers also how many more there are than under the mask, with standard errors."""
    more = [own["right"] - other["right"] for own, other in zip(means, masked, strict=True)]
    return {
        **{what: round(fmean(task[what] for task in means), 3) for what in FIGURES},
        "error of right": round(standard_error([task["right"] for task in means]), 3),
        "more right": round(fmean(more), 3),
        "error of more right": round(standard_error(more), 3),
    }


def standard_error(values: Sequence[float]) -> float:
    """Of the mean."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def ways(options: argparse.Namespace) -> dict[str, Callable[[Task], dict[str, Any]]]:
    """By name, what `completion` gets for a task beside its format."""
    exact = Faithful(max_draws=options.draws, otherwise="weighted", with_end=False)
    return {
        MASKED: lambda _: {},
        "faithful": lambda _: {"faithful": exact},
        "particles": lambda task: {"particles": Particles(score=partial(grounded, task), with_end=False)},
        "think first": lambda _: {"think": True},
    }


def answers_of(
    model: Any,
    task: Task,
    chat: Callable[[str], str],
    how: Callable[[Task], dict[str, Any]],
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """Yield the answers to a task, each with its weight among them."""
    extra, schema = how(task), task.schema
    assert schema is not None
    thinks = extra.pop("think", False)
    wanted: Any = formats.json_schema(schema)
    request = task.prompt(hint=True)
    if thinks:
        builder = FormatterBuilder()
        builder.append(builder.regex(THINK))
        builder.append(builder.json(schema, name="answer"))
        wanted, request = builder, f"{request}\nThink first, in one sentence. Then write the JSON on a line of its own."
    scores = ScoreSettings(logprob=True, unmasked=True)
    write = completion(
        model, wanted, sampling=DRAW, scores=scores, max_tokens=options.most, batch=options.samples, **extra
    )
    outputs = write([chat(request)], samples=options.samples, seed=1)[0]
    for output, weight in zip(outputs, weights(outputs), strict=True):
        value = value_of(output, thinks=thinks)
        valid = value is not None and jsonschema.Draft202012Validator(schema).is_valid(value)
        total, right = fields(task.answer, value if valid else None)
        yield {
            "valid": weight * valid,
            "right": weight * (valid and right == total),
            "fields": weight * right / total,
            "tokens": len(output.tokens),
            "passes": output.passes,
            "drafts": output.draws,
            "masked": output.masked_logprob or 0.0,
            "weighted": extra.get("faithful") is not None and output.log_weight is not None,
        }


def weights(outputs: Sequence[Generated]) -> list[float]:
    """The weight of each answer, 1 in the mean."""
    logs = [output.log_weight for output in outputs]
    known = [log for log in logs if log is not None]
    most = max(known, default=0.0)
    if not known or most == -math.inf:
        return [1.0] * len(outputs)
    if len(known) < len(outputs):  # exact samples beside weighted ones
        mean = fmean(math.exp(log - most) for log in known)
        scaled = [1.0 if log is None else math.exp(log - most) / mean for log in logs]
    else:
        scaled = [math.exp(log - most) for log in known]
    total = sum(scaled)
    return [len(outputs) * each / total for each in scaled]


def grounded(task: Task, output: Generated) -> float:
    """The share of the answer's strings and numbers that stand in the request, and a little for each answer."""
    value = value_of(output, thinks=False)
    found = list(scalars(value))
    text = task.request.casefold()
    held = sum(str(each).casefold() in text for each in found)
    return 0.05 + held / len(found) if found else 0.05


def scalars(value: Any) -> Iterator[Any]:
    """Yield the strings and numbers of a value."""
    if isinstance(value, dict):
        for member in value.values():
            yield from scalars(member)
    elif isinstance(value, list):
        for member in value:
            yield from scalars(member)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield value


def value_of(output: Generated, *, thinks: bool) -> Any:
    """The value of an answer; None where it is not complete."""
    text = output.text.partition("\n")[2] if thinks else output.text
    try:
        return json.loads(text)
    except ValueError:
        return None


def show(found: dict[str, Any]) -> str:
    """A row for each way."""
    rows = [
        [
            name,
            *(f"{way[what]:.2f}" for what in FIGURES),
            f"{way['more right']:+.2f} ± {way['error of more right']:.2f}",
        ]
        for name, way in found["ways"].items()
    ]
    head = (
        f"{found['tasks']} tasks, {found['samples']} answers each; means of an answer, ± one standard error over tasks"
    )
    return f"{head}\n\n{markdown(['', *FIGURES, 'more right'], rows)}"
