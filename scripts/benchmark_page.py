#!/usr/bin/env python3
"""Write docs/benchmarks.md from the JSON in benchmarks/results, so that no figure of it is typed by hand.

    python3.11 dev.py run dev scripts/benchmark_page.py

A section is what the benchmark prints for its file (`show`). A benchmark whose inference engine is not in this
environment cannot be imported; its section stays as it is on the page.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

`scripts/benchmark_page.py` writes this page from `benchmarks/results/*.json`. Each section is what one benchmark prints
for its file. A number after ≤ or ≥ is a target, and `MISSED` marks a figure that misses it. `benchmarks/README.md` says
how to run a benchmark and how speeds are compared.
"""


def section(name: str) -> str | None:
    """What the page says of one file; None if its benchmark cannot be imported here."""
    try:
        benchmark = importlib.import_module(f"benchmarks.{name}")
    except ImportError:
        return None
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    title = str(benchmark.__doc__).split("\n", 1)[0].rstrip(".")
    picture = f"![{title}](images/{name}.png)\n\n" if (ROOT / "docs" / "images" / f"{name}.png").is_file() else ""
    shown = re.sub(r"^#", "###", benchmark.show(found).strip(), flags=re.M)
    parts = shown.split("\n\n")
    text = "\n\n".join(map(as_list, parts)) if "\n|" in shown else f"```text\n{shown}\n```"
    return f"## {name}\n\n{title}.\n\n{picture}{text}\n"


def as_list(part: str) -> str:
    """Lines of text as list items, as Markdown would join them; a first line that ends with `:` introduces them."""
    lines = part.split("\n")
    if len(lines) < 2 or part.startswith(("|", "#")):
        return part
    head = [lines.pop(0), ""] if lines[0].endswith(":") and not lines[1].startswith("|") else []
    return "\n".join([*head, *(line if line.startswith("|") else f"- {line}" for line in lines)])


def written(text: str) -> dict[str, str]:
    """The sections of a page by name."""
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in re.split(r"^## ", text, flags=re.M)[1:]}


def benchmarks() -> list[str]:
    """The benchmarks that have a file."""
    return sorted(path.stem for path in RESULTS.glob("*.json") if (ROOT / "benchmarks" / f"{path.stem}.py").is_file())


def page() -> str:
    """The whole page, from the files and, where they cannot be shown here, from the page as it is."""
    before = written(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    sections = {name: section(name) or before.get(name) for name in benchmarks()}
    return "\n".join([INTRODUCTION, *(text for text in sections.values() if text)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
