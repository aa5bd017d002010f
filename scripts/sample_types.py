#!/usr/bin/env python3
"""Documents sampled from the masks of every public type of pydantic: how many have a value, and why the others do not.

python3.11 dev.py run dev scripts/sample_types.py --documents 200 --output types.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.core.type_samples import LISTED, REFUSED, Outcome, outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="types by name; all where none is given")
    parser.add_argument("--documents", type=int, default=200, help="documents of each type (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    found = outcomes(options.documents, options.seed, options.names)
    judged = {name: outcome for name, outcome in found.items() if isinstance(outcome, Outcome)}
    unlisted = sorted(name for name, outcome in judged.items() if outcome.refused and name not in LISTED)
    report = {
        "documents": options.documents,
        "seed": options.seed,
        "types": len(found),
        "made": sum(outcome.made for outcome in judged.values()),
        "unfinished": sum(outcome.unfinished for outcome in judged.values()),
        "refused": {name: len(outcome.refused) for name, outcome in judged.items() if outcome.refused},
        "refused without being listed": unlisted,
        "not compiled": {name: outcome for name, outcome in found.items() if isinstance(outcome, str)},
        "outcomes": {name: dataclasses.asdict(outcome) for name, outcome in judged.items()},
    }
    text = json.dumps(report, indent=1, ensure_ascii=False)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")
    return int(bool(unlisted) or not report["not compiled"].keys() <= REFUSED)


if __name__ == "__main__":
    sys.exit(main())
