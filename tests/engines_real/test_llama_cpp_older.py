"""The tests of the processor and of parallel sequences, on releases of llama-cpp-python from before its samplers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
#: Built and kept where dev.py's environment has them.
RELEASES = sorted((Path(sys.prefix) / "releases").glob("llama-cpp-python-*"))
TESTS = [str(FOLDER / name) for name in ("test_llama_cpp.py", "test_llama_cpp_parallel.py")]
RUN = """
import pathlib, pytest, sys, llama_cpp
assert pathlib.Path(llama_cpp.__file__).is_relative_to(sys.argv[1])
sys.exit(pytest.main([*sys.argv[2:], "--tb=short"]))
"""


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_older_releases_pass_the_same_tests(release: Path) -> None:
    path = os.pathsep.join([str(release), str(ROOT), str(ROOT / "integrations")])
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(release), *TESTS],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
