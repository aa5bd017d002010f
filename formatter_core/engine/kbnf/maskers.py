"""Engines that compute masks, shared by all sequences of one grammar."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.kbnf import package as native
from formatter_core.engine.protocol import mask_status

__all__ = ["MaskerPool"]

#: The number of threads that may compute masks of one grammar at a time; each masker keeps its own masks.
_MASKERS = 4
#: What the package hashes to find a mask again, and so what it keeps beside it, in bytes per second.
_KEY_BYTES_PER_SECOND = 3e9


class _Masker:
    """One engine of the package over the whole vocabulary, its current text, and the size of its masks in bytes."""

    def __init__(self, engine: Any, size: int, table: native.TokenTable) -> None:
        self._engine = engine
        self._size = size
        self._table = table
        # The package writes 64-bit words; two ids past the vocabulary are its sentinel and its filler.
        self._words = np.zeros((size + 2 + 63) // 64, dtype=np.int64)
        self._address = int(self._words.ctypes.data)
        self.text = bytearray()
        self.kept_bytes = 0.0

    def fill(self, text: bytearray, row: NDArray[np.int32]) -> int:
        """Write the mask after `text`; what `EngineState.fill_bitmask` returns."""
        if not text.startswith(self.text):
            native.guarded(self._engine.reset)
            self.text.clear()
        missing = bytes(text[len(self.text) :])
        if missing:
            native.feed(self._engine, missing)
            self.text += missing
        native.guarded(self._compute)
        words = self._words.view(np.int32)
        row[:] = words[: len(row)]
        if self._size % 32:
            row[-1] &= np.int32((1 << self._size % 32) - 1)
        if len(self._table.firsts):
            firsts, others = self._table.firsts, self._table.others
            bits = (row[firsts >> 5] >> (firsts & 31).astype(np.int32)) & 1
            np.bitwise_or.at(row, others >> 5, bits << (others & 31).astype(np.int32))
        # The sentinel comes after the last token id, and may come where the text may end.
        return mask_status(row, bool(words[self._size // 32] >> self._size % 32 & 1))

    def _compute(self) -> None:
        """Compute the mask, and count what the package newly keeps.

        It does not say whether it had the mask. The same question at once again is surely answered from what it
        keeps, so an answer that took longer was new. Mistakes are small: all that an old one costs is counted too
        much, and a fiftieth of it in any case.
        """
        begin = time.perf_counter()
        self._engine.compute_allowed_token_ids()
        middle = time.perf_counter()
        self._engine.compute_allowed_token_ids()
        again = time.perf_counter() - middle
        size = self._words.nbytes + 200 + again * _KEY_BYTES_PER_SECOND
        self.kept_bytes += size if middle - begin > 1.5 * again + 3e-6 else size / 50
        self._engine.fill_torch_bitmask(self._address)


class MaskerPool:
    """A few maskers, made as threads need them; the masks that they keep are bounded in sum."""

    def __init__(self, template: Any, size: int, table: native.TokenTable, cache_bytes: int) -> None:
        self._template = template  # never computes a mask, so that copies of it are small
        self._size = size
        self._table = table
        self._cache_bytes = cache_bytes
        self._idle: list[_Masker] = []
        self._made = 0
        self._changed = threading.Condition()

    def fill(self, text: bytearray, row: NDArray[np.int32]) -> int:
        """Write the mask after `text` into a row of exactly as many words as the vocabulary needs."""
        with self._borrowed(text) as masker:
            return masker.fill(text, row)

    @contextmanager
    def _borrowed(self, text: bytearray) -> Iterator[_Masker]:
        with self._changed:
            while not self._idle and self._made == _MASKERS:
                self._changed.wait()
            masker = self._best(text)
            if masker is None:
                masker = _Masker(native.fork(self._template), self._size, self._table)
                self._made += 1
            else:
                self._idle.remove(masker)
        sound = False
        try:
            yield masker
            sound = True
        finally:
            with self._changed:
                if sound:
                    self._idle.append(masker)
                else:
                    self._made -= 1
                self._drop_largest()
                self._changed.notify()

    def _best(self, text: bytearray) -> _Masker | None:
        """Return the engine nearest before the end of the text, else the one that keeps most."""
        near = [masker for masker in self._idle if masker.text and text.startswith(masker.text)]
        if near:
            return max(near, key=lambda masker: len(masker.text))
        return max(self._idle, key=lambda masker: masker.kept_bytes, default=None)

    def _drop_largest(self) -> None:
        while self._idle and sum(masker.kept_bytes for masker in self._idle) > self._cache_bytes:
            self._idle.remove(max(self._idle, key=lambda masker: masker.kept_bytes))
            self._made -= 1
