"""Compare many random cases with a reference or another judge; fail where one differs.

    python3.11 dev.py run dev scripts/compare_random.py parsers --cases 20000 --output parsers.json

- `parsers`: the native parser with the reference parser, on random texts of random grammars;
- `members`: the same with lists of members in every grammar;
- `schemas`: random schemas that count with `jsonschema`; a refusal is allowed, a wrong answer is not
  (`tests/core/random_schemas.py`);
- `unique`: random schemas that need memory with `jsonschema` (`compare_unique.py`);
- `damaged`: damaged bytes of compiled formats, which are an error of ours each; with a check sum that fits, they may be
  a format (`damage_formats.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.compare_parsers import compare_parses
from scripts.compare_unique import compare_schemas
from scripts.damage_formats import damage_formats
from tests.core.random_schemas import compare
from tests.core.schema_judge import Judge


def damaged(seeds: range) -> dict[str, Any]:
    """Read so many inputs of each kind of damage."""
    reports = {kind: damage_formats(len(seeds), seeds.start, fitting=kind == "fitting") for kind in ("any", "fitting")}
    wrong = [other for report in reports.values() for other in report.others]
    taken = [f"{reports['any'].formats} damaged inputs were read"] if reports["any"].formats else []
    return {**{kind: asdict(report) for kind, report in reports.items()}, "differences": [*wrong, *taken]}


#: For the seeds of the cases, a report whose `differences` are empty if all is right.
KINDS: dict[str, Callable[[range], dict[str, Any]]] = {
    "parsers": lambda seeds: asdict(compare_parses(seeds)),
    "members": lambda seeds: asdict(compare_parses(seeds, ("members", "captures"))),
    "schemas": lambda seeds: vars(compare(seeds, Judge)),
    "unique": compare_schemas,
    "damaged": damaged,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--output", type=Path, help="a JSON file for the report")
    options = parser.parse_args()
    report = KINDS[options.kind](range(options.first, options.first + options.cases))
    text = json.dumps({"first": options.first, "cases": options.cases, **report}, indent=1, ensure_ascii=False)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if report["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
