#!/usr/bin/env python3
"""Unpack further releases of ExLlamaV3 into an environment, beside the one that is installed there.

    python scripts/unpack_exllamav3.py --cache FOLDER --python ENVIRONMENT/bin/python

Each lies in a folder of its own, `ENVIRONMENT/releases/exllamav3-VERSION`, to be put in front of the path of a process.
Their wheels hold sources only, a megabyte or less; what they depend on is not installed, for the tests do without it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: The first with filters; the first whose filters follow drafts; the last with dense masks; the first with packed ones.
RELEASES = ("0.0.5", "0.0.32", "1.4.0", "1.4.1")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cache", type=Path, help="not needed: pip keeps the wheels")
    parser.add_argument("--python", type=Path, required=True, help="the interpreter of the environment")
    options = parser.parse_args(arguments)
    folder = options.python.parent.parent / "releases"
    for release in RELEASES:
        words = ["--no-deps", "--target", str(folder / f"exllamav3-{release}"), f"exllamav3=={release}"]
        done = subprocess.run([str(options.python), "-m", "pip", "install", "--quiet", *words], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
