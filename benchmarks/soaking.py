"""The process of the soak: formats of all kinds, compiled, walked along and dropped by several threads.

    python -m benchmarks.soaking SECONDS FORMATS THREADS SEED FILE      # see benchmarks/soak.py

A walk takes allowed tokens at random, with forks, rollbacks, events and values on the way. Now and then all threads
stop between two walks: then what the library says of its memory is compared with what its allocator has counted, where
the library is one that counts. Each reading is a line of JSON in the file.
"""

from __future__ import annotations

import ctypes
import gc
import json
import random
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from formatter_core import CompiledFormat, Compiler, FormatterBuilder, Vocabulary, bitmask, formats
from formatter_core.engine import native_parser
from formatter_core.engine.native_library import load
from formatter_core.errors import FormatterError

#: The number of formats in use at a time, besides those that the compiler keeps.
ALIVE = 40
#: Of the compiler: fewer than the formats would take, so that it drops some.
CACHE_BYTES = 64 << 20
LONGEST_WALK = 60
WALKS = 6
READINGS = 100

Chooser = random.Random
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _word(chooser: Chooser) -> str:
    return "".join(chooser.choices(_LETTERS, k=chooser.randrange(3, 9)))


def _scalar(chooser: Chooser) -> dict[str, Any]:
    return chooser.choice(
        [
            {"type": "string"},
            {"type": "string", "maxLength": chooser.randrange(3, 200)},
            {"type": "string", "pattern": f"^{_word(chooser)}[0-9]{{1,{chooser.randrange(2, 9)}}}$"},
            {"type": "string", "format": chooser.choice(["date", "email", "ipv4", "uuid", "date-time"])},
            {"type": "integer", "minimum": chooser.randrange(100), "maximum": chooser.randrange(100, 10**6)},
            {"type": "number"},
            {"type": "number", "multipleOf": chooser.choice([0.01, 0.25, 3])},
            {"enum": [_word(chooser) for _ in range(chooser.randrange(2, 40))]},
            {"type": ["boolean", "null"]},
        ]
    )


def _schema(chooser: Chooser, depth: int = 0) -> dict[str, Any]:
    kind = chooser.randrange(8 if depth < 3 else 4)
    if kind < 4:
        return _scalar(chooser)
    if kind == 4:
        return {"type": "array", "items": _schema(chooser, depth + 1), "maxItems": chooser.randrange(1, 9)}
    if kind == 5:
        return {"anyOf": [_schema(chooser, depth + 1) for _ in range(chooser.randrange(2, 4))]}
    names = [_word(chooser) for _ in range(chooser.randrange(1, 12))]
    return {
        "type": "object",
        "properties": {name: _schema(chooser, depth + 1) for name in names},
        "required": chooser.sample(names, len(names) // 2),
        "additionalProperties": chooser.random() < 0.3,
    }


def _object(chooser: Chooser) -> dict[str, Any]:
    return {"type": "object", "properties": {_word(chooser): _schema(chooser, 1) for _ in range(6)}}


def _distinct(chooser: Chooser) -> Any:
    item = chooser.choice([{"type": "string"}, {"type": "integer"}, {"enum": [_word(chooser) for _ in range(9)]}])
    if chooser.random() < 0.3:
        return {"type": "object", "additionalProperties": _scalar(chooser), "minProperties": chooser.randrange(2, 5)}
    return {"type": "array", "items": item, "uniqueItems": True, "maxItems": chooser.randrange(3, 9)}


def _any_order(chooser: Chooser) -> Any:
    return formats.json_schema(_object(chooser), key_order="any")


def _budget(chooser: Chooser) -> Any:
    reasoning = formats.until(f"</{_word(chooser)}>", max_tokens=chooser.randrange(10, 40))
    return formats.sequence(reasoning, formats.json_schema(_object(chooser)))


def _tools(chooser: Chooser) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": _word(chooser), "parameters": _object(chooser)}}
        for _ in range(chooser.randrange(1, 6))
    ]


def _chat_answer(chooser: Chooser) -> Any:
    return formats.chat_answer(chooser.choice(["hermes", "qwen3", "deepseek-v3", "kimi-k2"]), tools=_tools(chooser))


