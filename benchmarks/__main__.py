"""Run one benchmark: `python3.11 dev.py bench NAME …`, in an environment that has what it needs."""

from __future__ import annotations

import importlib
import sys

from benchmarks import harness

if __name__ == "__main__":
    harness.main(importlib.import_module(f"benchmarks.{sys.argv[1]}"), sys.argv[2:])
