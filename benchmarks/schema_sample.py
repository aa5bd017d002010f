"""A sample of real JSON Schemas with their valid documents, such that every engine compiles and accepts them."""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Callable
from typing import Any

from benchmarks.cases import Case
from benchmarks.data import Encode, read_cases, valid_documents
from benchmarks.engines import Engine
from benchmarks.harness import ChildError, in_child
from benchmarks.schema_order import in_schema_order

__all__ = ["sample"]

CPU_SECONDS = 5
#: How many of the chosen schemas are measured with engines after the first two, which may take a second for each.
FEW = 40


def sample(
    count: int, seed: int, engines: dict[str, Engine], encode: Encode
) -> tuple[list[Case], dict[tuple[str, str], str], dict[str, Any]]:
    """At most `count` cases in a random order, what keeps later engines from some of them, and what was left out.

    The first of `engines`, formatter-core, and the second accept all valid documents of each case; the others may fail,
    and are tried with the first `FEW` only.
    Documents that only have their keys in another order than the schema names them are put in order. Each schema is
    tried in a forked child with limits on CPU time and memory.
    """
    candidates = [case for case in read_cases() if valid_documents(case)]
    random.Random(seed).shuffle(candidates)
    chosen: list[Case] = []
    failed: dict[tuple[str, str], str] = {}
    outcomes: collections.Counter[str] = collections.Counter()
    names = list(engines)
    for case in candidates:
        if len(chosen) == count:
            break
        wanted = Case(case["id"], (), schema=case["schema"])
        found = _judged(_texts, engines[names[0]], wanted, valid_documents(case), encode)
        why = f"{names[0]}: {found}"
        for place, name in enumerate(names[1:], 1):
            if isinstance(found, str):
                break
            if place > 1 and len(chosen) >= FEW:
                failed[case["id"], name] = f"only the first {FEW} schemas are measured"
                continue
            verdict = _judged(_verdict, engines[name], wanted, found, encode)
            if verdict and place == 1:
                found, why = verdict, f"{name}: {verdict}"
            elif verdict:
                failed[case["id"], name] = verdict
        outcomes[why if isinstance(found, str) else "chosen"] += 1
        if not isinstance(found, str):
            chosen.append(Case(case["id"], tuple(found), schema=case["schema"]))
    return chosen, failed, {"seed": seed, "candidates": len(candidates), "tried": dict(outcomes.most_common())}


def _judged(judge: Callable[..., Any], *arguments: Any) -> Any:
    """What `judge` returns in a process of its own, or what happened to it in words."""

    def work() -> Any:
        try:
            return judge(*arguments)
        except Exception:  # noqa: BLE001 (however an engine refuses)
            return "refuses the schema"

    try:
        return in_child(work, CPU_SECONDS)
    except ChildError:
        return f"more than {CPU_SECONDS} s, or a crash"


def _texts(engine: Engine, case: Case, documents: list[Any], encode: Encode) -> list[str] | str:
    """The documents as texts that formatter-core accepts, or why not."""
    start = engine.compile(case)
    texts = []
    for document in documents:
        text: str | None = json.dumps(document, ensure_ascii=False)
        if not _accepts(start, encode(str(text))):
            text = in_schema_order(engine, case, document)
        if text is None:
            return "refuses a document"
        texts.append(text)
    return texts


def _verdict(engine: Engine, case: Case, texts: list[str], encode: Encode) -> str:
    """Why an engine cannot be measured with these texts; empty where it can."""
    start = engine.compile(case)
    return "" if all(_accepts(start, encode(text)) for text in texts) else "refuses a document"


def _accepts(start: Callable[[], Any], tokens: list[int]) -> bool:
    sequence = start()
    sequence.mask()
    return all(sequence.step(token_id) for token_id in tokens) and bool(sequence.complete())
