"""The page of benchmarks is written from their JSON, and pictures say what they show."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.harness import framed
from scripts import benchmark_page
from tests.sampling import sampled

IMAGES = benchmark_page.PAGE.parent / "images"


def test_the_page_has_a_section_with_the_figures_of_each_file() -> None:
    _, *parts = re.split(r"^## (\w+)\n\n", benchmark_page.page(), flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(sections) == benchmark_page.benchmarks()
    for name, figures in sections.items():
        assert len(re.findall(r"\d", figures)) > 5, name


def test_answers_on_the_page_are_those_of_the_benchmark() -> None:
    page = (benchmark_page.PAGE.parent / "decisions" / "five-answers.md").read_text(encoding="utf-8")
    found = json.loads((benchmark_page.RESULTS / "answers.json").read_text(encoding="utf-8"))["greedy answers"]
    blocks = re.findall(r"^\*\*(.+?)\*\*.*?^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for name, block in blocks:
        shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in block.splitlines())
        assert shown == {engine: json.dumps(found[name][engine], ensure_ascii=False) for engine in shown}


PICTURES = [name for name in benchmark_page.benchmarks() if (IMAGES / f"{name}.png").exists()]


@pytest.mark.parametrize("name", sampled(PICTURES, 3))
def test_a_picture_has_a_title_and_names_the_machine(name: str) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    benchmark = benchmark_page.benchmark_of(name)
    pyplot.switch_backend("Agg")
    found = json.loads((benchmark_page.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    words = [text.get_text() for text in framed(pyplot, benchmark, found).texts]
    pyplot.close("all")
    assert words == [benchmark.TITLE, f"measured on {found['machine']}"]
