"""The state of one sequence."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import BitmaskTooNarrow, ConcurrentUse, DeadEnd, InvalidFormat, LimitExceeded, TokenRejected
from formatter_core.events import EventStream
from formatter_core.explanation import expected_after, explain_token, recognizer_after
from formatter_core.format import Match
from formatter_core.parse import parse
from formatter_core.result import Ended, Event, Result

if TYPE_CHECKING:
    from formatter_core.compiled import CompiledFormat

__all__ = ["Formatter"]

_ONE_THREAD = "a formatter is one thread's at a time; give each thread a fork of its own"

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

#: What was accepted in one step: bytes, or the id of a token that has none.
Part: TypeAlias = bytes | int


def _exclusive(
    method: Callable[Concatenate[Formatter, Parameters], Returned],
) -> Callable[Concatenate[Formatter, Parameters], Returned]:
    """The method, one call at a time: overlapping ones raise `ConcurrentUse`."""

    @functools.wraps(method)
    def guarded(self: Formatter, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if not self._busy.acquire(False):
            raise ConcurrentUse(_ONE_THREAD)
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

    def __init__(self, compiled: CompiledFormat, end_ids: tuple[int, ...]) -> None:
        self.compiled = compiled
        self.end_ids = end_ids
        self._state = compiled.engine_grammar.start()
        self._steps: list[Part] = []
        self._ends = 0  # how many of the last steps are end ids
        self._events: EventStream | None = None  # made when captures of an unfinished text are first asked for
        self._busy = threading.Lock()

    def __repr__(self) -> str:
        return f"<Formatter after {len(self._steps)} steps: {self.text[-40:]!r}>"

    # --- masks -------------------------------------------------------------------------------------------------

    @_exclusive
    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the tokens that may come next: bit `i % 32` of word `i // 32` is set when token `i` may.

        Args:
            row: int32, C-contiguous, writable, one-dimensional. Words past the vocabulary are zeroed.

        Raises:
            DeadEnd: no token may come and the format may not end here.
            BitmaskTooNarrow: an allowed token lies past the end of the row.
            InvalidBitmask: the row is of another kind.
        """
        self._fill(row)

    @_exclusive
    def step(self, token_id: int, row: NDArray[np.int32]) -> None:
        """`accept_token`, then `fill_bitmask`; a row that cannot be written is refused before the token is taken."""
        bitmask.check_row(row)
        token_id = index(token_id)
        words = self.compiled.vocabulary.words
        if (
            self._ends
            or token_id in self.end_ids
            or not 0 <= token_id < len(self.compiled.vocabulary)
            or row.size < words
        ):
            self._accept(token_id)
            self._fill(row)
            return
        text = row[:words]
        if not self._state.step(token_id, text):
            raise TokenRejected(token_id, position=len(self._steps), reason=self._explain(token_id))
        self._steps.append(token_id)
        row[words:] = 0
        self._add_ends(text)

    @staticmethod
    def fill_together(formatters: Sequence[Formatter], rows: Sequence[NDArray[np.int32]]) -> None:
        """`fill_bitmask` for several different formatters, in one call into the engine where they share a vocabulary.

        Raises:
            FormatterError: what `fill_bitmask` of one of them raises; the rows hold nothing of use then.
        """
        vocabularies = {id(formatter.compiled.vocabulary) for formatter in formatters}
        engines = {type(formatter.compiled.engine_grammar) for formatter in formatters}
        if len(vocabularies) != 1 or len(engines) != 1:
            for formatter, row in zip(formatters, rows, strict=True):
                formatter.fill_bitmask(row)
            return
        held: list[Formatter] = []
        try:
            for formatter in formatters:
                if not formatter._busy.acquire(False):
                    raise ConcurrentUse(_ONE_THREAD)
                held.append(formatter)
            _fill_all(formatters, rows)
        finally:
            for formatter in held:
                formatter._busy.release()

    @_exclusive
    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens that may come next, sorted."""
        row = self._new_row()
        self._fill(row)
        return bitmask.allowed_ids(row)

    # --- steps -------------------------------------------------------------------------------------------------

    @_exclusive
    def accept_token(self, token_id: int) -> None:
        """Append one token.

        Raises:
            TokenRejected: it is not allowed here; nothing was changed.
        """
        self._accept(token_id)

    @_exclusive
    def accept_bytes(self, data: bytes) -> None:
        """Append bytes that came without a token, as one step.

        Raises:
            TokenRejected: they are not allowed here; nothing was changed.
        """
        part = bytes(memoryview(data))  # of whatever holds bytes; never of a number, which would be as many zeros
        if self._ends or not self._state.accept_bytes(part):
            reason = "the sequence has ended" if self._ends else f"the bytes {part!r} do not continue it"
            raise TokenRejected(-1, position=len(self._steps), reason=reason)
        self._steps.append(part)

    @_exclusive
    def accept_tokens(self, token_ids: Iterable[int]) -> int:
        """Append tokens up to the first one that is not allowed; returns how many were taken."""
        return self._accept_while_allowed(token_ids)

    @_exclusive
    def count_valid(self, token_ids: Iterable[int]) -> int:
        """How many of the tokens `accept_tokens` would take; nothing is changed."""
        before = len(self._steps)
        try:
            return self._accept_while_allowed(token_ids)
        finally:
            self._rollback(len(self._steps) - before)

    @_exclusive
    def rollback(self, steps: int) -> None:
        """Undo the last `steps` steps, end ids included.

        Raises:
            InvalidFormat: there are not that many.
        """
        if not 0 <= steps <= len(self._steps):
            raise InvalidFormat(f"cannot undo {steps} steps of {len(self._steps)}; ask for at most that many")
        self._rollback(steps)

    @_exclusive
    def reset(self) -> None:
        """Begin again with the empty text."""
        self._state = self.compiled.engine_grammar.start()
        self._steps.clear()
        self._ends = 0

    @_exclusive
    def fork(self) -> Formatter:
        """An independent formatter in the same state, rollback history included."""
        copy = Formatter.__new__(Formatter)
        copy.compiled = self.compiled
        copy.end_ids = self.end_ids
        copy._state = self._state.fork()
        copy._steps = self._steps.copy()
        copy._ends = self._ends
        copy._events = None
        copy._busy = threading.Lock()
        return copy

    def __copy__(self) -> Formatter:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Formatter:
        return self.fork()

    # --- where it stands ---------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether an end id was accepted."""
        return self._ends > 0

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
        return b"" if self._ends else self._state.forced_bytes(self.compiled.limits.forced_bytes)

    @_exclusive
    def explain(self, token_id: int) -> str:
        """Why a token is allowed or not: the text so far, what is expected, and where in the format."""
        return self._explain(index(token_id))

    # --- what has come -----------------------------------------------------------------------------------------

    @property
    def tokens(self) -> tuple[int, ...]:
        """The accepted token ids, end ids included."""
        return tuple(step for step in self._steps if isinstance(step, int))

    @property
    def bytes(self) -> bytes:
        """The accepted bytes; end ids have none."""
        return b"".join(part for part in self._parts() if isinstance(part, bytes))

    @property
    def text(self) -> str:
        """The accepted bytes as text; a character that is not complete becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

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
        if not self.compiled.has_captures:
            return []
        return self._stream().advance(self._parts(), self._parse() if self._ends or self._must_stop() else None)

    @_exclusive
    def result(self, ended: Ended | None = None) -> Result:
        """The outcome so far.

        Args:
            ended: how the sequence ended, as the caller knows it; None means `"end"` once an end id was accepted.

        A text is complete when it is in the format and was ended by the format's own rules: by an end id, or
        because nothing may follow.
        """
        if ended is not None and ended not in get_args(Ended):
            raise InvalidFormat(f"a sequence cannot have ended by {ended!r}; give one of {', '.join(get_args(Ended))}")
        how: Ended | None = "end" if ended is None and self._ends else ended
        complete = self._state.can_stop() and (self._ends > 0 or how == "end" or self._must_stop())
        match: Match | None = None
        certain: tuple[Match, ...] = ()
        fault: LimitExceeded | None = None  # told to those who read captures or the value: the text is there anyway
        try:
            match = self._parse() if complete else None
            # Of an unfinished text, the captures that no continuation can change are certain all the same.
            if match is None and self.compiled.has_captures:
                certain = tuple(self._stream().matches(self._parts()))
        except LimitExceeded as error:
            fault = error
        missing = None if complete and (match or fault) else self._what_is_missing(how)
        return Result(self.bytes, self.tokens, how, missing, self.compiled.lowered, match, certain, fault)

    # --- inside ------------------------------------------------------------------------------------------------

    def _new_row(self) -> NDArray[np.int32]:
        return np.zeros(self.compiled.vocabulary.words, dtype=np.int32)

    def _fill(self, row: NDArray[np.int32]) -> None:
        bitmask.check_row(row)
        words = self.compiled.vocabulary.words
        if row.size < words:
            full = self._new_row()
            self._fill(full)
            needed = int(np.flatnonzero(full)[-1]) + 1
            if needed > row.size:
                raise BitmaskTooNarrow(width=row.size, needed=needed)
            row[:] = full[: row.size]
            return
        row[words:] = 0
        text = row[:words]
        if self._ends:
            text[:] = 0
        else:
            self._state.fill_bitmask(text)
        self._add_ends(text)

    def _add_ends(self, text: NDArray[np.int32]) -> None:
        """Make the engine's mask of text tokens the whole mask."""
        self._clear_own_ends(text)
        if self._ends or self._state.can_stop():
            bitmask.set_ids(text, self.end_ids)
        elif not text.any():
            raise DeadEnd(self.bytes, self._expected())

    def _clear_own_ends(self, text: NDArray[np.int32]) -> None:
        if self.end_ids is not self.compiled.vocabulary.end_ids:  # those of the vocabulary are no text to the engine
            bitmask.clear_ids(text, self.end_ids)

    def _accept(self, token_id: int) -> None:
        token_id = index(token_id)
        if not self._try(token_id):
            raise TokenRejected(token_id, position=len(self._steps), reason=self._explain(token_id))

    def _try(self, token_id: int) -> bool:
        if token_id in self.end_ids:
            if not self._ends and not self._state.can_stop():
                return False
            self._ends += 1
        elif self._ends or not 0 <= token_id < len(self.compiled.vocabulary) or not self._state.accept_token(token_id):
            return False
        self._steps.append(token_id)
        return True

    def _accept_while_allowed(self, token_ids: Iterable[int]) -> int:
        taken = 0
        for token_id in token_ids:
            if not self._try(index(token_id)):
                break
            taken += 1
        return taken

    def _rollback(self, steps: int) -> None:
        if not steps:
            return
        ends = min(steps, self._ends)
        self._ends -= ends
        if steps > ends:
            self._state.rollback(steps - ends)
        del self._steps[len(self._steps) - steps :]

    def _must_stop(self) -> bool:
        if self._ends:
            return True
        if not self._state.can_stop():
            return False
        row = self._new_row()
        self._state.fill_bitmask(row)
        self._clear_own_ends(row)
        return not row.any()

    def _parts(self) -> list[Part]:
        """What was accepted, for the parser: bytes, and the ids of tokens that the grammar names by id."""
        vocabulary = self.compiled.vocabulary
        parts: list[Part] = []
        for step in self._steps[: len(self._steps) - self._ends]:
            if isinstance(step, int):
                text = vocabulary.text_token(step)
                parts.append(step if text is None else text)
            else:
                parts.append(step)
        return parts

    def _parse(self) -> Match | None:
        """The parse of a text that is in the format."""
        if not self.compiled.has_captures:
            # The engine has seen that the text is in the format, and there is nothing else to find out.
            data = self.bytes
            return Match("", 0, len(data), data)
        return parse(self.compiled.lowered.grammar, self._parts(), self.compiled.limits)

    def _stream(self) -> EventStream:
        if self._events is None:
            self._events = EventStream(self.compiled.lowered, self.compiled.limits)
        return self._events

    def _expected(self) -> str:
        return expected_after(self.compiled.lowered.grammar, self._parts(), self.compiled.limits)

    def _explain(self, token_id: int) -> str:
        so_far = f"after {self.text[-40:]!r}"
        if self._ends:
            verdict = "allowed" if token_id in self.end_ids else "not allowed"
            return f"{verdict}: the sequence has ended, so only end ids may follow"
        if token_id in self.end_ids:
            if self._state.can_stop():
                return f"allowed: {so_far} the format may end"
            return f"not allowed: {so_far} the format may not end; expected {self._expected()}"
        vocabulary = self.compiled.vocabulary
        if not 0 <= token_id < len(vocabulary):
            return f"not allowed: the vocabulary has no token {token_id}, only 0 to {len(vocabulary) - 1}"
        try:
            recognizer = recognizer_after(self.compiled.lowered.grammar, self._parts(), self.compiled.limits)
            return explain_token(recognizer, token_id, vocabulary.text_token(token_id), so_far)
        except LimitExceeded as error:  # the engine knows, where the parser that would say why runs out of steps
            verdict = "allowed" if self._try(token_id) else "not allowed"
            self._rollback(verdict == "allowed")
            return f"{verdict}: {so_far} this is what the mask says; there are no words for it, because {error}"

    def _what_is_missing(self, ended: Ended | None) -> str:
        if self._state.can_stop():
            return f"the format could end here, but also go on, and no end id was accepted (ended: {ended})"
        return f"the text is cut; expected {self._expected()}"


def _fill_all(formatters: Sequence[Formatter], rows: Sequence[NDArray[np.int32]]) -> None:
    """Fill the rows of formatters that share a vocabulary and an engine, and that the caller holds."""
    words = formatters[0].compiled.vocabulary.words
    alive: list[tuple[Formatter, NDArray[np.int32]]] = []
    for formatter, row in zip(formatters, rows, strict=True):
        if formatter._ends or row.size < words:
            formatter._fill(row)
        else:
            row[words:] = 0
            alive.append((formatter, row[:words]))
    if alive:
        states = [formatter._state for formatter, _ in alive]
        formatters[0].compiled.engine_grammar.fill_batch(states, [text for _, text in alive])
    for formatter, text in alive:
        formatter._add_ends(text)
