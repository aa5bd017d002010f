"""Nothing is imported, called or unpickled from data, and every threat in SECURITY.md has its tests."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "SECURITY.md"
NAMED = re.compile(r"`([\w/]+\.(?:py|rs))::(\w+)`")


def test_nothing_is_imported_called_or_unpickled_from_data(tmp_path: Path) -> None:

    program = Path(__file__).with_name("hostile_data.py")
    done = subprocess.run(
        [sys.executable, str(program), "1500"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["data"] > 1000
    assert not report["events"]
    assert report["seen of a pickle"]
    assert [made.name for made in tmp_path.iterdir()] == [
        "a folder that no data can make"
    ]  # by that pickle, at the end


def test_every_threat_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
    assert len(rows) > 10
    for row in rows:
        assert NAMED.search(row), f"no test is named: {row}"
    for file, name in NAMED.findall(text):
        assert name in functions(ROOT / file), f"{file}::{name}"


def functions(file: Path) -> set[str]:
    if file.suffix == ".rs":
        return set(re.findall(r"fn (\w+)\(", file.read_text(encoding="utf-8")))
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
