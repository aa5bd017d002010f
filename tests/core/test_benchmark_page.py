"""The page of benchmarks says what their JSON says."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from benchmarks.harness import framed
from scripts import benchmark_page

IMAGES = benchmark_page.PAGE.parent / "images"
PAGE = benchmark_page.written(benchmark_page.PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", benchmark_page.benchmarks())
def test_a_section_is_what_the_benchmark_prints(name: str) -> None:
    section = benchmark_page.section(name)
    if section is None:
        pytest.skip(f"benchmarks/{name}.py cannot be imported here")
    assert PAGE[name] == section, "run scripts/benchmark_page.py"


def test_every_section_has_a_file() -> None:
    assert set(PAGE) == set(benchmark_page.benchmarks())


def test_answers_on_the_page_are_those_of_the_benchmark() -> None:
    page = (benchmark_page.PAGE.parent / "what_comes_out.md").read_text(encoding="utf-8")
    found = json.loads((benchmark_page.RESULTS / "answers.json").read_text(encoding="utf-8"))["greedy answers"]
    blocks = re.findall(r"^\*\*(.+?)\*\*.*?^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for name, block in blocks:
        shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in block.splitlines())
        assert shown == {engine: json.dumps(found[name][engine], ensure_ascii=False) for engine in shown}


@pytest.mark.parametrize("name", [name for name in benchmark_page.benchmarks() if (IMAGES / f"{name}.png").exists()])
def test_a_picture_has_a_title_and_names_the_machine(name: str) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    try:
        benchmark = importlib.import_module(f"benchmarks.{name}")
    except ImportError:
        pytest.skip(f"benchmarks/{name}.py cannot be imported here")
    pyplot.switch_backend("Agg")
    found = json.loads((benchmark_page.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    words = [text.get_text() for text in framed(pyplot, benchmark, found).texts]
    pyplot.close("all")
    assert words == [benchmark.TITLE, f"measured on {found['machine']}"]
