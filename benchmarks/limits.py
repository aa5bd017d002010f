"""Measure what hostile formats take until a limit ends them, or they are answered, with the default limits.

    python3.11 dev.py bench limits            # writes limits.json

Each runs in a forked child: it is compiled for the vocabulary of Llama 3, or for bytes if that is absent; then a text
of at most 40 tokens is written, or it is used as `USES` says. Seconds are CPU time of the step that ended it, or of the
longest step; memory is the peak of resident memory above that of the empty process. `--strangers` uses the limits that
a server should set for formats from strangers.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import llama3
from benchmarks.harness import ChildError, aim, in_child, markdown
from benchmarks.memory import resident_bytes
from formatter_core import Compiler, Formatter, Limits, Vocabulary, formats
from formatter_core.errors import FormatterError, LimitExceeded
from formatter_core.generation import top_tokens
from formatter_core.limits import DEFAULT_LIMITS
from tests.core.test_schema_hostile import HOSTILE

OPTIONS: dict[str, dict[str, Any]] = {
    "--only": {"help": "the cases whose names begin so"},
    "--strangers": {"action": "store_true", "help": "with lower limits"},
}
SMOKE = {"only": "count"}
#: Limits that a server should set for formats from strangers; docs/limits.md recommends them.
STRANGERS = Limits(nodes=200_000, states=50_000, work=2_000_000, cache_bytes=16 << 20)
#: Bounds of the step that ends a case.
SECONDS, MEBIBYTES = 2.0, 256
STEPS = 40
_FIELDS = list(asdict(DEFAULT_LIMITS))


def _words(count: int, length: int) -> list[str]:
    chooser = random.Random(1)
    return ["".join(chooser.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length)) for _ in range(count)]


#: Formats beside those that the tests of hostile schemas have.
OTHERS: dict[str, Callable[[], Any]] = {
    "count: a repeat of two million": lambda: formats.regex("a{0,2000000}"),
    "count: a list of a billion": lambda: {"type": "array", "minItems": 10**9},
    "depth: groups, 5,000 deep": lambda: formats.regex("(" * 5000 + "a" + ")" * 5000),
    "depth: lists, 5,000 deep": lambda: json.dumps({"const": 1}).join(['{"items":' * 5000, "}" * 5000]),
    "nodes: two million items": lambda: formats.regex("((ab?){1000}){2000}"),
    "nodes: a grammar of 60,000 rules": lambda: formats.kbnf(
        "start ::= r0;" + "".join(f'r{n} ::= "a" r{n + 1} | "b";' for n in range(60_000)) + 'r60000 ::= "c";'
    ),
    "work: a grammar of 300,000 rules": lambda: formats.kbnf(
        "start ::= r0;" + "".join(f'r{n} ::= "a" r{n + 1} | "b";' for n in range(300_000)) + 'r300000 ::= "c";'
    ),
    "states: a choice of 200,000": lambda: formats.choice(_words(200_000, 12)),
    "states: counted classes": lambda: formats.regex("([ab]{1,40}[bc]{1,40}){1,40}"),
    "states: two of one million": lambda: formats.regex("(a|b)*a(a|b){18}"),
    "work: an intersection": lambda: {
        "allOf": [{"type": "string", "pattern": f"^(.*{a}.*{b}){{3}}"} for a, b in ("ab", "bc", "cd", "de", "ef")]
    },
    "work: exclusive texts": lambda: {"oneOf": [{"type": "string", "pattern": f"{c}.*{c}"} for c in "abcdefgh"]},
    "work: many ambiguous rules": lambda: formats.kbnf("start ::= start start start | start start | #'[a-z]'? | 'a';"),
    "work: distinct texts": lambda: {
        "type": "array",
        "items": {"type": "string", "pattern": "^(a|b|ab|ba){1,30}$"},
        "uniqueItems": True,
        "minItems": 20,
    },
    "work: a text of 20,000 words": lambda: formats.substring_of(" ".join(_words(20_000, 6))),
}


_PALINDROMES = 'start ::= "a" start "a" | "a";'


def _nested(formatter: Formatter) -> Iterator[None]:
    """Write a text that may end in as many ways as it is long."""
    while True:
        formatter.accept_bytes(b"a")
        yield


def _forced(formatter: Formatter) -> Iterator[None]:
    """Ask for all certain text; what is cut has met the limit."""
    limits = formatter.compiled.limits
    if len(formatter.forced_bytes()) == limits.forced_bytes:
        raise LimitExceeded("forced_bytes", limits.forced_bytes, "a certain text")
    yield


def _top(formatter: Formatter) -> Iterator[None]:
    """Ask for the best tokens of a batch, more than are given."""
    logits = np.zeros((64, len(formatter.compiled.vocabulary)), dtype=np.float32)
    for n in (64, 10_000):
        top_tokens(logits, n, limits=formatter.compiled.limits)
        yield


def _written(formatter: Formatter) -> Iterator[None]:
    """Write a few tokens, each from the middle of those that are allowed."""
    for _ in range(STEPS):
        if formatter.is_finished:
            return
        allowed = formatter.allowed_tokens()
        formatter.accept_token(allowed[len(allowed) // 2])
        yield


#: Formats with what is done with them.
USES: dict[str, tuple[Callable[[], Any], Callable[[Formatter], Iterator[None]]]] = {
    "cache_bytes: a text of many ends": (lambda: formats.kbnf(_PALINDROMES), _nested),
    "forced_bytes: a certain text of 500,000 bytes": (lambda: formats.choice(["x" * 500_000]), _forced),
    "max_top_n: lists of 10,000 tokens": (lambda: formats.regex("a"), _top),
}


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield all cases by name."""
    yield from OTHERS.items()
    for name, (make, _) in USES.items():
        yield name, make
    for name, (schema, _) in HOSTILE.items():
        yield f"schema: {name}", partial(_same, schema)


