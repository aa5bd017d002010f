"""The sequences of successive requests, as a logits processor sees them: at each call, all ids so far."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, Formatter
from formatter_core.generation.forced import forced_drafts
from formatter_llama_cpp import _compat
from formatter_llama_cpp.prompts import continuation
from formatter_llama_cpp.vocabulary import texts_of

__all__ = ["FollowedSequence"]


class FollowedSequence:
    """The generated part of the latest request, without its prompt; detects when a new request begins.

    Args:
        llama: what generates.
        compiled: the format of each request.

    Attributes:
        cursor: the state after the ids that were shown.
    """

    def __init__(self, llama: weakref.ref[Any], compiled: CompiledFormat) -> None:
        self._llama = llama
        self._compiled = compiled
        self._generation: weakref.ref[Any] | None = None
        self._calls_of_generation = 0
        self._begin([])

    def _begin(self, prompt: list[int]) -> None:
        self.cursor = Cursor(self._compiled.formatter())
        self._known = len(prompt)  # how many of the ids are followed, the prompt included
        self._prompt = prompt
        self._ids = b""  # those ids, as they lie in memory

    def follow(self, ids: NDArray[np.intc]) -> None:
        """Bring the cursor in step with all ids, the prompt included."""
        if self.cursor.is_used and self._has_drafts():
            # There is one call for each kept token; any ids after those are unchecked drafts.
            ids = ids[: self._known + 1]
        if not self._continued_by(ids):
            self._begin(ids.tolist())
        new = ids[self._known :].tolist()
        self._known, self._ids = len(ids), ids.tobytes()
        for token_id in new:
            self.cursor.append(token_id)

    def forced(self, ids: NDArray[np.intc], most: int) -> list[int]:
        """Return the tokenizer's tokens for text that must follow these ids; the last id was not followed yet."""
        llama, known = self._llama(), self._known
        if llama is None or self.cursor.has_failed or len(ids) != known + 1 or ids[:known].tobytes() != self._ids:
            return []

        def after() -> Formatter:
            formatter = self.cursor.formatter.fork()
            formatter.accept_token(int(ids[known]))
            return formatter

        return forced_drafts(after, partial(continuation, llama), most)

    def prompts(self) -> list[str]:
        """Return the texts that the request's prompt may be."""
        return texts_of(self._compiled.vocabulary, self._prompt)

    def _continued_by(self, ids: NDArray[np.intc]) -> bool:
        """Tell whether these ids continue the known ones; otherwise they are the prompt of a new request."""
        known = self._known
        is_same_generation = self._notice_generation(exactly_one=len(ids) == known + 1)
        if not self.cursor.is_used or not is_same_generation or len(ids) <= known:
            return False
        if ids[:known].tobytes() != self._ids:
            return False
        new = ids[known:].tolist()
        # One token that is not allowed is an error; several are the prompt of a continued conversation.
        return len(new) == 1 or self.cursor.has_failed or self.cursor.count_valid(new) == len(new)

    def _notice_generation(self, *, exactly_one: bool) -> bool:
        """Tell whether this is the same call of `generate` as last time, as far as can be known."""
        llama = self._llama()
        current = None if llama is None else _compat.generation_of(llama)
        if current is None:
            return True
        before = None if self._generation is None else self._generation()
        if current is before:
            self._calls_of_generation += 1
            return True
        # Whoever calls `Llama.sample` itself has a new sampler for each token.
        is_by_hand = self._calls_of_generation == 1 and exactly_one
        self._generation, self._calls_of_generation = weakref.ref(current), 1
        return is_by_hand or not self.cursor.is_used

    def _has_drafts(self) -> bool:
        llama = self._llama()
        return llama is not None and _compat.has_drafts(llama)
