"""Wherever a call meets a limit, it raises `LimitExceeded`, and the process goes on: see `limits_anywhere`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from building.processes import ROOT
from building.variants import build_variant, copy_package
from dev import cache_folder

from .limits_anywhere import FORMATS

pytestmark = pytest.mark.skipif(
    shutil.which("cargo") is None, reason="cargo is not there, which builds the library that counts"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    copy_package(build_variant(cache_folder(), features=["count-allocations"]), folder)
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_a_limit_anywhere_ends_the_call_alone(name: str, package: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])}
    words = [sys.executable, "-m", "tests.soak.limits_anywhere", name]
    done = subprocess.run(words, cwd=package, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "met a limit" in done.stdout
