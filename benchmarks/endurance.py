"""Walk through formats to the end of what they promise: the worst mask of each, and any failure on the way.

    python3.11 dev.py bench endurance                           # all schemas of the shared data sets, and OWN
    python3.11 dev.py bench endurance --schemas 0 --walks 2000     # OWN alone, with as many walks as the promise has
    python3.11 dev.py bench endurance --only 'o57047|string5'   # the cases in whose name this expression is found

Each format is compiled for a vocabulary in a forked child with limits on CPU time and memory, and then takes its valid
documents and random walks: at each step any allowed token, with the end preferred in every second walk, so that some
walks grow as long as they may and others are complete documents. A mask is one accepted token and the mask after it,
in CPU milliseconds and in the native engine's elementary steps (`work`), which do not depend on the machine.

Other jobs can make any single mask slow. A case with masks above the bound is therefore walked again, up to the last of
them, a few times, each in a new child with a format compiled anew; of each such mask the smallest time counts.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import VOCABULARIES, Encode, read_cases, valid_documents
from benchmarks.harness import ChildError, in_child
from formatter_core import Compiler, Vocabulary
from formatter_core.errors import FormatterError, LimitExceeded, TokenRejected

#: No mask is to take longer.
BOUND_MS = 10
REPLAYS = 4
HOST_NAME = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"


A_STRING = {"type": "string"}


def open_object(count: int) -> dict[str, Any]:
    """Make the schema of an open object of this many optional properties."""
    return {"type": "object", "properties": {f"property{index}": {"type": "integer"} for index in range(count)}}


def required(name: str) -> dict[str, Any]:
    return {"properties": {name: A_STRING}, "required": [name]}


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
    "one of 200 properties": ({"oneOf": [required(f"k{index}") for index in range(200)]}, [{"k7": "a", "more": 1}]),
    "80 patterns for names": (
        {"patternProperties": {f"^x{index}.*a{index}": A_STRING for index in range(80)}},
        [{"x7.a7": "a", "x79a7": "a"}],
    ),
    "24 conditions": (
        {"allOf": [{"if": required(f"a{index}"), "then": required(f"b{index}")} for index in range(24)]},
        [{"a7": "a", "b7": "b"}],
    ),
    "14 choices of four": (
        {"allOf": [{"anyOf": [required(f"k{index}{end}") for end in "abcd"]} for index in range(14)]},
        [{f"k{index}a": "a" for index in range(14)}],
    ),
    "constant of 500000 characters": ({"const": "x" * 500_000}, []),
}


OPTIONS: dict[str, dict[str, Any]] = {
    "--vocabulary": {"choices": VOCABULARIES, "default": "bytes"},
    "--schemas": {"type": int, "help": "how many of the shared schemas, drawn at random; by default all"},
    "--only": {"default": "", "help": "the cases in whose name this regular expression is found"},
    "--walks": {"type": int, "default": 4},
    "--bytes": {"type": int, "default": 4096, "help": "the length of a walk"},
    "--part": {"default": "0/1", "help": "I/N: every N-th case, from number I on"},
    "--seed": {"type": int, "default": 0},
    "--seconds": {"type": int, "default": 120, "help": "of CPU time for one case"},
}
SMOKE = {"schemas": 0, "only": "host", "walks": 1, "bytes": 64}


def cases(schemas: int | None, only: str, seed: int) -> Iterator[tuple[str, Any, list[str]]]:
    """Name, schema and valid documents as JSON."""
    for name, (schema, documents) in OWN.items():
        if re.search(only, name):
            yield name, schema, [json.dumps(document) for document in documents]
    if schemas == 0:
        return
    # Read as they are needed: what lies in memory is copied for each child.
    found: Iterable[dict[str, Any]] = (case for case in read_cases() if re.search(only, case["id"]))
    if schemas is not None:
        listed = list(found)
        found = random.Random(seed).sample(listed, min(schemas, len(listed)))
    for case in found:
        documents = [json.dumps(document, ensure_ascii=False) for document in valid_documents(case)]
        yield case["id"], case["schema"], documents


class _ReplayedError(Exception):
    """Say that the last mask of interest was computed."""


class Tokens:
    """Hold what walks need to know of the tokens of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.text_token(index) or b"" for index in range(len(vocabulary))]
        self.lengths = np.array([len(text) for text in texts])
        self.closes = np.array([text[:1] in (b'"', b"}", b"]") for text in texts])


class Walker:
    """Walk one compiled format along texts, and keep the worst masks."""

    def __init__(self, compiler: Compiler, tokens: Tokens, schema: Any, seed: str, last: int | None) -> None:
        before = time.thread_time()
        self._compiled = compiler.compile(schema)
        self.compile_ms = (time.thread_time() - before) * 1e3
        self._chooser = random.Random(seed)
        self._row = np.zeros(compiler.vocabulary.words, dtype=np.int32)
        self._end = compiler.vocabulary.end_ids[0]
        self._tokens = tokens
        self._last = last
        self.worst_ms = self.worst_work = 0.0
        self.masks = 0
        #: Masks above the bound, by number, in milliseconds.
        self.slow: dict[int, float] = {}

    def _mask(self, call: Callable[[], object]) -> None:
        grammar: Any = self._compiled.engine_grammar
        work, before = grammar.work_done(), time.thread_time()
        try:
            call()
        except TokenRejected:
            before, work = time.thread_time(), grammar.work_done()  # what takes time is the message, not a mask
            raise
        finally:
            spent = (time.thread_time() - before) * 1e3
            if spent > BOUND_MS:
                self.slow[self.masks] = spent
            else:
                self.worst_ms = max(self.worst_ms, spent)
            self.worst_work = max(self.worst_work, grammar.work_done() - work)
            self.masks += 1
        if self._last is not None and self.masks > self._last:
            raise _ReplayedError

    def document(self, tokens: list[int]) -> bool:
        """Tell whether the format accepts the tokens, and may end then."""
        formatter = self._compiled.formatter()
        self._mask(lambda: formatter.fill_bitmask(self._row))
        try:
            for token in tokens:
                self._mask(lambda token=token: formatter.step(token, self._row))  # type: ignore[misc]
        except TokenRejected:
            return False
        return formatter.can_stop

    def walk(self, most_bytes: int, *, ending: bool) -> None:
        """Take any allowed tokens until the text is complete, or has this many bytes."""
        formatter = self._compiled.formatter()
        self._mask(lambda: formatter.fill_bitmask(self._row))
        length = 0
        while length < most_bytes:
            allowed = np.flatnonzero(np.unpackbits(self._row.view(np.uint8), bitorder="little"))
            if formatter.can_stop:
                allowed = allowed[allowed != self._end]
                if not len(allowed) or (ending and self._chooser.random() < 0.5):
                    return
            if ending and len(closing := allowed[self._tokens.closes[allowed]]):
                allowed = closing
            token = int(self._chooser.choice(allowed))
            length += int(self._tokens.lengths[token])
            self._mask(lambda: formatter.step(token, self._row))  # noqa: B023 (called at once)