def _grammar(chooser: Chooser) -> Any:
    word, other = _word(chooser), _word(chooser)
    return chooser.choice(
        [
            formats.kbnf(f"""start ::= sum; sum ::= term | sum "+" term; term ::= #"[0-9]+" | "{word}(" sum ")";"""),
            formats.gbnf(f"""root ::= "{word}" item*\nitem ::= [a-z]+ ("," item)? "{other}" """),
            formats.lark(f"""start: "{word}" (WORD ",")* NUMBER\nWORD: /[a-z]{{2,9}}/\nNUMBER: /[0-9]+{other}/"""),
            formats.ebnf(f"""root ::= "{word}" | "{other}" root root?"""),
        ]
    )


def _pattern(chooser: Chooser) -> Any:
    word, other = _word(chooser), _word(chooser)
    return chooser.choice(
        [
            formats.regex(f"(?P<first>{word}|[a-z]{{2,{chooser.randrange(3, 30)}}}) ?(?P<rest>{other}[0-9]*)+"),
            formats.regex(f"[^{word[0]}]{{1,{chooser.randrange(5, 60)}}}{other}"),
            formats.choice([_word(chooser) for _ in range(chooser.randrange(2, 400))]),
            formats.substring_of(" ".join(_word(chooser) for _ in range(chooser.randrange(10, 200)))),
        ]
    )


def _holes(chooser: Chooser) -> Any:
    built = FormatterBuilder()
    built.append(f"{_word(chooser)}: ", built.regex("[A-Z][a-z]{2,9}", name="name"), ", ", built.integer(name="age"))
    built.append(f" {_word(chooser)} ", built.json(_object(chooser), name="more"), ".")
    return built


#: Functions that make a random format, by kind.
KINDS: dict[str, Callable[[Chooser], Any]] = {
    "schemas": _schema,
    "distinct values": _distinct,
    "any order": _any_order,
    "budgets": _budget,
    "chat answers": _chat_answer,
    "grammars": _grammar,
    "patterns": _pattern,
    "text with holes": _holes,
}


def format_of(number: int) -> tuple[str, Any]:
    """The format with a number: its kind, and what is compiled."""
    kinds = list(KINDS)
    kind = kinds[number % len(kinds)]
    return kind, KINDS[kind](random.Random(number))


def vocabulary_at_hand() -> Vocabulary:
    """Return the vocabulary of Llama 3, or of single bytes if its file is absent."""
    from benchmarks.data import llama3

    with suppress(FileNotFoundError):
        return llama3()[0]
    return Vocabulary.of_bytes()


