#!/usr/bin/env python3
"""Write docs/benchmarks.md from the JSON in benchmarks/results, so that no figure of it is typed by hand.

    python3.11 dev.py run dev scripts/benchmark_page.py

`dev.py site` calls it before it builds the site; the page is not kept in the repository. A section is what the
benchmark prints for its file (`show`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

Each section is what one benchmark prints for its file in `benchmarks/results`. A number after ≤ or ≥ is a target, and
`MISSED` marks a figure that misses it. `benchmarks/README.md` says how to run a benchmark and how speeds are compared.
"""
#: Modules of inference engines that two benchmarks import; `show` needs none of them.
ENGINES = {
    "mlx_loops": ("mlx", "mlx.core", "mlx.utils", "mlx_lm", "mlx_lm.generate", "mlx_lm.models", "formatter_mlx",
                  "formatter_mlx.masks"),
    "llama_cpp": ("llama_cpp", "formatter_llama_cpp", "tests.engines_real.llama_cpp_models"),
}  # fmt: skip


def benchmark_of(name: str) -> ModuleType:
    """Import a benchmark, with stand-ins for an inference engine that is not installed here."""
    absent: tuple[str, ...] = ENGINES.get(name, ())
    if not absent or importlib.util.find_spec(absent[0]) is not None:
        return importlib.import_module(f"benchmarks.{name}")
    sys.modules.update({each: MagicMock() for each in absent})
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        for each in absent:
            del sys.modules[each]


def section(name: str) -> str:
    """Write what the page says of one file."""
    benchmark = benchmark_of(name)
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    title = str(benchmark.__doc__).split("\n", 1)[0].rstrip(".")
    picture = f"![{title}](images/{name}.png)\n\n" if (ROOT / "docs" / "images" / f"{name}.png").is_file() else ""
    shown = re.sub(r"^#", "###", benchmark.show(found).strip(), flags=re.M)
    parts = shown.split("\n\n")
    text = "\n\n".join(map(as_list, parts)) if "\n|" in shown else f"```text\n{shown}\n```"
    return f"## {name}\n\n{title}.\n\n{picture}{text}\n"


def as_list(part: str) -> str:
    """Turn lines into list items, as Markdown would join them; a first line that ends with `:` introduces them."""
    lines = part.split("\n")
    if len(lines) < 2 or part.startswith(("|", "#")):
        return part
    head = [lines.pop(0), ""] if lines[0].endswith(":") and not lines[1].startswith("|") else []
    return "\n".join([*head, *(line if line.startswith("|") else f"- {line}" for line in lines)])


def benchmarks() -> list[str]:
    """List the benchmarks that have a file."""
    return sorted(path.stem for path in RESULTS.glob("*.json") if (ROOT / "benchmarks" / f"{path.stem}.py").is_file())


def page() -> str:
    """Write the whole page."""
    return "\n".join([INTRODUCTION, *map(section, benchmarks())])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
