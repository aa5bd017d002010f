"""The benchmark of answers: what it counts as valid and right, and what it keeps of a run that was interrupted."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import answers
from benchmarks.answer_engines import Written
from benchmarks.answer_tasks import KINDS, Part, Task, tasks

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 40}, "count": {"type": "integer"}},
    "required": ["city", "count"],
    "additionalProperties": False,
}
TASK = Task("flat 1", "flat", "Where, and how many?", {"city": "Oslo", "count": 3}, CITY)
CODE = Task(
    "regex 1", "regex", "Which code?", ("12",), None, (Part(characters="0-9", least=2, most=2, is_answer=True),)
)


def judged(task: Task, text: str, ended: bool = True) -> dict[str, Any]:
    return answers.judge(task, Written(text, ended, 10, 10, 0.0))


@pytest.mark.parametrize(
    ("text", "valid", "right"),
    [
        ('{"city": "Oslo", "count": 3}', True, True),
        ('{"city": " oslo ", "count": 3}', True, True),
        ('{"city": "Rome", "count": 3}', True, False),
        ('{"city": "Oslo", "count": true}', False, False),
        ('{"city": "Oslo", "count": 3} ', True, True),
        ('{"city": "Oslo"', False, False),
        ('```json\n{"city": "Oslo", "count": 3}\n```', False, False),
    ],
)
def test_valid_and_right(text: str, valid: bool, right: bool) -> None:
    found = judged(TASK, text)
    assert (found["valid"], found["right"]) == (valid, right)


def test_an_answer_that_did_not_end_is_not_valid() -> None:
    assert not judged(TASK, '{"city": "Oslo", "count": 3}', ended=False)["valid"]
    assert judged(CODE, "12")["right"]
    assert not judged(CODE, "12", ended=False)["valid"]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('{"city": "\\u004fslo", "count": 3}', {"escapes"}),
        ('{"city": "a \\"b\\" \\n", "count": 3}', set()),
        ('{"city": "Oslo", "count": 3.0}', {"numbers"}),
        ('{"city": "Oslo" , "count": 3}', {"blanks"}),
        ('{"city": "Oslo :  , x", "count": 3}', set()),
        ('{\n  "city": "Oslo",\n  "count": 3\n}', set()),
    ],
)
def test_faults(text: str, faults: set[str]) -> None:
    assert {what for what, is_so in answers.faults(TASK, text).items() if is_so} == faults


@pytest.mark.parametrize(
    ("task", "text", "part"),
    [
        (TASK, 'Sure: ```json\n{"city": "Oslo", "count": 3}\n``` {}', '{"city": "Oslo", "count": 3}'),
        (TASK, "I {do} not {know", "I {do} not {know"),
        (CODE, "It is 12, or 13.", "12"),
        (Task("number 1", "number", "?", 8, {"type": "integer"}), "It has 8 legs.", "8"),
    ],
)
def test_the_first_part_that_fits_is_cut_out(task: Task, text: str, part: str) -> None:
    assert answers.first_fitting(task, text) == part


def test_sign_test() -> None:
    assert answers.sign_test(0, 0) == 1
    assert answers.sign_test(3, 3) == 1
    assert answers.sign_test(0, 5) == pytest.approx(2 / 32)


def test_there_are_300_tasks_of_all_kinds() -> None:
    found = tasks(300)
    assert len({task.name for task in found}) == 300
    assert {task.kind for task in tasks(len(KINDS))} == set(KINDS)


def test_an_interrupted_run_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    class Model:
        def __init__(self, *_: object) -> None:
            pass

        def write(self, name: str, tasks: list[Task], prompts: list[str], seed: int | None, most: int) -> Any:
            for task, prompt in zip(tasks, prompts, strict=True):
                asked.append((task.name, "schema" in prompt))
                yield Written("", False, most, most, 0.0)

    monkeypatch.setitem(answers.ADAPTERS, "transformers", Model)
    path = tmp_path / "answers.jsonl"
    options = argparse.Namespace(
        **{option[2:]: settings.get("default") for option, settings in answers.OPTIONS.items()}
    )
    vars(options).update(tasks=2, samples=0, schemas=True, engines=["formatter-core"], through="transformers")
    vars(options).update(answers=path, model="none")
    whole = answers.measure(options)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(asked) == 4
    path.write_text("\n".join([*lines[:2], lines[2][:20]]), encoding="utf-8")
    asked.clear()
    assert answers.measure(options) == whole
    assert len(asked) == 2
    assert sorted(path.read_text(encoding="utf-8").splitlines()) == sorted(lines)
    assert [json.loads(line)["engine"] for line in lines] == ["formatter-core"] * 4
