"""Random walks through real schemas in canonical spelling: none may leave what a careful writer writes.

    python scripts/walk_canonically.py --schemas 200 --walks 10 --output canonical_walks.json

`tests/core/canonical_json.py` recognises what careful writers write. Each text must also be one of `spelling="any"`,
with the same value. Fails where one is not, and prints it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from benchmarks.data import read_cases
from tests.core.canonical_walks import walk_schemas
from tests.core.random_schemas import random_case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--walks", type=int, default=10, help="through each schema")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="random schemas in place of real ones")
    parser.add_argument("--output", type=Path, help="a JSON file for the summary")
    options = parser.parse_args()
    real = [] if options.random else [(case["id"], case["schema"]) for case in read_cases()]
    if not real:
        print("random schemas: there are no real ones, or none are wanted")
    random.Random(options.seed).shuffle(real)
    cases = iter(real) if real else ((str(seed), random_case(seed)[0]) for seed in range(10 * options.schemas))
    found = walk_schemas(cases, options.schemas, options.walks, options.seed)
    if options.output:
        options.output.write_text(json.dumps(vars(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for fault in found.faults:
        print(json.dumps(fault, ensure_ascii=False))
    print(
        f"{found.walks} walks of {found.bytes} bytes through {found.schemas} schemas, "
        f"{found.refused.total()} refused, {len(found.faults)} faults"
    )
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
