"""Count the bytes of the native engine's tables, compiled grammars, sequences and forks.

    python3.11 dev.py bench memory            # writes memory.json

Bytes are counted, not estimated: those of the native library by what the C library's allocator has in use (glibc's
`mallinfo2`, less Python's own large objects), those of Python objects by `tracemalloc`. Each measurement is made once
for each of the two. The vocabulary is that of Llama 3. `soak` shows that memory stays flat over time.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import Encode, llama3
from benchmarks.grammars import GRAMMARS
from benchmarks.harness import aim
from formatter_core import Compiler, Formatter, Vocabulary, bitmask
from formatter_core.engine.native import NativeEngine

MEBIBYTE = 1 << 20
#: Larger Python objects come from the C library's allocator.
SMALL = 512
#: Our targets, in bytes.
TABLES, SEQUENCE, TOKEN = 64 * MEBIBYTE, 10_000, 32
CASES = ("JSON", "SQL subset", "enum of 1,000 values")
FORKS, SEQUENCES = 64, 256
OPTIONS: dict[str, dict[str, Any]] = {"--tokens": {"type": int, "default": 20_000, "help": "of a long sequence"}}
SMOKE = {"tokens": 1000}


class _Allocated(ctypes.Structure):
    """Describe `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "inuse", "free", "keep")
    ]


def native_bytes() -> int:
    """Return the bytes that the C library's allocator has handed out."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Allocated
    found = library.mallinfo2()
    return int(found.inuse + found.hblkhd)


def resident_bytes() -> int:
    """Return the resident bytes of the process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def taken(make: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """Call `make` twice; return its result, and the bytes that are in use afterwards and were not before."""
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
    """Return the formatter after the tokens; each is an object of its own, as from a sampler."""
    for token_id in tokens:
        formatter.accept_token(token_id)
    return formatter


def numbers(encode: Encode, count: int) -> array[int]:
    """Return so many tokens of a JSON array that is not closed yet."""
    text = "[" + ", ".join(str(number * 7919 % 1_000_003) for number in range(count))
    return array("l", encode(text)[:count])


def measure_case(case: Any, compiler: Compiler, encode: Encode) -> dict[str, Any]:
    """Measure one compiled grammar, its sequences and forks."""
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


def long_sequence(compiler: Compiler, case: Any, encode: Encode, count: int) -> dict[str, Any]:
    """Count the bytes of a sequence by its length; none of its states is new to the grammar."""
    compiled = compiler.compile(case.format())
    tokens = numbers(encode, count)
    walked(compiled.formatter(), tokens)
    _, new = taken(compiled.formatter)
    _, grown = taken(lambda: walked(compiled.formatter(), tokens))
    return {"new": new, "a token more": per({name: grown[name] - new[name] for name in new}, len(tokens))}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything with the vocabulary of Llama 3."""
    read, encode = llama3()
    vocabulary = Vocabulary(read.tokens, end_ids=read.end_ids)
    counted, tables = taken(lambda: NativeEngine().prepare(vocabulary))
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    cases = {case.name: case for case in GRAMMARS if case.name in CASES}
    return {
        "vocabulary": {"ids": len(vocabulary), "taken": tables, "counted by the engine": counted},
        "cases": {name: measure_case(case, compiler, encode) for name, case in cases.items()},
        "a long sequence": long_sequence(compiler, cases["JSON"], encode, options.tokens),
    }


def show(found: dict[str, Any]) -> str:
    """List all figures, and some beside our targets."""
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
    return "\n".join(lines)
