"""Every answer of a grammar engine against the oracle, on random grammars: must be equal, and the grammars hard.

    python scripts/compare_engines.py native kbnf --grammars 2000
    python scripts/compare_engines.py native --grammars 20000 --first 100000 --large 1000

Fails where an engine differs, where it refuses more than its share, and where the grammars are easier than promised.
"""

from __future__ import annotations

import argparse
import logging
import sys

from formatter_core.engine import choose_engine
from formatter_core.testing.compare import Report, compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import large_vocabulary

#: The smallest share of the grammars that have each trait.
HARD = {"recursive": 0.30, "ambiguous": 0.20, "empty": 0.20, "cyclic or useless": 0.10}
MASKS = 6
#: So many grammars share a large vocabulary, and what an engine keeps for it.
SHARED = 250
#: The largest share of the grammars that an engine may refuse.
REFUSED = {"native": 0.0, "kbnf": 0.15}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", choices=sorted(REFUSED))
    parser.add_argument("--grammars", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--large", type=int, default=0, help="so many grammars more, with vocabularies of some thousands"
    )
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = []
    for engine in options.engines:
        seeds = range(options.first, options.first + options.grammars)
        report = compare(OracleEngine(), choose_engine(engine), seeds)
        print(f"{engine}: {report.summary()}", flush=True)
        for difference in report.differences:
            print(difference, flush=True)
        faults += [f"{engine}: {fault}" for fault in judge(engine, report)]
        for first in range(options.first, options.first + options.large, SHARED):
            few = range(first, min(first + SHARED, options.first + options.large))
            vocabulary = large_vocabulary(first, words=3000)
            report = compare(OracleEngine(), choose_engine(engine), few, walks=1, vocabulary=vocabulary)
            faults += [f"{engine}, large vocabulary: {difference}" for difference in report.differences]
            print(f"{engine}, {len(vocabulary)} tokens: {report.summary()}", flush=True)
    print("\n".join(faults) or "all equal")
    return 1 if faults else 0


def judge(engine: str, report: Report) -> list[str]:
    """What is wrong with a report."""
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
