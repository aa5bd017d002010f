"""One output, followed as its loop shows it: lists that grow, and shrink again where drafts were refused."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, bitmask
from formatter_core.runtime.cursor import FailureLog
from formatter_core.runtime.history import shared_length
from formatter_core.runtime.hook import ids_within, reused
from formatter_mlx.masks import Row, kind_of

__all__ = ["HOOK", "Sequence", "only_ids"]

HOOK = "FormatterLogitsProcessor"
_failures = FailureLog(logging.getLogger(__name__))


class Sequence:
    """The state of one output, and its mask.

    Args:
        compiled: the output's format.
        prompt: int64 (length,), the tokens that the first step showed. The prompt may be a part of the model's context:
            loops leave out the tokens in a prompt cache, and speculative decoding all but the last token.

    Attributes:
        compiled: the output's format.
        cursor: the state after the tokens that were shown last.
        tokens: these, without the prompt.
        has_drafts: whether the tokens shown last may contain drafts, and lack the last accepted token.
        next_length: of a list of this length only the latest id has to be read, if it is the same list grown; 0 where
            all of it has to be. An unread list keeps the one before it alive, so a list is read now and then.
        kind: of the latest logits, of width 0 before the first; those of one model have one dtype.
    """

    def __init__(self, compiled: CompiledFormat, prompt: NDArray[np.int64], has_drafts: bool) -> None:
        self.compiled = compiled
        self.cursor = Cursor(compiled.formatter())
        self.has_drafts = has_drafts
        self._prompt = prompt
        self.tokens: list[int] = []
        self.next_length = len(prompt) + 1
        self.kind = kind_of(0, mx.float32)
        self._row = Row(len(compiled.vocabulary))
        self._number: int | None = None  # the engine's status of the mask after these tokens

    def __len__(self) -> int:
        """Return the number of ids in the latest call, including the prompt."""
        return len(self._prompt) + len(self.tokens)

    def follow(self, shown: NDArray[np.int64]) -> None:
        """Bring the cursor in step with all ids that the loop shows, int64 (length,), the prompt included.

        Raises:
            HookReused: another prompt.
        """
        if shown[: len(self._prompt)].tobytes() != self._prompt.tobytes():
            raise reused()
        before, tokens = self.tokens, shown[len(self._prompt) :].tolist()
        common = shared_length(before, tokens)
        if common < len(before):
            self.cursor.rollback(len(before) - common)
            self._number = None
            self.has_drafts = True
        self.tokens = before[:common]
        self.next_length = len(self._prompt) + common + 1
        for token in tokens[common:]:
            self.append(token)

    def append(self, token: int) -> int | None:
        """Do `follow` for one more token; see `Cursor.append_kept`."""
        self._number = number = self.cursor.append_kept(token)
        self.tokens.append(token)
        length = self.next_length + 1 if self.next_length else len(self) + 1
        self.next_length = length if length % 256 else 0
        return number

    def masked(self, logits: mx.array) -> mx.array:
        """Return new logits, -inf wherever the format allows no token; a failed sequence keeps only its end ids.

        Args:
            logits: a floating dtype, shape (1, width).
        """
        cursor, number = self.cursor, self._number
        if self.kind.width != logits.shape[-1]:
            self.kind = kind_of(logits.shape[-1], logits.dtype)
        mask = None if number is None or cursor.has_failed else self.kind.numbered(number)
        if mask is None:
            cursor.fill_bitmask(self._row.words)
            mask = self._row.mask(self.kind)
            if cursor.has_failed:
                _failures.report(cursor, "output")
            elif number is not None:
                self.kind.keep_number(number, mask)
        return mask.apply(logits)

    def masked_after(self, token: int, logits: mx.array) -> mx.array:
        """Do `append`, then `masked` for logits of the same width as before."""
        # This is what almost every step takes. The model has just emptied the processor's caches, so each call counts.
        number = self.append(token)
        mask = None if number is None else self.kind.numbered(number)
        return self.masked(logits) if mask is None else mask.apply(logits)


def only_ids(logits: mx.array, ids: Iterable[int]) -> mx.array:
    """Return logits that allow only these ids; id 0 if another model's logits have none of them."""
    width = logits.shape[-1]
    row = Row(width)
    bitmask.set_ids(row.words, ids_within(ids, width))
    return row.mask(kind_of(width, logits.dtype)).apply(logits)
