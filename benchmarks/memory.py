"""Memory of the native engine: tables, compiled grammars, sequences, forks, and a million tokens through one grammar.

    python3.11 dev.py bench memory            # writes memory.json

Bytes are counted, not estimated: those of the native library by what the C library's allocator has in use (glibc's
`mallinfo2`, less Python's own large objects), those of Python objects by `tracemalloc`. What is measured is done once
for each of the two. The vocabulary is that of Llama 3.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import Encode, llama3
from benchmarks.grammars import GRAMMARS
from benchmarks.harness import aim
from formatter_core import Compiler, Formatter, Limits, Vocabulary, bitmask
from formatter_core.engine.native import NativeEngine

MEBIBYTE = 1 << 20
#: Larger Python objects come from the C library's allocator.
SMALL = 512
#: What this project holds itself to.
TABLES, SEQUENCE, TOKEN, SLACK = 64 * MEBIBYTE, 10_000, 32, 4 * MEBIBYTE
CASES = ("JSON", "SQL subset", "enum of 1,000 values")
#: Bytes of masks and states that a compiled grammar may keep: few, and the default.
CACHES = (4 * MEBIBYTE, Limits().cache_bytes)
FORKS, SEQUENCES, LONG = 64, 256, 20_000
OPTIONS: dict[str, dict[str, Any]] = {"--tokens": {"type": int, "default": 1_000_000}}
SMOKE = {"tokens": 1000}


class _Allocated(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "inuse", "free", "keep")
    ]


def native_bytes() -> int:
    """What the C library's allocator has handed out."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Allocated
    found = library.mallinfo2()
    return int(found.inuse + found.hblkhd)


