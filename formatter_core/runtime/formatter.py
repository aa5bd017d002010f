"""The state of one sequence."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.protocol import MAY_END, MAY_GO_ON
from formatter_core.errors import (
    BitmaskTooNarrow,
    ConcurrentUse,
    DeadEnd,
    InvalidArgument,
    LimitExceeded,
    TokenRejected,
)
from formatter_core.runtime import bitmask
from formatter_core.runtime.batch import ONE_THREAD, step_together
from formatter_core.runtime.result import Ended, Event, Result
from formatter_core.runtime.transcript import Transcript
from formatter_core.support.arguments import (
    as_bytes,
    elements_of,
    not_a_token_id,
    not_picklable,
    one_of,
    shown,
    whole_number,
)

if TYPE_CHECKING:
    from formatter_core.runtime.compiled import CompiledFormat

__all__ = ["Formatter"]

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def _exclusive(
    method: Callable[Concatenate[Formatter, Parameters], Returned],
) -> Callable[Concatenate[Formatter, Parameters], Returned]:
    """The method, one call at a time: overlapping ones raise `ConcurrentUse`."""

    @functools.wraps(method)
    def guarded(self: Formatter, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if not self._busy.acquire(False):
            raise ConcurrentUse(ONE_THREAD)
        try:
            return method(self, *args, **kwargs)
        finally:
            self._busy.release()

    return guarded  # type: ignore[return-value]  # functools.wraps hides the type of self


class Formatter:
    """The state of one sequence: which tokens may come next, and what has come.

    Made by `CompiledFormat.formatter`. A step is one accepted token, an end id included, or one accepted byte string.
    One thread's at a time; overlapping use raises `ConcurrentUse`.
    """

    # The methods that run for every token are written out, and what they need lies at hand: a call of Python's costs
    # as much as a tenth of their work.

    def __init__(self, compiled: CompiledFormat, end_ids: tuple[int, ...]) -> None:
        self.compiled = compiled
        self.end_ids = end_ids
        self._state = compiled.engine_grammar.start()
        self._transcript = Transcript(compiled)
        self._busy = threading.Lock()
        self._size = len(compiled.vocabulary)
        self._words = compiled.vocabulary.words
        # The engine takes end ids of the vocabulary for no text, but those of this sequence alone for what they are.
        self._own_ends = end_ids is not compiled.vocabulary.end_ids

    def __repr__(self) -> str:
        return f"<Formatter after {len(self._transcript.steps)} steps: {self.text[-40:]!r}>"

    # --- masks -------------------------------------------------------------------------------------------------

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the tokens that may come next: bit `i % 32` of word `i // 32` is set when token `i` may.

        Args:
            row: int32, C-contiguous, writable, one-dimensional. Words past the vocabulary are zeroed.

        Raises:
            DeadEnd: no token may come and the format may not end here.
            BitmaskTooNarrow: an allowed token lies past the end of the row.
            InvalidBitmask: the row is of another kind.
        """
        if not self._busy.acquire(False):
            raise ConcurrentUse(ONE_THREAD)
        try:
            self._fill(row)
        finally:
            self._busy.release()

    def step(self, token_id: int, row: NDArray[np.int32]) -> None:
        """`accept_token`, then `fill_bitmask`; a row that cannot be written is refused before the token is taken."""
        if not self._busy.acquire(False):
            raise ConcurrentUse(ONE_THREAD)
        try:
            bitmask.check_row(row)
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            transcript = self._transcript
            if transcript.ends or token_id in self.end_ids or not 0 <= token_id < self._size or row.size != self._words:
                self._accept(token_id)
                self._fill(row)
                return
            told = self._state.step(token_id, row)
            if not told:
                raise self._rejected(token_id)
            transcript.steps.append(token_id)
            if told & MAY_END or self._own_ends or not told & MAY_GO_ON:
                self._add_ends(row, told)
        finally:
            self._busy.release()

    @staticmethod
    def step_together(
        formatters: Sequence[Formatter],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        places: Sequence[int] | None = None,
    ) -> dict[int, Exception]:
        """`step` for several different formatters, in one call into the engine for those of one vocabulary.

        Args:
            formatters: at least one.
            token_ids: the token of each; None asks for its mask alone, as `fill_bitmask` does.
            rows: int32 (rows, words), writable, each row C-contiguous.
            places: the row of each; by default the first ones, in order.

        Returns:
            what `step` would have raised, by the formatter's index; empty where all went well. Those rows are all zero.

        Raises:
            InvalidBitmask: rows of another kind; nothing was changed.
            InvalidArgument: no formatters, or not as many tokens and places; nothing was changed.
        """
        for given, name in ((formatters, "formatters"), (token_ids, "token_ids")):
            if not isinstance(given, Sequence):
                raise InvalidArgument(f"{name} is {shown(given)}; give a list", argument=name)
        if not {*map(type, formatters)} <= {Formatter}:
            found = next(shown(each) for each in formatters if type(each) is not Formatter)
            raise InvalidArgument(f"{found} is not a Formatter; give formatters alone", argument="formatters")
        return step_together(formatters, token_ids, rows, places)

    @_exclusive
    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens that may come next, sorted."""
        row = np.zeros(self._words, dtype=np.int32)
        self._fill(row)
        return bitmask.allowed_ids(row)

    # --- steps -------------------------------------------------------------------------------------------------

    def accept_token(self, token_id: int) -> None:
        """Append one token.

        Raises:
            TokenRejected: it is not allowed here; nothing was changed.
        """
        if not self._busy.acquire(False):
            raise ConcurrentUse(ONE_THREAD)
        try:
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            self._accept(token_id)
        finally:
            self._busy.release()

    @_exclusive
    def accept_bytes(self, data: bytes) -> None:
        """Append bytes that came without a token, as one step.

        Raises:
            TokenRejected: they are not allowed here; nothing was changed.
        """
        part = as_bytes(data, "data")
        transcript = self._transcript
        if transcript.ends or not self._state.accept_bytes(part):
            reason = "the sequence has ended" if transcript.ends else f"the bytes {part!r} do not continue it"
            raise TokenRejected(None, position=len(transcript.bytes), reason=reason)
        transcript.append_bytes(part)

    @_exclusive
    def accept_tokens(self, token_ids: Iterable[int]) -> int:
        """Append tokens up to the first one that is not allowed; returns how many were taken."""
        return self._accept_while_allowed(token_ids)

    @_exclusive
    def count_valid(self, token_ids: Iterable[int]) -> int:
        """How many of the tokens `accept_tokens` would take; nothing is changed."""
        steps = self._transcript.steps
        before = len(steps)
        try:
            return self._accept_while_allowed(token_ids)
        finally:
            self._rollback(len(steps) - before)

    @_exclusive
    def rollback(self, steps: int) -> None:
        """Undo the last `steps` steps, end ids included.

        Raises:
            InvalidArgument: there are not that many.
        """
        most = len(self._transcript.steps)
        steps = whole_number(steps, "steps")
        if steps > most:
            raise InvalidArgument(f"cannot undo {steps} steps of {most}; ask for at most that many", argument="steps")
        self._rollback(steps)

    @_exclusive
    def reset(self) -> None:
        """Begin again with the empty text."""
        self._state = self.compiled.engine_grammar.start()
        self._transcript.clear()

    @_exclusive
    def fork(self) -> Formatter:
        """An independent formatter in the same state, rollback history included."""
        copy = Formatter.__new__(Formatter)
        copy.compiled = self.compiled
        copy.end_ids = self.end_ids
        copy._state = self._state.fork()
        copy._transcript = self._transcript.copy()
        copy._busy = threading.Lock()
        copy._size = self._size
        copy._words = self._words
        copy._own_ends = self._own_ends
        return copy

    def __copy__(self) -> Formatter:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Formatter:
        return self.fork()

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its tokens, and accept them in a formatter of the same format there")

    # --- where it stands ---------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether an end id was accepted."""
        return self._transcript.ends > 0

    @property
    @_exclusive
    def can_stop(self) -> bool:
        """Whether the text so far is complete."""
        return self._state.can_stop()

    @property
    @_exclusive
    def must_stop(self) -> bool:
        """Whether the text so far is complete and no token of text may follow."""
        return self._must_stop()

    @_exclusive
    def forced_bytes(self) -> bytes:
        """The longest byte string that begins every completion; b"" when `can_stop`; it may end inside a character."""
        return b"" if self._transcript.ends else self._state.forced_bytes(self.compiled.limits.forced_bytes)

    @_exclusive
    def explain(self, token_id: int) -> str:
        """Why a token is allowed or not: the text so far, what is expected, and where in the format."""
        try:
            token_id = index(token_id)
        except TypeError as error:
            raise not_a_token_id(token_id) from error
        return self._explain(token_id)

    # --- what has come -----------------------------------------------------------------------------------------

    @property
    def tokens(self) -> tuple[int, ...]:
        """The accepted token ids, end ids included."""
        return self._transcript.tokens

    @property
    def bytes(self) -> bytes:
        """The accepted bytes; end ids have none."""
        return self._transcript.bytes

    @property
    def text(self) -> str:
        """The accepted bytes as text; a character that is not complete becomes U+FFFD."""
        return self._transcript.text

    @property
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """The values captured so far, by name; of an unfinished text those that no continuation can change."""
        return self.result().captures

    @_exclusive
    def events(self) -> list[Event]:
        """What is new since the last call: holes opened, text added, values completed, text taken back.

        Of an unfinished text only what every surviving parse agrees on is told; the rest follows when the sequence is
        complete.
        """
        return self._transcript.events(complete=self._transcript.ends > 0 or self._must_stop())

    @_exclusive
    def result(self, ended: Ended | None = None) -> Result:
        """The outcome so far.

        Args:
            ended: how the sequence ended, as the caller knows it; None means `"end"` once an end id was accepted.

        A text is complete when it is in the format and was ended by the format's own rules: by an end id, or
        because nothing may follow.
        """
        if ended is not None:
            one_of(ended, "ended", get_args(Ended))
        is_finished = self._transcript.ends > 0
        how: Ended | None = "end" if ended is None and is_finished else ended
        may_end = self._state.can_stop()
        complete = may_end and (is_finished or how == "end" or self._must_stop())
        return self._transcript.result(how, complete=complete, may_end=may_end)

    # --- inside ------------------------------------------------------------------------------------------------

    def _fill(self, row: NDArray[np.int32]) -> None:
        bitmask.check_row(row)
        if row.size < self._words:
            self._fill_narrow(row)
            return
        text = row
        if row.size > self._words:
            row[self._words :] = 0
            text = row[: self._words]
        if self._transcript.ends:
            text[:] = 0
            told = MAY_END
        else:
            told = self._state.fill_bitmask(text)
        self._add_ends(text, told)

    def _fill_narrow(self, row: NDArray[np.int32]) -> None:
        """Write as much of the mask as the row is wide: all that is set, or else it fails."""
        full = np.zeros(self._words, dtype=np.int32)
        self._fill(full)
        needed = int(np.flatnonzero(full)[-1]) + 1
        if needed > row.size:
            raise BitmaskTooNarrow(width=row.size, needed=needed)
        row[:] = full[: row.size]

    def _add_ends(self, text: NDArray[np.int32], told: int) -> None:
        """Make the engine's mask of text tokens, of which it told this, the whole mask."""
        may_go_on = self._without_own_ends(text, told) if self._own_ends else told & MAY_GO_ON
        if told & MAY_END:
            bitmask.set_ids(text, self.end_ids)
        elif not may_go_on:
            raise DeadEnd(self.bytes, self._transcript.expected())

    def _without_own_ends(self, text: NDArray[np.int32], told: int) -> bool:
        """Take the end ids of this sequence out of a mask; whether it then allows any token."""
        bitmask.clear_ids(text, self.end_ids)
        return bool(told & MAY_GO_ON and text.any())

    def _accept(self, token_id: int) -> None:
        if not self._try(token_id):
            raise self._rejected(token_id)

    def _try(self, token_id: int) -> bool:
        transcript = self._transcript
        if token_id in self.end_ids:
            if not transcript.ends and not self._state.can_stop():
                return False
            transcript.ends += 1
        elif transcript.ends or not 0 <= token_id < self._size or not self._state.accept_token(token_id):
            return False
        transcript.steps.append(token_id)
        return True

    def _rejected(self, token_id: int) -> TokenRejected:
        return TokenRejected(token_id, position=len(self._transcript.steps), reason=self._explain(token_id))

    def _accept_while_allowed(self, token_ids: Iterable[int]) -> int:
        taken = 0
        for value in elements_of(token_ids, "token_ids", "token ids"):
            try:
                token_id = index(value)
            except TypeError as error:
                raise not_a_token_id(value) from error
            if not self._try(token_id):
                break
            taken += 1
        return taken

    def _rollback(self, steps: int) -> None:
        if not steps:
            return
        text_steps = steps - min(steps, self._transcript.ends)
        if text_steps:
            self._state.rollback(text_steps)
        self._transcript.undo(steps)

    def _must_stop(self) -> bool:
        if self._transcript.ends:
            return True
        if not self._state.can_stop():
            return False
        row = np.zeros(self._words, dtype=np.int32)
        told = self._state.fill_bitmask(row)
        return not (self._without_own_ends(row, told) if self._own_ends else told & MAY_GO_ON)

    def _explain(self, token_id: int) -> str:
        transcript = self._transcript
        if transcript.ends:
            verdict = "allowed" if token_id in self.end_ids else "not allowed"
            return f"{verdict}: the sequence has ended, so only end ids may follow"
        if token_id in self.end_ids:
            if self._state.can_stop():
                return f"allowed: {transcript.so_far()} the format may end"
            return f"not allowed: {transcript.so_far()} the format may not end; expected {transcript.expected()}"
        if token_id < 0:
            return "not allowed: its id is not known yet"
        if token_id >= self._size:
            return f"not allowed: the vocabulary has no token {token_id}, only 0 to {self._size - 1}"
        try:
            return transcript.explain(token_id)
        except LimitExceeded as error:  # the engine knows, where the parser that would say why runs out of steps
            verdict = "allowed" if self._try(token_id) else "not allowed"
            self._rollback(verdict == "allowed")
            so_far = transcript.so_far()
            return f"{verdict}: {so_far} this is what the mask says; there are no words for it, because {error}"
