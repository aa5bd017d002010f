"""The captures of the native parser beside those of the plain Python one, on random grammars: must be equal.

python scripts/compare_parsers.py --grammars 20000 --out parsers.json
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from formatter_core.testing.compare_parses import compare_parses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grammars", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--members", action="store_true", help="let every grammar have lists of members")
    parser.add_argument("--out", type=Path, help="a file for the report")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.grammars)
    report = compare_parses(seeds, ("members", "captures") if options.members else ())
    text = json.dumps({"first": options.first, **asdict(report)}, indent=1)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if report.differences or not report.with_captures else 0


if __name__ == "__main__":
    sys.exit(main())
