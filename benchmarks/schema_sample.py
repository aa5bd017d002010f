"""A sample of real JSON Schemas with their valid documents, such that every engine compiles and accepts them."""

from __future__ import annotations

import collections
import json
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cases import Case
from benchmarks.engines import Engine
from benchmarks.json_schema import read_cases
from benchmarks.schema_order import in_schema_order

__all__ = ["sample"]

CPU_SECONDS, GIBIBYTES = 5, 8
#: So many of the chosen schemas are measured with engines after the first two, which may take a second for each.
FEW = 40


def sample(
    shared: Path, count: int, seed: int, engines: dict[str, Engine], encode: Callable[[str], list[int]]
) -> tuple[list[Case], dict[tuple[str, str], str], dict[str, Any]]:
    """Up to `count` cases in a random order, what keeps later engines from some of them, and what was left out.

    The first of `engines`, formatter-core, and the second accept all valid documents of each case; the others may fail,
    and are tried with the first `FEW` only.
    Documents that only have their keys in another order than the schema names them are put in order. Each schema is
    tried in a forked child with limits on CPU time and memory.
    """
    candidates = [case for case in read_cases(shared) if any(test["valid"] for test in case["tests"])]
    random.Random(seed).shuffle(candidates)
    chosen: list[Case] = []
    failed: dict[tuple[str, str], str] = {}
    outcomes: collections.Counter[str] = collections.Counter()
    names = list(engines)
    for case in candidates:
        if len(chosen) == count:
            break
        wanted = Case(case["id"], (), schema=case["schema"])
        documents = [test["data"] for test in case["tests"] if test["valid"]]
        found = _in_child(_texts, engines[names[0]], wanted, documents, encode)
        why = f"{names[0]}: {found}"
        for place, name in enumerate(names[1:], 1):
            if isinstance(found, str):
                break
            if place > 1 and len(chosen) >= FEW:
                failed[case["id"], name] = f"only the first {FEW} schemas are measured"
                continue
            verdict = _in_child(_verdict, engines[name], wanted, found, encode)
            if verdict and place == 1:
                found, why = verdict, f"{name}: {verdict}"
            elif verdict:
                failed[case["id"], name] = verdict
        outcomes[why if isinstance(found, str) else "chosen"] += 1
        if not isinstance(found, str):
            chosen.append(Case(case["id"], tuple(found), schema=case["schema"]))
    return chosen, failed, {"seed": seed, "candidates": len(candidates), "tried": dict(outcomes.most_common())}


def _texts(engine: Engine, case: Case, documents: list[Any], encode: Callable[[str], list[int]]) -> list[str] | str:
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


def _verdict(engine: Engine, case: Case, texts: list[str], encode: Callable[[str], list[int]]) -> str:
    """Why an engine cannot be measured with these texts; empty where it can."""
    start = engine.compile(case)
    return "" if all(_accepts(start, encode(text)) for text in texts) else "refuses a document"


def _accepts(start: Callable[[], Any], tokens: list[int]) -> bool:
    sequence = start()
    sequence.mask()
    return all(sequence.step(token_id) for token_id in tokens) and bool(sequence.complete())


def _in_child(judge: Callable[..., Any], *arguments: Any) -> Any:
    """What `judge` returns in a process of its own, or in words what became of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 2))
        found: Any = "crashes"
        try:
            found = judge(*arguments)
        except Exception:  # noqa: BLE001 (however an engine refuses)
            found = "refuses the schema"
        finally:
            with os.fdopen(writing, "w") as pipe:
                json.dump(found, pipe)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return json.loads(data) if data else f"more than {CPU_SECONDS} s, or a crash"
