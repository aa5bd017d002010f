"""Random schemas that count, judged by the `jsonschema` package: a refusal is allowed, a wrong answer is not.

    python scripts/compare_schemas.py --schemas 5000 --first 0 --output differences.json

Fails where a document is accepted or rejected wrongly. `tests/core/random_schemas.py` says what the schemas are like.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.core.random_schemas import compare
from tests.core.schema_judge import Judge


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--output", type=Path, help="a JSON file for the whole report")
    options = parser.parse_args()
    report = compare(range(options.first, options.first + options.schemas), Judge)
    if options.output:
        options.output.write_text(json.dumps(vars(report), indent=1) + "\n", encoding="utf-8")
    for difference in report.differences:
        print(json.dumps(difference))
    print(
        f"{report.schemas} schemas, {report.documents} documents, {report.valid} of them valid, "
        f"{report.refused.total()} schemas refused, {len(report.differences)} differences"
    )
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
