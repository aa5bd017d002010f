"""Real documents in canonical spelling: what a careful writer writes passes, and nothing that is invalid does.

    python scripts/read_canonically.py --output spelling.json --parallel 2

Each valid document of `maskbench/*.jsonl.gz` that passes with `spelling="any"` must pass with `spelling="canonical"`,
written compactly, with the blanks of `json.dumps`, and with indents of 2 and 4; raw beyond ASCII, and with escapes too
if all names and listed texts of the schema are ASCII. A document with a float for an integer, as `1.0`, is written with
the integer. Documents in another key order than the schema's are read with `key_order="any"`. Invalid documents must be
rejected in both spellings; one that is accepted counts only if the `jsonschema` package finds it invalid too. Fails
where something else happens, and prints it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import jsonschema

from benchmarks.data import read_cases
from benchmarks.harness import ChildError, in_child
from formatter_core import CompiledFormat, Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError, TokenRejected

CPU_SECONDS = 40
VOCABULARY = Vocabulary.of_bytes()
WRITINGS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "json.dumps": {},
    "indent=2": {"indent": 2},
    "indent=4": {"indent": 4},
}


def judge(case: dict[str, Any]) -> dict[str, Any]:
    """Counts of what became of one schema's documents, and the faults."""
    counts: Counter[str] = Counter()
    faults: list[dict[str, Any]] = []
    compiler = Compiler(VOCABULARY, engine="native")
    schema = case["schema"]

    @cache
    def compiled(spelling: str, key_order: str) -> CompiledFormat:
        wanted: Any = {"spelling": spelling, "key_order": key_order}
        return compiler.compile(formats.json_schema(schema, **wanted))

    def fault(what: str, text: str) -> None:
        counts[what] += 1
        if not any(one["what"] == what for one in faults):
            faults.append({"id": case["id"], "what": what, "text": text[:2000]})

    try:
        compiled("any", "schema")
    except FormatterError as error:
        return {"counts": {"refused": 1, f"refused: {type(error).__name__}": 1}, "faults": []}
    counts["schemas"] += 1
    try:
        compiled("canonical", "schema")
    except FormatterError as error:
        fault("refused canonically alone", str(error))
        return {"counts": counts, "faults": faults}
    ways = list(writings(schema))
    for test in case["tests"]:
        document = test["data"]
        text = json.dumps(document, ensure_ascii=False)
        if not test["valid"]:
            counts["invalid documents"] += 1
            for spelling in ("any", "canonical"):
                for order in ("schema", "any"):
                    if accepts(compiled(spelling, order), text) and not is_valid(schema, document):
                        fault(f"wrong accept, spelling={spelling!r}, key_order={order!r}", text)
            continue
        counts["valid documents"] += 1
        readable = next((order for order in ("schema", "any") if accepts(compiled("any", order), text)), None)
        if readable is None:
            counts["valid documents that spelling='any' rejects"] += 1
            continue
        for name, options in ways:
            counts["writings"] += 1
            if not accepts(compiled("canonical", readable), json.dumps(document, **options)):
                whole = json.dumps(with_integers(document), **options)
                if accepts(compiled("canonical", readable), whole):
                    counts["writings with an integer for a float"] += 1
                elif accepts(compiled("any", readable), json.dumps(document, **options)):
                    fault(f"wrong reject, {name}", json.dumps(document, **options))
                else:
                    counts["writings that spelling='any' rejects too"] += 1
    return {"counts": counts, "faults": faults}


def accepts(compiled: CompiledFormat, text: str) -> bool:
    """Whether a sequence takes the text and may end then."""
    formatter = compiled.formatter()
    try:
        formatter.accept_bytes(text.encode())
    except TokenRejected:
        return False
    return formatter.can_stop


def is_valid(schema: Any, document: Any) -> bool:
    return bool(jsonschema.validators.validator_for(schema)(schema).is_valid(document))


def writings(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """What `json.dumps` is called with, by name."""
    for name, options in WRITINGS.items():
        yield name, {**options, "ensure_ascii": False}
        if all(text.isascii() for text in listed(schema)):
            yield f"{name}, ensure_ascii", {**options, "ensure_ascii": True}


def listed(schema: Any) -> Iterator[str]:
    """All names of members, and all texts, that stand anywhere in a schema other than in its annotations."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in ("title", "description", "$comment", "default", "examples") or isinstance(value, dict):
                yield key
                yield from listed(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from listed(item)
    elif isinstance(schema, str):
        yield schema


def with_integers(document: Any) -> Any:
    """The document with an integer for each float that is one."""
    if isinstance(document, dict):
        return {key: with_integers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_integers(item) for item in document]
    return int(document) if isinstance(document, float) and document.is_integer() else document


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=0, help="only every n-th, so that at most this many are read")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a JSON file for the summary")
    options = parser.parse_args()
    cases = list(read_cases())
    if not cases:
        print("not run: there are no real schemas; set FORMATTER_SHARED to the folder of shared data sets")
        return 0
    if options.schemas:
        cases = cases[:: -(-len(cases) // options.schemas)]
    counts: Counter[str] = Counter()
    faults: list[dict[str, Any]] = []

    def judged(case: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(in_child(lambda: judge(case), CPU_SECONDS))
        except ChildError as error:
            return {"counts": {"failed": 1}, "faults": [{"id": case["id"], "what": f"failed: {error}"}]}

    with ThreadPool(options.parallel) as pool:
        for found in pool.imap(judged, cases):
            counts.update(found["counts"])
            faults += found["faults"]
            for fault in found["faults"]:
                print(json.dumps(fault, ensure_ascii=False), flush=True)
    summary = {"cases": len(cases), "counts": dict(sorted(counts.items())), "faults": faults}
    if options.output:
        options.output.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(summary["counts"], indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
