"""A program for a build that counts allocations: every call may meet a limit anywhere, and all goes on afterwards.

After some number of allocations of the library, its meters report a limit. That number is swept over calls of all
kinds. A call then raises `LimitExceeded` or succeeds; made again, it gives the answer of a process that met no limit,
and the same objects go on. What the calls have allocated is free afterwards.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from formatter_core import CompiledFormat, Compiler, FormatterBuilder, Limits, Vocabulary, bitmask, formats
from formatter_core.engine.native_library import load
from formatter_core.errors import LimitExceeded

ANY_NUMBER = ctypes.c_size_t(-1).value
#: Bytes that tables may have grown by after a call that ended early.
SLACK = 1 << 16
VOCABULARY = Vocabulary([*(bytes([n]) for n in range(256)), b'{"', b'":', b"ab", b"12", b'"}', None], end_ids=[261])

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": -12}},
    "required": ["name"],
}
DISTINCT = {"type": "array", "items": {"enum": ["ab", "abc", 12, True]}, "uniqueItems": True, "minItems": 2}
TESTED = {"type": "string", "allOf": [{"pattern": "a.*b"}, {"pattern": "^[a-c]{2,9}$"}], "not": {"pattern": "cc"}}


def person() -> Any:
    builder = FormatterBuilder()
    builder.append("Name: ", builder.regex("[A-Z][a-z]*", name="name"), ", age ", builder.integer(name="age"), ".")
    return builder


#: Formats, and a text of each.
FORMATS: dict[str, tuple[Callable[[], Any], bytes]] = {
    "schema": (lambda: PERSON, b'{"name": "Ann", "age": 27}'),
    "any order": (lambda: formats.json_schema(PERSON, key_order="any"), b'{"age": -1, "name": "Ann"}'),
    "distinct": (lambda: DISTINCT, b'["abc", 12, "ab"]'),
    "tests": (lambda: TESTED, b'"abcab"'),
    "listed": (lambda: {"enum": [f"{n * 7919}" for n in range(300)]}, b'"15838"'),
    "pattern": (lambda: formats.regex("(a|b)*a(a|b){6}c"), b"ababababac"),
    "grammar": (lambda: formats.kbnf('start ::= "a" start start | "a";'), b"aaaaa"),
    "holes": (person, b"Name: Ann, age 27."),
    "region": (lambda: formats.sequence(formats.within(formats.until("ab"), 4), formats.regex("[0-9]*")), b"cab12"),
}


class Faults:
    """Ends calls of the library by a limit, after some number of allocations."""

    def __init__(self) -> None:
        library = load()
        self._limit_after = library.fcn_test_limit_after
        self._limit_after.argtypes, self._limit_after.restype = (ctypes.c_size_t,), ctypes.c_size_t
        self.allocated: Callable[[], int] = library.fcn_test_allocated
        library.fcn_test_allocated.restype = ctypes.c_size_t

    def begin(self, allocations: int) -> None:
        self._limit_after(allocations)

    def end(self) -> int:
        """Return how many allocations were left."""
        return int(self._limit_after(ANY_NUMBER))


@cache
def faults() -> Faults:
    """Return the functions of the library, which only the build that counts allocations has."""
    return Faults()


def steps_of(name: str) -> Iterator[Callable[[], Any]]:
    """Yield the calls of one run, each of which gives something to compare; they share objects."""
    form, text = FORMATS[name]
    compiler = Compiler(VOCABULARY, cache_bytes=0, limits=Limits())
    made: list[CompiledFormat[Any]] = []
    yield lambda: made.append(compiler.compile(form()))
    compiled = made[-1]
    row = bitmask.allocate(1, len(VOCABULARY))[0]

    def mask(formatter: Any) -> list[int]:
        formatter.fill_bitmask(row)
        return [int(token) for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))]

    for budget in (None, len(text) + 5):
        begun: list[Any] = []
        yield lambda: begun.append(compiled.formatter(max_tokens=budget))  # noqa: B023 - it is called at once
        formatter = begun[-1]
        for byte in text:
            yield lambda: mask(formatter)  # noqa: B023
            yield lambda: formatter.step(byte, row)  # noqa: B023
            if name == "holes":
                yield lambda: [str(event) for event in formatter.fork().events()]  # noqa: B023
        yield lambda: (formatter.can_stop, formatter.must_stop, formatter.forced_bytes())  # noqa: B023
        yield lambda: str(formatter.result("end").value)  # noqa: B023
        yield lambda: formatter.rollback(3)  # noqa: B023
        yield lambda: (mask(formatter), formatter.bytes)  # noqa: B023
        yield lambda: formatter.explain(ord("!")).partition(":")[0]  # noqa: B023 - a limit may cut the reason
    yield lambda: str(compiled.parse(text).text)
    yield lambda: compiled.parse(text[:-2]).missing
    yield lambda: mask(compiler.from_bytes(compiled.to_bytes()).formatter())


def run(name: str, allocations: int) -> tuple[list[Any], int, int]:
    """Return the answers of all calls, how many met a limit, and how many allocations were left."""
    answers, ended, left = [], 0, allocations
    for step in steps_of(name):
        faults().begin(left)
        try:
            answers.append(step())
            left = faults().end()
        except LimitExceeded as error:
            left = faults().end()
            assert left == 0, "no limit was set"
            assert error.limit == "work" or error.is_fixed, error
            assert "needs more than" in str(error), error
            ended, left = ended + 1, ANY_NUMBER
            answers.append(step())
        except BaseException:
            faults().end()
            raise
    return answers, ended, left


def forget() -> int:
    """Drop everything, and return how many bytes are still in use."""
    Compiler(VOCABULARY).forget()
    gc.collect()
    return faults().allocated()


def sweep(name: str) -> tuple[int, int]:
    """Try all small numbers of allocations and larger ones in steps; return the number of runs, and of those ended."""
    expected, _, left = run(name, ANY_NUMBER - 1)
    before = max(forget() for _ in range(2))
    expected, _, left = run(name, ANY_NUMBER - 1)
    most = ANY_NUMBER - 1 - left
    number, runs, struck = 0, 0, 0
    while number < most:
        answers, ended, _ = run(name, number)
        for place, (found, wanted) in enumerate(zip(answers, expected, strict=True)):
            assert found == wanted, (name, number, place, found, wanted)
        del answers
        runs, struck = runs + 1, struck + ended
        after = forget()
        assert after < before + SLACK, f"{name}: {after - before} bytes are left after {number} allocations"
        number += 1 + number // 8
    return runs, struck


if __name__ == "__main__":
    for given in sys.argv[1:] or FORMATS:
        total, met = sweep(given)
        print(f"{given}: {total} runs, of which {met} met a limit", flush=True)  # noqa: T201 - it is a program