class Soak:
    """Threads that compile, walk and drop, and the readings between."""

    def __init__(self, seconds: float, count: int, threads: int, seed: int) -> None:
        self.seconds = seconds
        self.count = count
        self.seed = seed
        self.vocabulary = vocabulary_at_hand()
        self.compiler = Compiler(self.vocabulary, engine="native", cache_bytes=CACHE_BYTES)
        self.done: Counter[str] = Counter()
        self._living: weakref.WeakSet[CompiledFormat[Any]] = weakref.WeakSet()
        self._pool: list[tuple[str, CompiledFormat[Any]]] = []
        self._next = iter(range(10**9))
        self._lock = threading.Lock()
        self._gate = threading.Condition()
        self._working = 0
        self._is_paused = self._is_over = False
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]

    def readings(self) -> Iterator[dict[str, Any]]:
        """Run, and yield what there is at the start, on the way, and at the end."""
        for number in range(len(KINDS)):  # so that all modules have been imported
            self._walk(random.Random(number), self.compiler.compile(format_of(number)[1]), 1)
        self._forget()
        yield self._reading("start", 0.0)
        begun = time.monotonic()
        for thread in self._threads:
            thread.start()
        for number in range(1, READINGS + 1):
            time.sleep(max(0.0, begun + number * self.seconds / READINGS - time.monotonic()))
            with self._pause():
                yield self._reading("soak", time.monotonic() - begun)
        with self._gate:
            self._is_over = True
        for thread in self._threads:
            thread.join()
        self._forget()
        yield self._reading("end", time.monotonic() - begun)

    def _forget(self) -> None:
        """Drop all formats, and the automata that they share, as with a new vocabulary."""
        self._pool.clear()
        self.compiler.forget()
        del self.compiler
        self.vocabulary = vocabulary_at_hand()
        self.compiler = Compiler(self.vocabulary, engine="native", cache_bytes=CACHE_BYTES)
        self.compiler.compile({"type": "string"}).formatter().fill_bitmask(bitmask.allocate(1, len(self.vocabulary))[0])
        gc.collect()
        with suppress(AttributeError):  # other C libraries than GNU's
            ctypes.CDLL(None).malloc_trim(0)

    def _pause(self) -> Any:
        """Stop all threads between two walks."""
        soak = self

        class Paused:
            def __enter__(self) -> None:
                with soak._gate:
                    soak._is_paused = True
                    soak._gate.wait_for(lambda: not soak._working)

            def __exit__(self, *_: object) -> None:
                with soak._gate:
                    soak._is_paused = False
                    soak._gate.notify_all()

        return Paused()

    def _work(self, number: int) -> None:
        chooser = random.Random(f"{self.seed} {number}")
        while True:
            with self._gate:
                self._gate.wait_for(lambda: not self._is_paused)
                if self._is_over:
                    return
                self._working += 1
            try:
                self._turn(chooser)
            except FormatterError as error:
                self.done[type(error).__name__] += 1
            finally:
                with self._gate:
                    self._working -= 1
                    self._gate.notify_all()

    def _turn(self, chooser: Chooser) -> None:
        """Compile a format or take one of those in use, walk along it, and perhaps drop one."""
        if len(self._pool) < ALIVE // 2 or chooser.random() < 0.3:
            with self._lock:
                number = next(self._next)
            kind, made = format_of(number % self.count)
            compiled = self.compiler.compile(made)
            self.done[kind] += 1
            with self._lock:
                self._pool.append((kind, compiled))
                self._living.add(compiled)
        else:
            with self._lock:
                kind, compiled = chooser.choice(self._pool)
        self._walk(chooser, compiled, WALKS)
        with self._lock:
            if len(self._pool) > chooser.randrange(ALIVE // 2, ALIVE + 1):
                self._pool.pop(chooser.randrange(len(self._pool)))

    def _walk(self, chooser: Chooser, compiled: CompiledFormat[Any], walks: int) -> None:
        """Sequences of random tokens, most of which stay to the end of the turn."""
        row = bitmask.allocate(1, len(self.vocabulary))[0]
        kept = []
        for _ in range(walks):
            within = chooser.random() < 0.3
            formatter = (
                compiled.formatter_within(compiled.min_tokens + LONGEST_WALK) if within else compiled.formatter()
            )
            formatter.fill_bitmask(row)
            for step in range(chooser.randrange(LONGEST_WALK)):
                if formatter.is_finished:
                    break
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                formatter.step(int(chooser.choice(allowed)), row)
                if step % 16 == 7:
                    formatter.events()
                if step % 16 == 11:
                    kept.append(formatter.fork())
                if step % 16 == 13:
                    formatter.rollback(chooser.randrange(8))
                    formatter.fill_bitmask(row)
            self.done["tokens"] += len(formatter.tokens)
            result = formatter.result("length")
            if result.is_complete:
                self.done["values"] += result.value is not None
            kept.append(formatter)

    def _reading(self, when: str, seconds: float) -> dict[str, Any]:
        with self._lock:
            living = {id(compiled): compiled for compiled in [*self._living, *self.compiler._cache.values()]}  # type: ignore[union-attr]
        counted = Counter(Compiler(self.vocabulary, engine="native", cache_bytes=0).memory())
        for compiled in living.values():
            counted.update(compiled.memory())
        del counted["program"]  # is among the schemas, or Python's
        # Parsers of grammars that single values of unions are read with belong to no compiled format.
        counted["captures"] = sum(parser.memory() for parser in list(native_parser._KNOWN.values()))
        return {
            "when": when,
            "vocabulary": f"{len(self.vocabulary):,} tokens",
            "seconds": round(seconds, 1),
            "resident": resident_bytes(),
            "allocated": allocated_bytes(),
            "counted": dict(counted),
            "formats": len(living),
            "done": dict(self.done),
        }


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def allocated_bytes() -> int | None:
    """Return the bytes that the library has allocated; None if its allocator does not count."""
    function = getattr(load(), "fcn_test_allocated", None)
    if function is None:
        return None
    function.restype = ctypes.c_size_t
    return int(function())


def main() -> None:
    seconds, count, threads, seed, path = sys.argv[1:]
    with Path(path).open("w", encoding="utf-8") as file:
        for reading in Soak(float(seconds), int(count), int(threads), int(seed)).readings():
            file.write(json.dumps(reading) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
