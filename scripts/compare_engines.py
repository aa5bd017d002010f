"""Compare every answer of a grammar engine with the oracle, on random grammars, which must be hard.

    python scripts/compare_engines.py native kbnf --grammars 2000
    python scripts/compare_engines.py native --grammars 20000 --first 100000 --large 1000
    python scripts/compare_engines.py written-gbnf written-kbnf --grammars 2000 --json OUT.json

The last two are the native engine on each grammar written in a notation and read back; llama.cpp takes no left
recursion, so most random grammars cannot be written in GBNF.

Fails where an engine differs, where it refuses more than its share, and where the grammars are easier than promised.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
from pathlib import Path
from typing import Any

from formatter_core.engine import choose_engine
from formatter_core.engine.protocol import GrammarEngine
from formatter_core.testing.compare import Report, compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import large_vocabulary
from scripts.compare_budgets import compare_budgets
from scripts.read_back import read_back_gbnf, read_back_kbnf

#: The smallest share of the grammars that have each trait.
HARD = {"recursive": 0.30, "ambiguous": 0.20, "empty": 0.20, "cyclic or useless": 0.10}
MASKS = 6
#: This many grammars share a large vocabulary, and what an engine keeps for it.
SHARED = 250
#: The largest share of the grammars that an engine may refuse.
REFUSED = {"native": 0.0, "kbnf": 0.15, "written-gbnf": 0.85, "written-kbnf": 0.2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", choices=sorted(REFUSED))
    parser.add_argument("--grammars", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--large", type=int, default=0, help="this many grammars more, with vocabularies of some thousands"
    )
    parser.add_argument("--json", type=Path, help="where to write what was compared")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = []
    found: dict[str, dict[str, Any]] = {}
    for engine in options.engines:
        seeds = range(options.first, options.first + options.grammars)
        report = compare(OracleEngine(), engine_called(engine), seeds)
        found[engine] = {
            "grammars": report.grammars, "masks": report.masks, "captures": report.captures,
            "refusals": report.refusals, "differences": len(report.differences),
        }  # fmt: skip
        print(f"{engine}: {report.summary()}", flush=True)
        for difference in report.differences:
            print(difference, flush=True)
        faults += [f"{engine}: {fault}" for fault in judge(engine, report)]
        if engine == "native":
            budgets = compare_budgets(engine_called(engine), seeds[::5])  # each costs a search through all tokens
            found[engine]["budgets"] = dataclasses.asdict(budgets)
            print(budgets.summary(), flush=True)
            faults += budgets.differences
            regions = compare_budgets(engine_called(engine), seeds[::10], regions=True)
            found[engine]["budgets of parts"] = dataclasses.asdict(regions)
            print(regions.summary(), flush=True)
            faults += regions.differences
            values = compare_budgets(engine_called(engine), seeds[::10], values=True)
            found[engine]["budgets of values"] = dataclasses.asdict(values)
            print(values.summary(), flush=True)
            faults += values.differences
        for first in range(options.first, options.first + options.large, SHARED):
            few = range(first, min(first + SHARED, options.first + options.large))
            vocabulary = large_vocabulary(first, words=3000)
            report = compare(OracleEngine(), engine_called(engine), few, walks=1, vocabulary=vocabulary)
            faults += [f"{engine}, large vocabulary: {difference}" for difference in report.differences]
            print(f"{engine}, {len(vocabulary)} tokens: {report.summary()}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print("\n".join(faults) or "all equal")
    return 1 if faults else 0


def engine_called(name: str) -> GrammarEngine:
    """Return a grammar engine, or the native one behind a notation."""
    if name == "written-gbnf":
        return read_back_gbnf(choose_engine("native"))
    if name == "written-kbnf":
        return read_back_kbnf(choose_engine("native"))
    return choose_engine("native" if name == "native" else "kbnf")


def judge(engine: str, report: Report) -> list[str]:
    """List what is wrong with a report."""
    faults = [f"only {report.share(trait):.0%} {trait}" for trait, least in HARD.items() if report.share(trait) < least]
    if report.masks < MASKS * report.grammars:
        faults.append("too few masks a grammar")
    if report.captures < report.grammars:
        faults.append("too few captures")
    if report.refusals.total() > REFUSED[engine] * report.cases:
        faults.append("too many grammars refused")
    if report.differences:
        faults.append(f"{len(report.differences)} differences")
    return faults


if __name__ == "__main__":
    sys.exit(main())
