"""Choose JSON Schemas with documents: real ones that several engines accept, and random ones that need memory."""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.cases import Case
from benchmarks.data import Encode, read_cases, valid_documents
from benchmarks.engines import Engine
from benchmarks.harness import ChildError, in_child
from formatter_core.errors import FormatterError

__all__ = ["in_schema_order", "sample", "shuffled", "with_memory"]

CPU_SECONDS = 5
#: Schemas that are measured with engines after the first two, which may take a second for each.
FEW = 40


def sample(
    count: int, seed: int, engines: dict[str, Engine], encode: Encode
) -> tuple[list[Case], dict[tuple[str, str], str], dict[str, Any]]:
    """Choose at most `count` cases at random; return them, why later engines lack some of them, and what was left out.

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
    """Return what `judge` returns in a process of its own, or say in words what happened."""

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
    """Write the documents as texts that formatter-core accepts, or say why not."""
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
    """Say why an engine cannot be measured with these texts; empty if it can."""
    start = engine.compile(case)
    return "" if all(_accepts(start, encode(text)) for text in texts) else "refuses a document"


def _accepts(start: Callable[[], Any], tokens: list[int]) -> bool:
    sequence = start()
    sequence.mask()
    return all(sequence.step(token_id) for token_id in tokens) and bool(sequence.complete())


# --- schemas that need memory -----------------------------------------------------------------------------------------

_SCALARS: dict[str, list[Any]] = {"integer": [0, 17], "string": ["", "abc"], "boolean": [True, False]}


def with_memory(count: int) -> Iterator[dict[str, Any]]:
    """Yield random schemas of `scripts/compare_unique.py`, and objects of 2 to 12 named keys in any order, as cases."""
    from jsonschema import Draft202012Validator

    from scripts.compare_unique import documents, random_schema

    for seed in range(8 * count):
        rng = random.Random(seed)
        schema = random_schema(rng)
        validator, words = Draft202012Validator(schema), json.dumps(schema)
        kind = next(word for word in ("uniqueItems", "oneOf", "not", "anyOf", "minProperties") if word in words)
        tests = [
            {"text": text, "data": data, "valid": validator.is_valid(data)}
            for text in documents(schema, rng, 20)
            for data in [json.loads(text)]
        ]
        yield {"id": f"{kind} {seed}", "split": kind, "schema": schema, "tests": tests}
    for seed in range(count):
        yield _named_keys(seed)


def _named_keys(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    types = {f"key {number}": rng.choice(list(_SCALARS)) for number in range(rng.randint(2, 12))}
    required = [name for name in types if rng.random() < 0.5]
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    tests = []
    for _ in range(10):
        keys = [name for name in types if name in required or rng.random() < 0.5]
        document = {name: rng.choice(_SCALARS[types[name]]) for name in rng.sample(keys, len(keys))}
        tests.append({"data": document, "valid": True})
    return {"id": f"key order {seed}", "split": "key order", "schema": schema, "tests": tests}


def shuffled(data: Any, rng: random.Random) -> Any:
    """Return the data with the keys of its objects in a random order."""
    if isinstance(data, list):
        return [shuffled(item, rng) for item in data]
    if isinstance(data, dict):
        return {key: shuffled(data[key], rng) for key in rng.sample(list(data), len(data))}
    return data


# --- documents with their keys in the order that a format wants ------------------------------------------------------

_MOST_TRIES = 20_000


def in_schema_order(engine: Any, case: Case, document: Any) -> str | None:
    """Write a document as text that `engine`, formatter-core, accepts; None if none was found."""
    try:
        state = engine.compile(case)().formatter
        found = _Writer().value(state, document)
    except FormatterError:
        return None
    return found[1] if found is not None and found[0].can_stop else None


class _Writer:
    def __init__(self) -> None:
        self.tries = 0

    def value(self, state: Any, value: Any) -> tuple[Any, str] | None:
        """Return the state after the value, and the value's text."""
        if isinstance(value, list):
            return self._array(state, value)
        if isinstance(value, dict):
            return self._object(state, value)
        return self._after(state, json.dumps(value, ensure_ascii=False))

    def _array(self, state: Any, items: list[Any]) -> tuple[Any, str] | None:
        found = self._after(state, "[")
        for index, item in enumerate(items):
            found = found and self._then(found, ", " if index else "")
            written = found and self.value(found[0], item)
            if not found or not written:
                return None
            found = written[0], found[1] + written[1]
        return found and self._then(found, "]")

    def _object(self, state: Any, entries: dict[str, Any]) -> tuple[Any, str] | None:
        found = self._after(state, "{")
        return found and self._entries(found, list(entries), entries)

    def _entries(self, found: tuple[Any, str], rest: list[str], entries: dict[str, Any]) -> tuple[Any, str] | None:
        """Try keys first that leave most of the others possible: in a fixed order that is the next key."""
        if not rest:
            return self._then(found, "}")
        comma = ", " if len(rest) < len(entries) else ""
        possible = [key for key in rest if self._after(found[0], comma + _key(key))]
        later: list[tuple[int, str, tuple[Any, str]]] = []
        for key in possible:
            started = self._after(found[0], comma + _key(key))
            written = started and self.value(started[0], entries[key])
            if not started or not written:
                continue
            left = sum(key != other and bool(self._after(written[0], ", " + _key(other))) for other in possible)
            later.append((left, key, (written[0], found[1] + started[1] + written[1])))
            if left == len(possible) - 1:
                ended = self._entries(later.pop()[2], [other for other in rest if other != key], entries)
                if ended:
                    return ended
        for _, key, after in sorted(later, key=lambda each: -each[0]):
            ended = self._entries(after, [other for other in rest if other != key], entries)
            if ended:
                return ended
        return None

    def _then(self, found: tuple[Any, str], text: str) -> tuple[Any, str] | None:
        after = self._after(found[0], text)
        return after and (after[0], found[1] + text)

    def _after(self, state: Any, text: str) -> tuple[Any, str] | None:
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return None
        copy = state.fork()
        try:
            copy.accept_bytes(text.encode())
        except FormatterError:
            return None
        return copy, text


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ": "
