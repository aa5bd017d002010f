"""The page of benchmarks says what their JSON says."""

from __future__ import annotations

import pytest

from scripts import benchmark_page

PAGE = benchmark_page.written(benchmark_page.PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", benchmark_page.benchmarks())
def test_a_section_is_what_the_benchmark_prints(name: str) -> None:
    section = benchmark_page.section(name)
    if section is None:
        pytest.skip(f"benchmarks/{name}.py cannot be imported here")
    assert PAGE[name] == section, "run scripts/benchmark_page.py"


def test_every_section_has_a_file() -> None:
    assert set(PAGE) == set(benchmark_page.benchmarks())
