"""Walk through formats to the end of what they promise: the worst mask of each, and any failure on the way.

    python3.11 dev.py bench endurance                           # all schemas of the shared data sets, and OWN
    python3.11 dev.py bench endurance --schemas 0 --walks 2000     # OWN alone, with as many walks as the promise has
    python3.11 dev.py bench endurance --only o57047             # the schemas whose name contains this

Each format is compiled for a vocabulary in a forked child with limits on CPU time and memory, and then takes its valid
documents and random walks: at each step any allowed token, with the end preferred in every second walk, so that some
walks grow as long as they may and others are complete documents. A mask is one accepted token and the mask after it,
in CPU milliseconds and in the native engine's elementary steps (`work`), which do not depend on the machine.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import VOCABULARIES, Encode, read_cases, valid_documents
from benchmarks.harness import ChildError, in_child
from formatter_core import Compiler, bitmask
from formatter_core.errors import FormatterError, LimitExceeded, TokenRejected

CPU_SECONDS = 120
HOST_NAME = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"


def open_object(count: int) -> dict[str, Any]:
    """An open object of this many optional properties."""
    return {"type": "object", "properties": {f"property{index}": {"type": "integer"} for index in range(count)}}


#: Formats that were hard once, with documents that begin or complete them.
OWN: dict[str, tuple[Any, list[Any]]] = {
    "host name": (
        {"type": "string", "pattern": HOST_NAME},
        ["www.example.org", ".".join(["abcdefg"] * 30), ("x" * 50 + ".") * 4 + "ab", "." * 250 + "a"],
    ),
    "counted from the end": ({"type": "string", "pattern": "^[ab]*a[ab]{20}$"}, ["ab" * 200, "a" * 500]),
    **{
        f"open object of {count} optional properties": (
            open_object(count),
            [{}, {f"property{index}": index for index in range(0, count, 7)}, {f"property{count - 1}": 1, "more": [1]}],
        )
        for count in (200, 500, 1000, 2000, 3000)
    },
    "closed object of 1000 optional properties": (
        {**open_object(1000), "additionalProperties": False},
        [{}, {f"property{index}": index for index in range(0, 1000, 7)}],
    ),
}


OPTIONS: dict[str, dict[str, Any]] = {
    "--vocabulary": {"choices": VOCABULARIES, "default": "bytes"},
    "--schemas": {"type": int, "help": "how many of the shared schemas, drawn at random; by default all"},
    "--only": {"default": "", "help": "the cases whose name contains this"},
    "--walks": {"type": int, "default": 4},
    "--bytes": {"type": int, "default": 4096, "help": "the length of a walk"},
    "--part": {"default": "0/1", "help": "I/N: every N-th case, from number I on"},
    "--seed": {"type": int, "default": 0},
}
SMOKE = {"schemas": 0, "only": "host", "walks": 1, "bytes": 64}


def cases(schemas: int | None, only: str, seed: int) -> Iterator[tuple[str, Any, list[str]]]:
    """Name, schema and valid documents as JSON."""
    for name, (schema, documents) in OWN.items():
        if only in name:
            yield name, schema, [json.dumps(document) for document in documents]
    if schemas == 0:
        return
    # Read as they are needed: what lies in memory is copied for each child.
    found: Iterable[dict[str, Any]] = (case for case in read_cases() if only in case["id"])
    if schemas is not None:
        listed = list(found)
        found = random.Random(seed).sample(listed, min(schemas, len(listed)))
    for case in found:
        documents = [json.dumps(document, ensure_ascii=False) for document in valid_documents(case)]
        yield case["id"], case["schema"], documents


class Walker:
    """Takes one compiled format along texts, and keeps the worst that it meets."""

    def __init__(self, compiler: Compiler, schema: Any, seed: str) -> None:
        before = time.thread_time()
        self._compiled = compiler.compile(schema)
        self.compile_ms = (time.thread_time() - before) * 1e3
        self._chooser = random.Random(seed)
        self._row = np.zeros(compiler.vocabulary.words, dtype=np.int32)
        self._end = compiler.vocabulary.end_ids[0]
        self._tokens = [compiler.vocabulary.text_token(index) or b"" for index in range(len(compiler.vocabulary))]
        self.worst_ms = self.worst_work = 0.0
        self.masks = 0

    def _mask(self, call: Callable[[], None]) -> None:
        grammar: Any = self._compiled.engine_grammar
        work, before = grammar.work_done(), time.thread_time()
        try:
            call()
        except TokenRejected:
            before, work = time.thread_time(), grammar.work_done()  # what takes time is the message, not a mask
            raise
        finally:
            self.worst_ms = max(self.worst_ms, (time.thread_time() - before) * 1e3)
            self.worst_work = max(self.worst_work, grammar.work_done() - work)
            self.masks += 1

    def document(self, tokens: list[int]) -> bool:
        """Whether the format takes the tokens, and may end then."""
        formatter = self._compiled.formatter()
        self._mask(lambda: formatter.fill_bitmask(self._row))
        try:
            for token in tokens:
                self._mask(lambda token=token: formatter.step(token, self._row))  # type: ignore[misc]
        except TokenRejected:
            return False
        return formatter.can_stop

    def walk(self, most_bytes: int, *, ending: bool) -> None:
        """Any allowed tokens until the text is complete, or has this many bytes."""
        formatter = self._compiled.formatter()
        self._mask(lambda: formatter.fill_bitmask(self._row))
        length = 0
        while length < most_bytes:
            allowed = bitmask.allowed_ids(self._row)
            if formatter.can_stop:
                allowed.remove(self._end)
                if not allowed or (ending and self._chooser.random() < 0.5):
                    return
            token = self._chooser.choice(allowed)
            if ending and (closing := [one for one in allowed if self._tokens[one][:1] in (b'"', b"}", b"]")]):
                token = self._chooser.choice(closing)
            length += len(self._tokens[token])
            self._mask(lambda token=token: formatter.step(token, self._row))  # type: ignore[misc]


def judge(
    compiler: Compiler, encode: Encode, case: tuple[str, Any, list[str]], walks: int, most: int
) -> dict[str, Any]:
    """What becomes of one format."""
    name, schema, documents = case
    try:
        walker = Walker(compiler, schema, name)
    except FormatterError as error:
        kind = type(error).__name__
        return {"outcome": "limit when compiled" if isinstance(error, LimitExceeded) else "refused", "error": kind}
    found: dict[str, Any] = {"outcome": "walked"}
    place = ""
    try:
        taken = 0
        for number, text in enumerate(documents):
            place = f"document {number}"
            taken += walker.document(encode(text))
        for number in range(walks):
            place = f"walk {number}"
            walker.walk(most, ending=number % 2 == 1)
        found["documents"] = f"{taken} of {len(documents)}"
    except LimitExceeded as error:
        found = {"outcome": "limit midway", "error": str(error), "place": place}
    except FormatterError as error:
        found = {"outcome": "failed midway", "error": f"{type(error).__name__}: {error}"[:300], "place": place}
    return {
        **found,
        "compile_ms": round(walker.compile_ms, 2),
        "masks": walker.masks,
        "worst_ms": round(walker.worst_ms, 3),
        "worst_work": int(walker.worst_work),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All cases, or a part of them."""
    vocabulary, encode = VOCABULARIES[options.vocabulary]()
    compiler = Compiler(vocabulary, engine="native")
    compiler.compile({"type": "object"}).formatter().allowed_tokens()
    part, parts = map(int, options.part.split("/"))
    results: dict[str, dict[str, Any]] = {}
    gc.freeze()
    for number, case in enumerate(cases(options.schemas, options.only, options.seed)):
        if number % parts != part:
            continue
        try:
            result = in_child(partial(judge, compiler, encode, case, options.walks, options.bytes), CPU_SECONDS)
        except ChildError as error:
            result = {"outcome": "crash", "error": str(error)}
        results[case[0]] = result
        if result["outcome"] not in ("walked", "refused"):
            print(case[0], result, flush=True)
    walked = {name: result for name, result in results.items() if "worst_ms" in result}

    def worst(measure: str) -> list[tuple[str, float]]:
        return sorted(((name, one[measure]) for name, one in walked.items()), key=lambda item: -item[1])[:20]

    summary = {
        "vocabulary": options.vocabulary,
        "walks": options.walks,
        "outcomes": dict(collections.Counter(result["outcome"] for result in results.values())),
        "masks": sum(result["masks"] for result in walked.values()),
        "worst_ms": worst("worst_ms"),
        "worst_work": worst("worst_work"),
    }
    return {"summary": summary, "cases": results}


def show(found: dict[str, Any]) -> str:
    """What became of all cases together, and the worst of them."""
    return json.dumps(found["summary"], indent=1)
