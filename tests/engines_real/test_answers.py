"""A pretrained model from a package writes answers in formats, through llama.cpp and transformers.

How many answers are right is recorded, not judged: that is the model's business.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from benchmarks.answer_engines import OUR_OPTIONS, TransformersModel, Written, our_format
from benchmarks.answer_tasks import Task, tasks
from benchmarks.answers import judge
from examples import real_model
from formatter_llama_cpp import create_logits_processor
from tests.pages import ROOT, run_page

llama_cpp = pytest.importorskip("llama_cpp")

TOKENS = 120
#: For each of these, how often it is wrong in the answers of the test.
FAULTS = ("escapes", "numbers", "blanks")


@pytest.fixture(scope="module")
def llama() -> Iterator[Any]:
    try:
        path = real_model.file()
    except real_model.NoModelError as error:
        pytest.skip(str(error))
    model = llama_cpp.Llama(str(path), n_ctx=1024, n_threads=1, verbose=False)
    yield model
    model.close()


class Write(Protocol):
    """Writes the greedy answer to a task, complete within its tokens if it has a budget."""

    def __call__(self, task: Task, hint: bool, *, has_budget: bool = False) -> Written: ...


@pytest.fixture(scope="module")
def write(llama: Any) -> Write:
    def written(task: Task, hint: bool, *, has_budget: bool = False) -> Written:
        prompt = real_model.chat(task.prompt(hint=hint))
        budget = TOKENS if has_budget else None
        with create_logits_processor(llama, our_format(task), max_tokens=budget) as processor:
            output = llama.create_completion(
                llama.tokenize(prompt.encode(), add_bos=False, special=True),
                max_tokens=TOKENS,
                temperature=0.0,
                logits_processor=processor,
            )
        result = processor.result(output)
        return Written(result.text, result.ended == "end", len(result.tokens), 0, 0.0)

    return written


def test_answers_of_forty_tasks(write: Write, record_property: Callable[[str, object], None]) -> None:
    """All that end are valid. A model that repeats itself may not end, but with a budget it does."""
    counts: Counter[str] = Counter()
    for number, task in enumerate(tasks(40)):
        hint = number % 2 == 0
        answer = write(task, hint)
        found = judge(task, answer)
        counts.update(what for what, is_so in found.items() if is_so is True)
        assert found["valid"] == answer.ended, answer.text
        if not answer.ended:
            counts["cut"] += 1
            assert judge(task, write(task, hint, has_budget=True))["valid"]
    for what, count in counts.items():
        record_property(what, count)
    assert counts["cut"] <= 2
    assert [counts[what] for what in FAULTS] == [0, 0, 0]


def test_transformers_gives_the_same_greedy_answers(write: Write) -> None:
    """Weights are rounded alike, but sums are not: where two tokens are nearly as likely, the engines may part."""
    pytest.importorskip("torch")
    asked = tasks(6)
    model = TransformersModel(str(real_model.folder()))
    prompts = [real_model.chat(task.prompt(hint=True)) for task in asked]
    assert "formatter-core" in OUR_OPTIONS
    found = list(model.write("formatter-core", asked, prompts, None, 60))
    assert all(judge(task, answer)["valid"] for task, answer in zip(asked, found, strict=True) if answer.ended)
    same = sum(write(task, True).text == answer.text for task, answer in zip(asked, found, strict=True))
    assert same >= len(asked) - 2


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_first_programs_print_what_they_say(page: str, llama: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(ROOT / page)
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"# (Person\(.*\))$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert said
    assert [value for value in said if value not in printed] == []