def resident_bytes() -> int:
    """Of the whole process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def taken(make: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """What `make` returns, and the bytes that are in use afterwards and were not before; it is called twice."""
    gc.collect()
    before = native_bytes()
    made = make()
    gc.collect()
    native = native_bytes() - before
    tracemalloc.start()
    again = make()
    gc.collect()
    sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    tracemalloc.stop()
    del again
    return made, {"native": native - sum(size for size in sizes if size > SMALL), "python": sum(sizes)}


def per(found: dict[str, int], count: int) -> dict[str, float]:
    return {name: round(value / count, 1) for name, value in found.items()}


def walked(formatter: Formatter, tokens: array[int]) -> Formatter:
    """The formatter after the tokens; each is a number of its own, as from a sampler."""
    for token_id in tokens:
        formatter.accept_token(token_id)
    return formatter


def numbers(encode: Encode, count: int) -> array[int]:
    """This many tokens of a JSON array that is not closed yet."""
    text = "[" + ", ".join(str(number * 7919 % 1_000_003) for number in range(count))
    return array("l", encode(text)[:count])


def documents(encode: Encode, seed: int) -> Any:
    """Random JSON documents as tokens, without end."""
    chooser = random.Random(seed)
    words = ("the", "order", "is", "at", "station", "nine", "of", "seven", "please", "send", "more", "blue", "paint")

    def value(depth: int) -> Any:
        kind = chooser.randrange(8 if depth < 6 else 5)
        if kind < 2:
            return " ".join(chooser.choices(words, k=chooser.randrange(12)))
        if kind == 2:
            return chooser.randrange(-(10**9), 10**9)
        if kind == 3:
            return chooser.random() * 10 ** chooser.randrange(-9, 9)
        if kind == 4:
            return chooser.choice([True, False, None, "\u00fc\n\u4e2d\\", ""])
        if kind < 7:
            return {
                f"{chooser.choice(words)}_{chooser.randrange(99)}": value(depth + 1)
                for _ in range(chooser.randrange(9))
            }
        return [value(depth + 1) for _ in range(chooser.randrange(9))]

    while True:
        yield encode(
            json.dumps({"item": value(0)}, ensure_ascii=chooser.random() < 0.5, indent=chooser.choice([None, 2]))
        )


def measure_case(case: Any, compiler: Compiler, encode: Encode) -> dict[str, Any]:
    """One compiled grammar, its sequences and forks."""
    texts = [array("l", encode(text)) for text in case.texts]
    row = bitmask.allocate(1, len(compiler.vocabulary))[0]

    def walk_all() -> None:
        for tokens in texts:
            formatter = compiled.formatter()
            formatter.fill_bitmask(row)
            for token_id in tokens:
                formatter.step(token_id, row)

    compiled, new = taken(lambda: compiler.compile(case.format()))
    grammar: Any = compiled.engine_grammar
    counted = sum(grammar.memory().values())
    _, after_texts = taken(walk_all)
    longest = max(texts, key=len)
    sequences, idle = taken(lambda: [walked(compiled.formatter(), longest) for _ in range(SEQUENCES)])
    before = sum(grammar.memory().values())
    forks, forked = taken(lambda: [sequences[0].fork() for _ in range(FORKS)])
    shared = all(fork.compiled is compiled for fork in forks) and sum(grammar.memory().values()) == before
    return {
        "compiled": new, "counted by the engine": counted, "and its texts walked": after_texts,
        "tokens": len(longest), "a sequence after them": per(idle, SEQUENCES),
        "a fork": per(forked, FORKS), f"{FORKS} forks share the grammar": shared,
    }  # fmt: skip


def long_sequence(compiler: Compiler, case: Any, encode: Encode) -> dict[str, Any]:
    """Bytes of a sequence by its length: none of its states is new to the grammar."""
    compiled = compiler.compile(case.format())
    tokens = numbers(encode, LONG)
    walked(compiled.formatter(), tokens)
    _, new = taken(compiled.formatter)
    _, grown = taken(lambda: walked(compiled.formatter(), tokens))
    return {"new": new, "a token more": per({name: grown[name] - new[name] for name in new}, len(tokens))}


def million(vocabulary: Vocabulary, case: Any, encode: Encode, count: int, cache_bytes: int) -> dict[str, Any]:
    """Resident bytes while random documents go through one compiled grammar, every mask computed."""
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0, limits=Limits(cache_bytes=cache_bytes))
    compiled = compiler.compile(case.format())
    row = bitmask.allocate(1, len(vocabulary))[0]
    done, resident = 0, []
    source = documents(encode, 1)
    while done < count:
        formatter = compiled.formatter()
        formatter.fill_bitmask(row)
        for token_id in next(source):
            formatter.step(token_id, row)
            done += 1
            if done % (count // 10) == 0:
                gc.collect()
                resident.append(resident_bytes())
    grammar: Any = compiled.engine_grammar
    return {
        "cache": cache_bytes,
        "tokens": done,
        "resident": resident,
        "counted by the engine": sum(grammar.memory().values()),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, with the vocabulary of Llama 3."""
    read, encode = llama3()
    vocabulary = Vocabulary(read.tokens, end_ids=read.end_ids)
    counted, tables = taken(lambda: NativeEngine().prepare(vocabulary))
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    cases = {case.name: case for case in GRAMMARS if case.name in CASES}
    return {
        "vocabulary": {"ids": len(vocabulary), "taken": tables, "counted by the engine": counted},
        "cases": {name: measure_case(case, compiler, encode) for name, case in cases.items()},
        "a long sequence": long_sequence(compiler, cases["JSON"], encode),
        "a million tokens": [million(vocabulary, cases["JSON"], encode, options.tokens, cache) for cache in CACHES],
    }


def show(found: dict[str, Any]) -> str:
    """All figures, and those that this project holds itself to beside their limits."""
    tables = max(found["vocabulary"]["taken"]["native"], found["vocabulary"]["counted by the engine"])
    lines = [
        json.dumps(found, indent=1),
        aim("tables of the vocabulary, in MiB:", tables / MEBIBYTE, TABLES / MEBIBYTE),
        aim("a new sequence, in bytes:", sum(found["a long sequence"]["new"].values()), SEQUENCE),
        aim("a token more, in bytes:", sum(found["a long sequence"]["a token more"].values()), TOKEN),
    ]
    for name, case in found["cases"].items():
        kept = case[f"{FORKS} forks share the grammar"]
        lines.append(f"{FORKS} forks of {name} share its grammar: {kept}{'' if kept else ', MISSED'}")
    for one in found["a million tokens"]:
        growth = max(one["resident"][2:]) - one["resident"][1]
        # A cache that is not full yet may still grow; nothing else may.
        limit = SLACK + max(0, one["cache"] - one["counted by the engine"])
        what = f"growth after the first fifth of {one['tokens']} tokens, at most {one['cache'] / MEBIBYTE:g} MiB kept"
        lines.append(aim(f"{what}, in MiB:", growth / MEBIBYTE, limit / MEBIBYTE))
    return "\n".join(lines)
