"""Nothing is written outside of a row, whatever is asked: rows lie beside memory that nobody may touch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are protected by Linux's mprotect"),
]


def run(what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.core.guarded_rows", what]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_random_calls_write_inside_their_rows() -> None:
    done = run("600")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["done"] > 100
    assert counts["refused"] > 100


def test_a_write_past_a_row_is_noticed() -> None:
    assert run("past").returncode == -signal.SIGSEGV