def judge(
    compiler: Compiler,
    tokens: Tokens,
    encode: Encode,
    case: tuple[str, Any, list[str]],
    options: argparse.Namespace,
    last: int | None,
) -> dict[str, Any]:
    """Judge one format, up to its `last` mask; to the end if that is None."""
    name, schema, documents = case
    try:
        walker = Walker(compiler, tokens, schema, name, last)
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
        for number in range(options.walks):
            place = f"walk {number}"
            walker.walk(options.bytes, ending=number % 2 == 1)
        found["documents"] = f"{taken} of {len(documents)}"
    except _ReplayedError:
        pass
    except LimitExceeded as error:
        found = {"outcome": "limit midway", "error": str(error), "place": place}
    except FormatterError as error:
        found = {"outcome": "failed midway", "error": f"{type(error).__name__}: {error}"[:300], "place": place}
    return {
        **found,
        "compile_ms": round(walker.compile_ms, 2),
        "masks": walker.masks,
        "worst_ms": walker.worst_ms,
        "worst_work": int(walker.worst_work),
        "slow": list(walker.slow.items()),
    }


def judge_fairly(run: Callable[[int | None], dict[str, Any]]) -> dict[str, Any]:
    """Judge a format by the smallest times of its slow masks in several runs; `run` takes the last mask's number."""
    result = run(None)
    slow: dict[int, float] = dict(result.pop("slow", ()))
    if "worst_ms" not in result:
        return result
    result["replays"] = 0
    while slow and max(slow.values()) > BOUND_MS and result["replays"] < REPLAYS:
        result["replays"] += 1
        again = dict(run(max(slow))["slow"])
        # A mask that is missing took no longer than the bound.
        slow = {number: min(spent, again.get(number, BOUND_MS)) for number, spent in slow.items()}
    result["slow"] = sorted(
        ((number, round(ms, 2)) for number, ms in slow.items() if ms > BOUND_MS), key=lambda mask: -mask[1]
    )[:10]
    result["worst_ms"] = round(max([result["worst_ms"], *slow.values()]), 3)
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    vocabulary, encode = VOCABULARIES[options.vocabulary]()
    compiler = Compiler(vocabulary, engine="native")
    compiler.compile({"type": "object"}).formatter().allowed_tokens()
    tokens = Tokens(vocabulary)
    part, parts = map(int, options.part.split("/"))
    results: dict[str, dict[str, Any]] = {}
    gc.freeze()
    for number, case in enumerate(cases(options.schemas, options.only, options.seed)):
        if number % parts != part:
            continue
        try:
            result = judge_fairly(
                lambda last, case=case: in_child(  # type: ignore[misc]
                    partial(judge, compiler, tokens, encode, case, options, last), options.seconds
                )
            )
        except ChildError as error:
            result = {"outcome": "crash", "error": str(error)}
        results[case[0]] = result
        if result["outcome"] not in ("walked", "refused") or result.get("slow"):
            print(case[0], result, flush=True)
    walked = {name: result for name, result in results.items() if "worst_ms" in result}

    def worst(measure: str) -> dict[str, dict[str, float]]:
        names = sorted(walked, key=lambda name: -walked[name][measure])[:20]
        return {name: {"ms": walked[name]["worst_ms"], "work": walked[name]["worst_work"]} for name in names}

    summary = {
        "vocabulary": options.vocabulary,
        "walks": options.walks,
        "bytes": options.bytes,
        "outcomes": dict(collections.Counter(result["outcome"] for result in results.values())),
        "masks": sum(result["masks"] for result in walked.values()),
        "masks above the bound": sum(len(result["slow"]) for result in walked.values()),
        "replayed": sum(result["replays"] > 0 for result in walked.values()),
        "worst_ms": worst("worst_ms"),
        "worst_work": worst("worst_work"),
    }
    return {"summary": summary, "rows": results}


def show(found: dict[str, Any]) -> str:
    summary = found["summary"]
    outcomes = ", ".join(f"{outcome}: {count}" for outcome, count in summary["outcomes"].items())
    above = summary["masks above the bound"]
    lines = [f"Formats {outcomes}. Of {summary['masks']:,} masks, {above} took more than {BOUND_MS} ms.", ""]
    lines += ["| format | worst mask, ms | most work |", "|---|---|---|"]
    lines += [f"| {name} | {one['ms']:.2f} | {one['work']:,} |" for name, one in summary["worst_ms"].items()]
    return "\n".join(lines)
