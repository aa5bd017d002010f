"""The Rust toolchain that builds the native library: the machine's own, or one that is brought for the build.

Only the standard library is imported here, because `dev.py` and the build backend begin with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess

__all__ = ["BRINGS_RUST", "NO_RUST", "OLDEST", "is_there"]

#: The oldest release that builds the crate; its manifest says the same.
OLDEST = (1, 75)
#: The package that installs Rust into its own folder in the user's cache, as builds with maturin do.
BRINGS_RUST = "puccinialin>=0.1.14,<0.2"
#: Says what helps where there is no toolchain and none can be had.
NO_RUST = """\
The native library of formatter-core is built with Rust 1.75 or newer. Either of these helps:
  curl -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal  # or your system's packages: cargo, rustc
  pip install formatter_core-VERSION-py3-none-PLATFORM.whl        # a wheel that `dev.py wheel` makes where Rust is"""


def is_there() -> bool:
    """Tell whether cargo and rustc are on PATH and new enough."""
    return all(_version_of(program) >= OLDEST for program in ("cargo", "rustc"))


def _version_of(program: str) -> tuple[int, int]:
    """Return the first two numbers of a program's version; zeros if the program is missing or does not run."""
    path = shutil.which(program)
    if path is None:
        return 0, 0
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    found = re.match(r"\w+ (\d+)\.(\d+)", asked.stdout)
    return (0, 0) if asked.returncode or found is None else (int(found[1]), int(found[2]))