def _same(given: Any) -> Any:
    return given


def _reset_peak() -> int:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return resident_bytes()


def _peak() -> int:
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def run(
    make: Callable[[], Any],
    vocabulary: Vocabulary,
    limits: Limits = DEFAULT_LIMITS,
    use: Callable[[Formatter], Iterator[None]] = _written,
) -> dict[str, Any]:
    """Run one case: how it ended, the seconds of the step that ended it, or of the longest, and the memory."""
    wanted = make()
    compiler = Compiler(vocabulary, limits=limits)
    compiler.compile(formats.regex("a")).formatter().allowed_tokens()
    before = _reset_peak()
    longest, ended, limit = 0.0, "answered", None
    steps: Iterator[None] | None = None
    while True:
        begun = time.process_time()
        try:
            if steps is None:
                steps = use(compiler.compile(wanted).formatter())
            else:
                next(steps)
        except StopIteration:
            break
        except LimitExceeded as error:
            ended, limit = "limit", error.limit
        except FormatterError as error:
            ended = type(error).__name__
        seconds = time.process_time() - begun
        longest = seconds if ended != "answered" else max(longest, seconds)
        if ended != "answered":
            break
    return {"ended": ended, "limit": limit, "seconds": round(longest, 3), "bytes": max(_peak() - before, 0)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    try:
        vocabulary, _ = llama3()
        of = "llama 3"
    except FileNotFoundError:
        vocabulary, of = Vocabulary.of_bytes(), "bytes"
    Compiler(vocabulary).compile(formats.regex("a")).formatter().allowed_tokens()  # its tables, before any child
    found: dict[str, Any] = {}
    limits = STRANGERS if options.strangers else DEFAULT_LIMITS
    for name, make in cases():
        if name.startswith(options.only or ""):
            try:
                use = USES[name][1] if name in USES else _written
                found[name] = in_child(partial(run, make, vocabulary, limits, use), None)
            except ChildError as error:
                found[name] = {"ended": str(error), "limit": None, "seconds": None, "bytes": None}
            print(name, found[name], flush=True)
    return {"vocabulary": of, "limits": asdict(limits), "cases": found}


def show(found: dict[str, Any]) -> str:
    done = {name: one for name, one in found["cases"].items() if one["seconds"] is not None}
    rows = []
    for limit in [*_FIELDS, *sorted({one["limit"] for one in done.values()} - {*_FIELDS, None}), None]:
        here = {name: one for name, one in done.items() if one["limit"] == limit}
        if here:
            slowest = max(here, key=lambda name: here[name]["seconds"])
            largest = max(here, key=lambda name: here[name]["bytes"])
            rows.append(
                (
                    f"`{limit}`" if limit in _FIELDS else limit or "an answer, or another error",
                    str(len(here)),
                    f"{here[slowest]['seconds']:.2f}: {slowest}",
                    f"{here[largest]['bytes'] / 2**20:.0f}: {largest}",
                )
            )
    aims = [
        aim("seconds until a limit, at most", max((one["seconds"] for one in done.values()), default=0.0), SECONDS),
        aim("MiB until a limit, at most", max((one["bytes"] / 2**20 for one in done.values()), default=0.0), MEBIBYTES),
    ]
    ended_badly = [f"- {name}: {one['ended']}" for name, one in found["cases"].items() if one["seconds"] is None]
    head = ("ended by", "cases", "seconds at most", "MiB at most")
    return "\n".join([markdown(head, rows), "", *aims, *ended_badly])
