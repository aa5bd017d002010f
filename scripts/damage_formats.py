"""Damaged bytes of compiled formats: each is a clear error, or, where its check sum was made to fit, may be a format.

python scripts/damage_formats.py --inputs 10000 --out damaged.json
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from formatter_core.testing.damage import damage_formats


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file for the report")
    options = parser.parse_args()
    reports = {
        "damaged": damage_formats(options.inputs, options.seed, fitting=False),
        "with a check sum that fits": damage_formats(options.inputs, options.seed, fitting=True),
    }
    text = json.dumps({"seed": options.seed, **{name: asdict(report) for name, report in reports.items()}}, indent=1)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if any(report.others for report in reports.values()) or reports["damaged"].formats else 0


if __name__ == "__main__":
    sys.exit(main())
