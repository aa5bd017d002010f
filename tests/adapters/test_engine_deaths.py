"""The tests with real engines report an engine that a signal ended in one line, and end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines_real.vllm_processes import ROOT, EngineDied, environment, run_python

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

DIE = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
#: The process that dies is one that a process of ours started, and what started it goes on.
DIE_BELOW = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DIE!r}])"

TESTS = """
import pytest
from tests.engines_real.vllm_processes import signal_in

class Server:
    log = "a page of what it did\\n" * 200

    def death(self):
        return signal_in(self.log)

@pytest.fixture(scope="module")
def server():
    return Server()

@pytest.fixture
def client(server):
    return server

def test_that_passes(client):
    pass

@pytest.mark.parametrize("number", range(16))
def test_that_asks_a_server_whose_engine_is_gone(client, number):
    client.log += "Fatal Python error: Illegal instruction\\n\\nThread 0x1 (most recent call first):\\n" * 20
    raise ConnectionError("a page of what the client saw\\n" * 200)
"""


@pytest.mark.parametrize("code", [DIE, DIE_BELOW])
def test_a_process_that_a_signal_ends_is_named_by_the_signal(code) -> None:
    with pytest.raises(EngineDied, match="died of a signal: Illegal instruction"):
        run_python(["-c", code], environment(), 60)


def test_a_suite_whose_engine_died_says_so_in_one_line_and_ends(tmp_path) -> None:
    (tmp_path / "test_dead.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.engines_real.conftest", "test_dead.py"]
    shown = subprocess.run(
        words, cwd=tmp_path, env=with_path(tmp_path), check=False, capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 1, shown.stdout
    assert "1 failed, 1 passed" in shown.stdout
    assert "vLLM died of a signal: Illegal instruction" in shown.stdout
    assert len(shown.stdout.splitlines()) < 15, shown.stdout


def with_path(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations"), str(folder)])}
