"""Implement the state of one sequence, without protection against other threads; `Formatter` and
batch steps share it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import index

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine import rows
from formatter_core.engine.protocol import EngineState, MaskStatus
from formatter_core.errors import (
    BitmaskTooNarrow,
    BudgetTooSmall,
    ConcurrentUse,
    DeadEnd,
    FormatterError,
    TokenRejected,
)
from formatter_core.errors.arguments import elements_of, not_a_token_id
from formatter_core.runtime.prepared import PreparedFormat
from formatter_core.runtime.result import Ended, Result
from formatter_core.runtime.transcript import Transcript

__all__ = ["SequenceState"]

ONE_THREAD = "only one thread at a time may use a formatter; give each thread a fork of its own"

# A module-level name is read faster than an attribute.
_HAS_TOKENS = MaskStatus.HAS_TOKENS


class SequenceState:
    """A group of the states of one sequence: the grammar engine's state, the transcript, and the end ids.

    Attributes:
        budget: the maximum number of tokens of the sequence, or None.
        engine: the grammar engine's state; it does not see end ids.
        idle: a list that has one item while no thread uses the sequence. `idle.pop()` begins the use: it is atomic,
            like taking a lock, but takes a fifth of the time. If it raises, call `was_not_taken`.
            `idle.append(None)` ends the use.
        shortened: the length of the transcript at which the budget first narrowed a mask, or -1.
        own_ends: whether the end ids differ from the vocabulary's.
        size: the number of ids of the vocabulary.
        vocabulary: the vocabulary of the compiled format.
        words: the number of 32-bit words of a row for them.
    """

    __slots__ = (
        "budget", "compiled", "end_ids", "engine", "idle", "own_ends", "shortened", "size", "transcript", "vocabulary",
        "words",
    )  # fmt: skip

    def __init__(self, compiled: PreparedFormat, end_ids: tuple[int, ...], budget: int | None = None) -> None:
        self.budget = budget
        self.compiled = compiled
        self.end_ids = end_ids
        self.shortened = -1
        self.vocabulary = vocabulary = compiled.vocabulary
        # The engine never treats the vocabulary's end ids as text; if this sequence has other end ids, they may be text
        # there.
        self.own_ends = end_ids is not vocabulary.end_ids
        self.engine = compiled.start()
        if budget is not None or self.own_ends:
            self._limit_start(self.engine)
        self.transcript = Transcript(compiled)
        self.idle = [None]
        self.size = len(vocabulary.tokens)
        self.words = vocabulary.words

    def fork(self) -> SequenceState:
        """Return an independent copy, including the rollback history."""
        copy = SequenceState.__new__(SequenceState)
        copy.budget = self.budget
        copy.compiled = self.compiled
        copy.end_ids = self.end_ids
        copy.engine = self.engine.fork()
        copy.transcript = self.transcript.copy()
        copy.idle = [None]
        copy.vocabulary = self.vocabulary
        copy.size = self.size
        copy.words = self.words
        copy.own_ends = self.own_ends
        copy.shortened = self.shortened
        return copy

    def was_not_taken(self, error: BaseException) -> None:
        """Handle an error of `idle.pop()`: raise `ConcurrentUse`, or give the sequence back and return.

        If a signal arrives during `idle.pop()`, CPython runs its handler right after: what the handler raises comes
        from the same expression, but the sequence is taken then.
        """
        if type(error) is IndexError:
            raise ConcurrentUse(ONE_THREAD) from None
        self.idle.append(None)

    def _limit_start(self, engine: EngineState) -> None:
        if self.budget is not None:
            self._limit(engine, self.budget)
        elif self.compiled.program.regions and self._text_among_ends():
            self._limit(engine, sys.maxsize)

    def _limit(self, engine: EngineState, budget: int) -> None:
        needed = engine.set_budget(budget, self._text_among_ends())
        if needed is None or needed > budget:
            raise BudgetTooSmall(budget, needed)

    def _text_among_ends(self) -> list[int]:
        """Return the end ids that the engine treats as text."""
        text = self.vocabulary.text_token
        return [token_id for token_id in self.end_ids if text(token_id)] if self.own_ends else []

    def set_budget(self, max_tokens: int | None) -> None:
        """Set the budget; see `Formatter.set_budget`."""
        if max_tokens is not None:
            max_tokens += len(self.transcript.tokens)
            self._limit(self.engine, max_tokens)
        elif self.budget is not None:
            self._limit(self.engine, sys.maxsize)
        self.budget = max_tokens

    def reset(self) -> None:
        """Start again with the empty text."""
        engine = self.compiled.start()
        self._limit_start(engine)
        self.engine = engine
        self.shortened = -1
        self.transcript.clear()

    def result(self, ended: Ended | None, *, now: bool = False) -> Result:
        """Return the outcome; see `Formatter.result`. `now` says that the result is read before the
        sequence continues.
        """
        is_finished = self.transcript.ends > 0
        how: Ended | None = "end" if ended is None and is_finished else ended
        may_end = self.engine.can_stop()
        complete = may_end and (is_finished or how == "end" or self.must_stop())
        shortened = None if self.shortened < 0 else self.transcript.offset_of(self.shortened)
        return self.transcript.result(how, complete=complete, may_end=may_end, shortened=shortened, now=now)

    def fill(self, row: NDArray[np.int32]) -> bool:
        """Write the mask, and return whether text may follow; see `Formatter.fill_bitmask`."""
        if not self.transcript.ends:
            status = self.engine.try_fill(row, self.words)
            if status >= 0:
                return True if status == _HAS_TOKENS and not self.own_ends else self.add_ends(row, status)
        rows.check_row(row)
        if row.size < self.words:
            return self._fill_narrow(row)
        text = row
        if row.size > self.words:
            row[self.words :] = 0
            text = row[: self.words]
        if self.transcript.ends:
            text[:] = 0
            status = MaskStatus.CAN_STOP
        else:
            status = self.engine.fill_bitmask(text)
        return self.add_ends(text, status)

    def _fill_narrow(self, row: NDArray[np.int32]) -> bool:
        """Write a mask into a row that is narrower than the vocabulary; raise if an allowed id does not fit."""
        full = np.zeros(self.words, dtype=np.int32)
        has_tokens = self.fill(full)
        needed = int(np.flatnonzero(full)[-1]) + 1
        if needed > row.size:
            raise BitmaskTooNarrow(width=row.size, needed=needed)
        row[:] = full[: row.size]
        return has_tokens

    def add_ends(self, text: NDArray[np.int32], status: int) -> bool:
        """Add the end ids to the engine's mask, which came with this `MaskStatus`; return whether
        it has text tokens.
        """
        if status & MaskStatus.SHORTENED and self.shortened < 0:
            self.shortened = self.transcript.length
        has_tokens = self._without_own_ends(text, status) if self.own_ends else status & MaskStatus.HAS_TOKENS > 0
        if status & MaskStatus.CAN_STOP:
            rows.set_ids(text, self.end_ids)
        elif not has_tokens:
            raise DeadEnd(self.transcript.bytes, self.transcript.copy().expected)
        return has_tokens

    def _without_own_ends(self, text: NDArray[np.int32], status: int) -> bool:
        """Remove the end ids of this sequence from a mask; return whether it then allows any token."""
        rows.clear_ids(text, self.end_ids)
        return bool(status & MaskStatus.HAS_TOKENS and text.any())

    def accept(self, token_id: int) -> None:
        """Append a token; see `Formatter.accept_token`."""
        if not self.try_token(token_id):
            raise self.rejected(token_id)

    def try_token(self, token_id: int) -> bool:
        """Append a token; return False and change nothing if it is not allowed."""
        transcript = self.transcript
        if token_id in self.end_ids:
            if not transcript.ends and not self.engine.can_stop():
                return False
            transcript.ends += 1
        elif transcript.ends or not self.engine.accept_token(token_id):
            return False
        transcript.steps.append(token_id)
        return True

    def rejected(self, token_id: int) -> TokenRejected:
        """Return the error for a token that is not allowed."""
        transcript, end_ids = self.transcript.copy(), self.end_ids

        def reason() -> str:
            fits_format, reason = transcript.explain(token_id, end_ids, can_stop=_no, allows=_no)
            return reason + self._over_budget(transcript) if fits_format else reason

        return TokenRejected(token_id, position=transcript.length, reason=reason)

    def _over_budget(self, transcript: Transcript) -> str:
        """Describe a token that the format allows but the budget does not."""
        if self.budget is None:
            return ", but no completion after it fits the budget of a part" if self._has_budget() else ""
        left = max(0, self.budget - len(transcript.tokens))
        return f", but no completion after it fits into what is left of max_tokens = {self.budget}: {left}"

    def accept_while_allowed(self, token_ids: Iterable[int]) -> int:
        """Append tokens while they are allowed; see `Formatter.accept_tokens`."""
        taken = 0
        for value in elements_of(token_ids, "token_ids", "token ids"):
            try:
                token_id = index(value)
            except TypeError as error:
                raise not_a_token_id(value) from error
            if not self.try_token(token_id):
                break
            taken += 1
        return taken

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` steps; there must be at least that many."""
        if not steps:
            return
        text_steps = steps - min(steps, self.transcript.ends)
        if text_steps:
            self.engine.rollback(text_steps)
        self.transcript.undo(steps)
        if self.transcript.length <= self.shortened:
            self.shortened = -1

    def agree_again(self, error: BaseException) -> None:
        """Undo the steps that only the engine or only the transcript has, unless the error is one of ours.

        Such steps are there if a signal's handler has raised the error.
        """
        if isinstance(error, FormatterError):
            return
        self.transcript.drop_half_steps()
        taken = self.engine.steps_taken()
        if taken is None:
            return
        unknown = taken - (self.transcript.length - self.transcript.ends)
        if unknown > 0:
            self.engine.rollback(unknown)
        elif unknown < 0:  # in a rollback, where the engine comes first, and end ids go first
            self.transcript.undo(self.transcript.ends - unknown)

    def must_stop(self) -> bool:
        """Return whether the text so far is complete and no token of text may follow."""
        if self.transcript.ends:
            return True
        if not self.engine.can_stop():
            return False
        row = np.zeros(self.words, dtype=np.int32)
        status = self.engine.fill_bitmask(row)
        return not (self._without_own_ends(row, status) if self.own_ends else status & MaskStatus.HAS_TOKENS)

    def explain(self, token_id: int) -> str:
        """Explain a token; see `Formatter.explain`."""
        is_allowed, reason = self.transcript.explain(
            token_id, self.end_ids, can_stop=self.engine.can_stop, allows=lambda: self._allows(token_id)
        )
        if is_allowed and self._has_budget() and not self._allows(token_id):
            is_allowed, reason = False, reason + self._over_budget(self.transcript)
        return f"{'allowed' if is_allowed else 'not allowed'}: {reason}"

    def _has_budget(self) -> bool:
        return self.budget is not None or self.compiled.program.regions > 0

    def _allows(self, token_id: int) -> bool:
        is_allowed = self.try_token(token_id)
        self.rollback(int(is_allowed))
        return is_allowed


def _no() -> bool:
    return False
