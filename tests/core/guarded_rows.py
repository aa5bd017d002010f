"""Random calls, right and wrong, that write to rows between pages which nobody may touch.

    PYTHONPATH=. python -m tests.core.guarded_rows 5000

Each array ends where such a page begins, or begins where one ends, so that a write past it kills the process. Printed
is how many calls filled a row, and how many raised an error of ours; anything else is an exception here.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from formatter_core import CompiledFormat, Compiler, Cursor, Vocabulary, bitmask, formats
from formatter_core.errors import FormatterError

FORMATS = (
    formats.regex("[a-z]{1,9}"),
    formats.regex("(?s).*"),
    formats.choice(["a", "zz", "~"]),
    formats.json_schema({"type": "array", "items": {"type": "integer"}}),
)
PAGE = mmap.PAGESIZE
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded(shape: tuple[int, ...], dtype: Any, at_end: bool) -> np.ndarray:
    """An array of ones in every bit, with its last byte before a page without access, or its first one behind one."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    pages = max(1, -(-size // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        if _protect(start + page * PAGE, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = PAGE * (1 + pages) - size if at_end else PAGE
    array = np.frombuffer(memory, dtype, int(np.prod(shape)), offset).reshape(shape)
    array.view(np.uint8)[:] = 255
    return array


def compiled_formats() -> list[CompiledFormat]:
    """Of vocabularies whose rows end inside a word, at its end, and just behind it."""
    found = []
    for size in (100, 128, 129, 160, 1000, 32 * PAGE // 4 + 1):
        tokens: list[bytes | None] = [bytes([token]) if token < 128 else None for token in range(size)]
        for token in range(max(0, size - 3), size):
            tokens[token] = b"ab"
        compiler = Compiler(Vocabulary([*tokens[:-1], None], [size - 1]), engine="native")
        found += [compiler.compile(format) for format in FORMATS]
    return found


class Calls:
    """One method for each way of writing a row; each returns the rows beside what they should be, or raises."""

    def __init__(self, compiled: list[CompiledFormat], seed: int) -> None:
        self._compiled = compiled
        self._rng = random.Random(seed)

    def any(self) -> Callable[[], list[tuple[np.ndarray, Any]]]:
        return self._rng.choice([self.fill, self.step, self.batch, self.cursors, self.drafts, self.ids, self.logits])

    def _begun(self) -> tuple[Any, int]:
        compiled = self._rng.choice(self._compiled)
        formatter = compiled.formatter()
        for _ in range(self._rng.randrange(4)):
            formatter.accept_token(self._rng.choice(formatter.allowed_tokens()))
        return formatter, compiled.vocabulary.words

    def _rows(self, count: int, words: int) -> np.ndarray:
        """Rows that are right, too short, too long, or of another kind."""
        rng = self._rng
        words = rng.choice([*[words] * 9, max(0, words - 1), words + 1, rng.randrange(2 * words)])
        dtype = rng.choice([np.int32] * 20 + [np.uint32, np.int64, np.int8])
        rows = guarded((count, words), dtype, rng.random() < 0.7)
        change = rng.randrange(20)
        if change == 0:
            rows.flags.writeable = False
        elif change == 1:
            rows = rows[:, ::2]
        elif change == 2:
            rows = rows[:, ::-1]
        elif change == 3:
            rows = np.asfortranarray(rows)
        return rows

    def fill(self) -> list[tuple[np.ndarray, Any]]:
        formatter, words = self._begun()
        row = self._rows(1, words)[0]
        formatter.fill_bitmask(row)
        return [(row, formatter)]

    def step(self) -> list[tuple[np.ndarray, Any]]:
        formatter, words = self._begun()
        row = self._rows(1, words)[0]
        formatter.step(self._rng.choice([*formatter.allowed_tokens(), -1, 2**31, 2**40, 99]), row)
        return [(row, formatter)]

    def batch(self) -> list[tuple[np.ndarray, Any]]:
        begun = [self._begun() for _ in range(self._rng.randint(1, 4))]
        rows = self._rows(max(0, len(begun) + self._rng.choice([0, 0, 0, -1, 1])), begun[0][1])
        bitmask.fill_batch([formatter for formatter, _ in begun], rows)
        return [(row, formatter) for row, (formatter, _) in zip(rows, begun, strict=False)]

    def cursors(self) -> list[tuple[np.ndarray, Any]]:
        begun = [self._begun() for _ in range(self._rng.randint(1, 4))]
        rows = self._rows(len(begun) + self._rng.choice([0, 0, -1, 1]), begun[0][1])
        indices = self._rng.sample(range(-1, len(begun) + 2), len(begun))
        cursors = [Cursor(formatter) for formatter, _ in begun]
        shape = (len(begun) + self._rng.choice([0, 0, -1, 1]), self._rng.choice([1, 97, 128, 160]))
        logits = guarded(shape, self._rng.choice([np.float32, np.float16]), self._rng.random() < 0.7)
        Cursor.step_batch(cursors, rows, self._rng.choice([None, indices]), self._rng.choice([None, logits]))
        return []

    def drafts(self) -> list[tuple[np.ndarray, Any]]:
        formatter, words = self._begun()
        drafts = [self._rng.choice([97, 49, 10**9, -1]) for _ in range(self._rng.randrange(4))]
        Cursor(formatter).fill_drafts(drafts, self._rows(max(0, len(drafts) + self._rng.choice([1, 1, 0, 2])), words))
        return []

    def ids(self) -> list[tuple[np.ndarray, Any]]:
        row = self._rows(1, 4)[0]
        ids = [self._rng.choice([0, 31, 32, 127, 128, -1, -129, 2**31, 2**70]) for _ in range(self._rng.randrange(40))]
        self._rng.choice([bitmask.set_ids, bitmask.clear_ids])(row, ids)
        return []

    def logits(self) -> list[tuple[np.ndarray, Any]]:
        """Wider and narrower than the row."""
        shape = (self._rng.choice([1, 2]), self._rng.choice([1, 97, 128, 129, 160]))
        logits = guarded(shape, self._rng.choice([np.float32, np.float16]), self._rng.random() < 0.7)
        rows = self._rows(self._rng.choice([1, 2]), 4)
        bitmask.apply_inplace(self._rng.choice([logits, logits[0]]), rows)
        bitmask.apply_row(logits[-1][:: self._rng.choice([1, 3, -1, -2])], rows[-1])
        return []


def check(row: np.ndarray, formatter: Any) -> None:
    """The row holds the mask, and nothing past it."""
    expected = formatter.allowed_tokens()
    if bitmask.allowed_ids(row) != expected:
        raise SystemExit(f"{bitmask.allowed_ids(row)} in place of {expected}")


def main(count: int) -> None:
    counts: Counter[str] = Counter()
    compiled = compiled_formats()
    for seed in range(count):
        try:
            filled = Calls(compiled, seed).any()()
        except FormatterError:
            counts["refused"] += 1
            continue
        counts["done"] += 1
        for row, formatter in filled:
            check(row, formatter)
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "past":
        ctypes.memset(guarded((4,), np.int32, at_end=True).ctypes.data, 0, 17)
    main(int(sys.argv[1]))
