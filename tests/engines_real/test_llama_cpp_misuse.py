"""A sample of `llama_cpp_misuses.py`: random misuses on the real engine, in a process that must live."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("llama_cpp", "gguf", "tokenizers"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]


def test_misuses_raise_errors_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.engines_real.llama_cpp_misuses", "--count", "33", "--interruptions", "12"]
    output = tmp_path / "misuses.json"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")])}
    done = subprocess.run([*command, str(output)], capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(output.read_text())
    assert sum(sum(found.values()) for found in outcomes.values()) == 33
    for name, found in outcomes.items():
        assert not [outcome for outcome in found if outcome.startswith("wrong")], (name, found)
    # Two threads may have the processor one after the other, a second call in one thread begins a new output, and
    # what is cancelled may be complete.
    allowed = ("two_threads", "reused", "cancelled")
    assert all("right" not in found for name, found in outcomes.items() if name not in allowed)
