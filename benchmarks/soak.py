"""Many requests over formats that remember what has come: resident memory is to be flat from the middle on.

    python3.11 dev.py bench soak                     # 20,000 requests of each format; writes soak.json
    python3.11 dev.py bench soak --requests 2000

Each format has a child process of its own, the vocabulary of Llama 3, and a new text for every request. Resident memory
is read a few times on the way, and once more when the format is gone.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import llama3
from benchmarks.harness import aim, in_child, markdown
from benchmarks.memory import resident_bytes
from formatter_core import Compiler, formats

MEBIBYTE = 1 << 20
#: Memory that the C library keeps, and does not give back at once.
SLACK = 16 * MEBIBYTE
READINGS = 10
OPTIONS: dict[str, dict[str, Any]] = {
    "--requests": {"type": int, "default": 20_000},
    "--seconds": {"type": int, "default": 3600, "help": "of CPU time for one format"},
}
SMOKE = {"requests": 20}

_TAGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 8}
_NUMBERS = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 8}
_MAP = {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3}
_MEMBERS = {"type": "object", "properties": {f"k{n}": {"type": "integer"} for n in range(40)}}


def _words(chooser: random.Random) -> list[str]:
    words: dict[str, None] = {}  # in the order in which they come
    while len(words) < 7:
        words["".join(chooser.choices("abcdefghijklmnopqrstuvwxyz", k=chooser.randrange(3, 9)))] = None
    return list(words)


def _members(chooser: random.Random) -> dict[str, int]:
    return {f"k{n}": 1 for n in chooser.sample(range(40), 12)}


#: A format, and what makes a document of it.
CASES: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "strings that differ": (_TAGS, _words),
    "integers that differ": (_NUMBERS, lambda chooser: chooser.sample(range(10**6), 8)),
    "at least three keys": (_MAP, lambda chooser: dict.fromkeys(_words(chooser), 1)),
    "40 keys in any order": (formats.json_schema(_MEMBERS, key_order="any"), _members),
}


def soak(name: str, requests: int) -> dict[str, Any]:
    """The resident memory of this process on the way, and at the end."""
    form, make = CASES[name]
    vocabulary, encode = llama3()
    compiled = Compiler(vocabulary, engine="native", cache_bytes=0).compile(form)
    grammar: Any = compiled.engine_grammar
    chooser, row = random.Random(0), np.zeros(vocabulary.words, dtype=np.int32)
    before, resident, tokens = resident_bytes(), [], 0
    for number in range(1, requests + 1):
        formatter = compiled.formatter()
        formatter.fill_bitmask(row)
        for token in encode(json.dumps(make(chooser))):
            formatter.step(token, row)
            tokens += 1
        if number % max(1, requests // READINGS) == 0:
            resident.append(resident_bytes())
    counted = grammar.bytes_used()
    del formatter, compiled, grammar
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return {
        "requests": requests,
        "tokens": tokens,
        "before": before,
        "resident": resident,
        "counted": counted,
        "after": resident_bytes(),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All formats."""
    return {name: in_child(partial(soak, name, options.requests), options.seconds) for name in CASES}


def show(found: dict[str, Any]) -> str:
    """A table, the growth of each in the second half, and what is left of it when the format is gone."""
    rows, aims = [], []
    for name in CASES:
        case = found[name]
        readings = case["resident"]
        middle = readings[len(readings) // 2 - 1]
        sizes = (case["before"], middle, readings[-1], case["counted"], case["after"])
        rows.append([name, f"{case['tokens']:,}", *(f"{size / MEBIBYTE:.0f}" for size in sizes)])
        growth = max(readings[len(readings) // 2 :]) - middle
        aims.append(aim(f"{name}: growth in the second half, in MiB:", growth / MEBIBYTE, SLACK / MEBIBYTE))
        left = case["after"] - case["before"]
        aims.append(aim(f"{name}: what is left without the format, in MiB:", left / MEBIBYTE, 2 * SLACK / MEBIBYTE))
    columns = ["resident MiB", "tokens", "before", "in the middle", "at the end", "counted by the format", "after it"]
    return "\n".join([markdown(columns, rows), "", *aims])
