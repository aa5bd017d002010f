"""The page about llama.cpp and the examples run on llama-cpp-python itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="the small model is written with the gguf package")

from tests.pages import ROOT, run_page


def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_page(ROOT / "docs" / "llama_cpp.md")


@pytest.mark.parametrize("name", ["llama_cpp_chat", "llama_cpp_drafts"])
def test_the_examples_run(name: str) -> None:
    pytest.importorskip("pydantic", reason="the examples make instances of a Pydantic model")
    sources = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": sources},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "pilot" in run.stdout
