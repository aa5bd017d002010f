#!/usr/bin/env python3
"""Real tools in each layout: how many are enforced, why the others are not, and whether a list is ever refused whole.

python3.11 dev.py run dev scripts/survey_tools.py [LAYOUT ...] --output tools.json

The tools are those of `tools/mcp_tools_dev.jsonl` and the function-call schemas of maskbench (Glaiveai2K, BFCL), in
the folder of shared data. A tool that no layout enforces, because its schema is invalid, is counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.data import real_tools
from formatter_core import Layout, check, formats
from formatter_core.errors import FormatterError


def surveyed(layout: str, given: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the tools that a layout enforces, with the reasons for the others."""
    reasons: dict[str, str] = {}
    refused_lists = 0
    for start in range(0, len(given), 40):
        some = given[start : start + 40]
        format = formats.chat_answer(layout, tools=some, on_unsupported_tool="loose", spelling="canonical")
        try:
            check(format)
        except FormatterError as error:
            refused_lists += 1
            print(layout, start, repr(error)[:300], file=sys.stderr)
            continue
        reasons.update((each.name, each.reason) for each in format.tool_coverage() if each.status != "enforced")
    return {"tools": len(given), "not enforced": reasons, "lists refused": refused_lists}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="layouts by name; all where none is given")
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    given = real_tools("Glaiveai2K", "BFCL", servers=True)
    report = {name: surveyed(name, given) for name in options.names or Layout.names()}
    invalid = set.intersection(*(set(found["not enforced"]) for found in report.values()))
    print(f"{len(given)} tools; {len(invalid)} are enforced in no layout")
    for name, found in report.items():
        own = {tool: reason for tool, reason in found["not enforced"].items() if tool not in invalid}
        valid = len(given) - len(invalid)
        print(f"{name}: {valid - len(own)} of {valid} enforced; {found['lists refused']} lists refused")
        for tool, reason in list(own.items())[:6]:
            print("   ", tool, reason[:160])
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
