"""A sample of `scripts/misuse_llama_cpp.py`: random misuses on the real engine, in a process that must live."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("llama_cpp", "gguf", "tokenizers"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]


def test_misuses_raise_errors_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "misuse_llama_cpp.py"), "--count", "33", "--interruptions", "12"]
    output = tmp_path / "misuses.json"
    done = subprocess.run([*command, "--output", str(output)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(output.read_text())
    assert sum(sum(found.values()) for found in outcomes.values()) == 33
    for name, found in outcomes.items():
        assert not [outcome for outcome in found if outcome.startswith("wrong")], (name, found)
    # Two threads may have the processor one after the other, a second call in one thread begins a new output, and
    # what is cancelled may be complete.
    allowed = ("two_threads", "reused", "cancelled")
    assert all("right" not in found for name, found in outcomes.items() if name not in allowed)
