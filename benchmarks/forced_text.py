"""Measure how much of real documents is forced text: formatter-core beside llguidance and XGrammar.

Forced text is what every continuation begins with; an engine may append it without asking the model. Each document is
walked through: where an engine forces bytes, they are counted and skipped, elsewhere one byte is taken. Every token is
one byte, so that tokens play no part. The schemas are a random sample such that all engines compile them and accept the
valid documents, once written compactly, with each engine set to compact JSON, and once with the blanks of `json.dumps`,
with each engine's default blanks. XGrammar is used with `strict_mode=False`, since otherwise it forbids additional
properties. llguidance's `JsonCompiler()` without arguments is not used for the latter: it writes the blanks of
`json.dumps` and no others, and so forces more (40 % instead of 18 %) by being narrower.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
from functools import partial
from typing import Any

from benchmarks.cases import Case
from benchmarks.data import byte_vocabulary, read_cases, valid_documents
from benchmarks.engines import DEFAULT, Engine, Sequence, build
from benchmarks.harness import ChildError, aim, in_child, markdown

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--schemas": {"type": int, "default": 300},
    "--seed": {"type": int, "default": 1},
}
SMOKE = {"schemas": 3}
CPU_SECONDS = 20
#: Documents of one schema that are walked through, and the bytes of each.
DOCUMENTS = 5
BYTES = 2000

WRITINGS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "flexible": {"ensure_ascii": False},
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Walk through the documents of as many schemas as are wanted."""
    vocabulary, encode = byte_vocabulary()
    engines = {name: made for name in DEFAULT if (made := build(name, vocabulary, encode)) is not None}
    candidates = [case for case in read_cases() if valid_documents(case)]
    random.Random(options.seed).shuffle(candidates)
    outcomes: collections.Counter[str] = collections.Counter()
    records: list[dict[str, Any]] = []
    for case in candidates:
        if len(records) == options.schemas:
            break
        try:
            found = in_child(partial(shares, case, engines), CPU_SECONDS)
        except ChildError:
            found = "a crash or a time-out"
        outcomes[found if isinstance(found, str) else "measured"] += 1
        if not isinstance(found, str):
            records.append({"id": case["id"], **found})
            if len(records) % 50 == 0:
                print(f"{len(records)} schemas", flush=True)
    return {"schemas": len(records), "tried": dict(outcomes.most_common()), **summary(records)}


def shares(case: dict[str, Any], engines: dict[str, Engine]) -> dict[str, Any] | str:
    """Count forced bytes and all bytes by writing and engine, or say why the schema is not measured."""
    found: dict[str, Any] = {}
    for writing, options in WRITINGS.items():
        texts = [json.dumps(document, **options).encode() for document in valid_documents(case)[:DOCUMENTS]]
        found[writing] = {}
        for name, engine in engines.items():
            try:
                start = engine.compile(Case(case["id"], (), schema=case["schema"], compact=writing == "compact"))
                counts = [walk(start(), text) for text in texts]
            except Exception:  # noqa: BLE001 (however an engine refuses)
                return f"{name} refuses the schema"
            if None in counts:
                return f"{name} refuses a document"
            found[writing][name] = [sum(count or 0 for count in counts), sum(map(len, texts))]
    return found


def walk(sequence: Sequence, text: bytes) -> int | None:
    """Count the bytes of a text that are forced; None if it is not accepted."""
    forced, at = 0, 0
    while at < len(text):
        run = sequence.forced() if at < BYTES else b""
        if not text.startswith(run, at) or not all(map(sequence.step, run or text[at : at + 1])):
            return None
        forced += len(run)
        at += len(run) or 1
    return forced if sequence.complete() else None


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Compute shares of all bytes by writing and engine, and name the schemas in which a peer forces most more."""
    found: dict[str, Any] = {"share": {}, "peers force more": {}}
    for writing in WRITINGS:
        sums = {name: [sum(record[writing][name][index] for record in records) for index in (0, 1)] for name in DEFAULT}
        found["share"][writing] = {name: round(part / max(1, whole), 4) for name, (part, whole) in sums.items()}
        behind = []
        for record in records:
            mine, whole = record[writing]["formatter-core"]
            best = max(record[writing], key=lambda name: record[writing][name][0])
            more = record[writing][best][0] - mine
            if more > 0:
                behind.append({"id": record["id"], "peer": best, "more": more, "bytes": whole})
        behind.sort(key=lambda one: -int(one["more"]))
        found["peers force more"][writing] = {"schemas": len(behind), "most": behind[:12]}
    return found


def show(found: dict[str, Any]) -> str:
    rows = [
        [writing, *(f"{100 * share:.1f} %" for share in shares.values())] for writing, shares in found["share"].items()
    ]
    aims = []
    for writing, shares in found["share"].items():
        best = max(share for name, share in shares.items() if name != "formatter-core")
        aims.append(
            aim(f"{writing}: of the better peer's", shares["formatter-core"] / max(best, 1e-9), 0.95, at_least=True)
        )
    return "\n".join([markdown(["", *DEFAULT], rows), "", *aims, f"{found['schemas']} schemas; {found['tried']}"])
