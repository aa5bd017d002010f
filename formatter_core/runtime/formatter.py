"""Define the state of one sequence."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Generic, Literal, NoReturn, TypeVar, cast, get_args, overload

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine import rows
from formatter_core.engine.protocol import MaskStatus
from formatter_core.errors import (
    InvalidArgument,
    TokenRejected,
)
from formatter_core.errors.arguments import (
    as_bytes,
    not_a_token_id,
    not_picklable,
    one_of,
    shown,
    true_or_false,
    whole_number,
)
from formatter_core.formats.json_reader import JsonDelta
from formatter_core.formats.partial import Partial
from formatter_core.runtime.batch import checked_places, step_batch
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.prepared import PreparedFormat
from formatter_core.runtime.result import Ended, Event, Result
from formatter_core.runtime.sequence_state import SequenceState

__all__ = ["Formatter", "step_together"]

# Text may follow, and nothing else is to be reported. A module-level name is read faster than an attribute.
_TEXT_ONLY = MaskStatus.HAS_TOKENS | MaskStatus.ACCEPTED

Method = TypeVar("Method", bound=Callable[..., Any])
_T = TypeVar("_T")


def _exclusive(method: Method) -> Method:
    """Make a method run one call at a time: overlapping calls raise `ConcurrentUse`."""

    @functools.wraps(method)
    def guarded(self: Formatter, *args: Any, **kwargs: Any) -> Any:
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            state.agree_again(error)
            raise
        finally:
            state.idle.append(None)

    return cast(Method, guarded)


class Formatter(Generic[Value_co]):
    """The state of one sequence: which tokens may come next, and which were accepted.

    `CompiledFormat.formatter` makes it. A step is one accepted token, which may be an end id, or one accepted byte
    string. Only one thread at a time may use a formatter; overlapping use raises `ConcurrentUse`.
    """

    # The methods that run for every token are inlined, because one Python call costs a tenth of their work.

    def __init__(
        self, compiled: PreparedFormat[Value_co], end_ids: tuple[int, ...], max_tokens: int | None = None
    ) -> None:
        self._state = SequenceState(compiled, end_ids, max_tokens)

    @property
    def compiled(self) -> PreparedFormat[Value_co]:
        """Return the compiled format that it was made from."""
        return self._state.compiled

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Return the ids that end this sequence, sorted."""
        return self._state.end_ids

    @property
    def max_tokens(self) -> int | None:
        """Return the number of tokens within which the output is complete; None without a budget."""
        return self._state.budget

    @property
    def is_shortened(self) -> bool:
        """Return whether the budget has narrowed a choice so far; `Result.shortened` says where."""
        return self._state.shortened >= 0

    def __repr__(self) -> str:
        return f"<Formatter after {self._state.transcript.length} steps: {self.text[-40:]!r}>"

    # --- masks -------------------------------------------------------------------------------------------------

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the tokens that may come next: bit `i % 32` of word `i // 32` is set if token `i` may.

        Args:
            row: int32, C-contiguous, writable, one-dimensional. Words past the vocabulary are zeroed.

        Raises:
            DeadEnd: no token may come, and the format may not end here.
            BitmaskTooNarrow: an allowed token lies past the end of the row.
            InvalidBitmask: the row has the wrong type or shape.
        """
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            state.fill(row)
        finally:
            state.idle.append(None)

    def step(self, token_id: int, row: NDArray[np.int32]) -> bool:
        """Accept a token, then fill the mask; a row that cannot be written is refused before the token is accepted.

        Returns:
            whether text may follow.
        """
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            rows.check_row(row)
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            transcript = state.transcript
            is_text = 0 <= token_id < state.size and token_id not in state.end_ids
            if transcript.ends or not is_text or row.size != state.words:
                state.accept(token_id)
                return state.fill(row)
            status = state.engine.step(token_id, row)
            if not status:
                raise state.rejected(token_id)
            transcript.steps.append(token_id)
            has_text = state.add_ends(row, status) if status != _TEXT_ONLY or state.own_ends else True
        except BaseException as error:
            state.agree_again(error)
            raise
        finally:
            state.idle.append(None)
        return has_text

    def step_kept(self, token_id: int) -> int | None:
        """Accept a token if the engine keeps the mask after it; return a number for that mask, end ids included.

        Masks with the same number are identical, whatever formatters of this process they come from; equal masks may
        have several numbers. It returns None and changes nothing if the mask is not kept, if a budget may change it, if
        the token is not allowed or is an end id, or if the end ids are not the vocabulary's.
        """
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            transcript = state.transcript
            if transcript.ends or state.own_ends or token_id in state.end_ids:
                return None
            number = state.engine.step_kept(token_id)
            if number:
                transcript.steps.append(token_id)
        except BaseException as error:
            state.agree_again(error)
            raise
        finally:
            state.idle.append(None)
        return number or None

    @staticmethod
    def step_batch(
        formatters: Sequence[Formatter],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        row_indices: Sequence[int] | None = None,
    ) -> dict[int, Exception]:
        """Do `step` for several formatters, in one call to the engine for those of one vocabulary.

        Args:
            formatters: at least one, each at most once.
            token_ids: the token of each formatter; None only requests its mask, as `fill_bitmask` does.
            rows: int32 (rows, words), writable, each row C-contiguous.
            row_indices: the row of each formatter; by default the first ones, in order.

        Returns:
            the errors that `step` would have raised, by the formatter's index; empty if there are none. The rows of
                failed formatters are zero.

        Raises:
            InvalidBitmask: the rows have the wrong type or shape; nothing was changed.
            InvalidArgument: there are no formatters, or the number of tokens or row indices differs; nothing was
                changed.
        """
        for given, name in ((formatters, "formatters"), (token_ids, "token_ids")):
            if not isinstance(given, Sequence):
                raise InvalidArgument(f"{name} is {shown(given)}; give a list", argument=name)
        if not {*map(type, formatters)} <= {Formatter}:
            found = next(shown(each) for each in formatters if type(each) is not Formatter)
            raise InvalidArgument(f"{found} is not a Formatter; give only formatters", argument="formatters")
        count = len(formatters)
        places = checked_places(rows, row_indices, count)
        if not count or len(token_ids) != count:
            raise InvalidArgument(
                f"found {count} formatters and {len(token_ids)} token ids; give equal numbers of each, at least one"
            )
        return step_together(formatters, token_ids, rows, places)

    @_exclusive
    def allowed_tokens(self) -> list[int]:
        """Return the ids of the tokens that may come next, sorted."""
        row = np.zeros(self._state.words, dtype=np.int32)
        self._state.fill(row)
        return rows.allowed_ids(row)

    # --- steps -------------------------------------------------------------------------------------------------

    def accept_token(self, token_id: int) -> None:
        """Append one token.

        Raises:
            TokenRejected: the token is not allowed here; nothing was changed.
        """
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            # This is `state.accept`, inlined for a token of text.
            if state.transcript.ends or token_id in state.end_ids:
                state.accept(token_id)
            elif state.engine.accept_token(token_id):
                state.transcript.steps.append(token_id)
            else:
                raise state.rejected(token_id)
        except BaseException as error:
            state.agree_again(error)
            raise
        finally:
            state.idle.append(None)

    def advance(self, token_id: int) -> bool | None:
        """Append a token as `accept_token` does, and return whether text may follow.

        Returns:
            whether text may follow; None if it must, and `fill_bitmask` may take long.
        """
        state = self._state
        try:
            state.idle.pop()
        except BaseException as error:
            state.was_not_taken(error)
            raise
        try:
            try:
                token_id = index(token_id)
            except TypeError as error:
                raise not_a_token_id(token_id) from error
            if state.transcript.ends or token_id in state.end_ids or not 0 <= token_id < state.size:
                state.accept(token_id)
                return False
            status = state.engine.advance(token_id)
            if not status:
                raise state.rejected(token_id)
            state.transcript.steps.append(token_id)
            if status == _TEXT_ONLY:
                return True
            if state.own_ends or status == MaskStatus.ACCEPTED:  # unknown: a token of text may be allowed
                return (not state.must_stop()) if state.engine.can_stop() else None
            return bool(status & MaskStatus.HAS_TOKENS)
        except BaseException as error:
            state.agree_again(error)
            raise
        finally:
            state.idle.append(None)

    @_exclusive
    def accept_bytes(self, data: bytes) -> None:
        """Append bytes that came without a token, as one step.

        Raises:
            TokenRejected: the bytes are not allowed here; nothing was changed.
        """
        part = as_bytes(data, "data")
        transcript = self._state.transcript
        if transcript.ends or not self._state.engine.accept_bytes(part):
            reason = "the sequence has ended" if transcript.ends else functools.partial(transcript.copy().refusal, part)
            raise TokenRejected(None, position=len(transcript.bytes), reason=reason)
        transcript.append_bytes(part)

    @_exclusive
    def accept_tokens(self, token_ids: Iterable[int]) -> int:
        """Append tokens up to the first one that is not allowed, and return how many were appended."""
        return self._state.accept_while_allowed(token_ids)

    @_exclusive
    def count_valid(self, token_ids: Iterable[int]) -> int:
        """Return how many of the tokens `accept_tokens` would append; nothing is changed."""
        transcript = self._state.transcript
        before = transcript.length
        try:
            return self._state.accept_while_allowed(token_ids)
        finally:
            self._state.rollback(transcript.length - before)

    @_exclusive
    def rollback(self, steps: int) -> None:
        """Undo the last `steps` steps, including end ids.

        Raises:
            InvalidArgument: there are fewer steps.
        """
        most = self._state.transcript.length
        steps = whole_number(steps, "steps")
        if steps > most:
            raise InvalidArgument(f"cannot undo {steps} steps; undo at most {most}", argument="steps")
        self._state.rollback(steps)

    @_exclusive
    def reset(self) -> None:
        """Start again with the empty text."""
        self._state.reset()

    @_exclusive
    def fork(self) -> Formatter[Value_co]:
        """Return an independent formatter in the same state, including its rollback history."""
        copy = Formatter.__new__(Formatter)
        copy._state = self._state.fork()
        return copy

    def __copy__(self) -> Formatter[Value_co]:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Formatter[Value_co]:
        return self.fork()

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its tokens, and accept them in a formatter of the same format there")

    # --- state -------------------------------------------------------------------------------------------------

    @_exclusive
    def set_budget(self, max_tokens: int | None) -> None:
        """Complete the output within this many more tokens, including the end id; None removes the budget.

        Raises:
            BudgetTooSmall: no completion is known to fit; nothing was changed. Its numbers count from the beginning of
                the output.
            UnsupportedByEngine: the engine does not support budgets.
            InvalidArgument: `max_tokens` is not a whole number of at least 1.
        """
        self._state.set_budget(None if max_tokens is None else whole_number(max_tokens, "max_tokens", 1))

    @property
    def is_finished(self) -> bool:
        """Return whether an end id was accepted."""
        return self._state.transcript.ends > 0

    @property
    @_exclusive
    def can_stop(self) -> bool:
        """Return whether the text so far is complete."""
        return self._state.engine.can_stop()

    @property
    @_exclusive
    def must_stop(self) -> bool:
        """Return whether the text so far is complete and no token of text may follow."""
        return self._state.must_stop()

    @_exclusive
    def forced_bytes(self) -> bytes:
        """Return the longest common prefix of all completions; b"" if `can_stop`; it may end inside a character."""
        state = self._state
        return b"" if state.transcript.ends else state.engine.forced_bytes(state.compiled.limits.forced_bytes)

    @_exclusive
    def explain(self, token_id: int) -> str:
        """Explain why a token is allowed or not: the text so far, what is expected, and where in the format."""
        try:
            token_id = index(token_id)
        except TypeError as error:
            raise not_a_token_id(token_id) from error
        return self._state.explain(token_id)

    # --- output ------------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> tuple[int, ...]:
        """Return the accepted token ids, including end ids."""
        return self._state.transcript.tokens

    @property
    def bytes(self) -> bytes:
        """Return the accepted bytes; end ids have none."""
        return self._state.transcript.bytes

    @property
    def text(self) -> str:
        """Return the accepted bytes as text; U+FFFD replaces an incomplete character."""
        return self._state.transcript.text

    @property
    @_exclusive
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """Return the values captured so far, by name; for an unfinished text, only those that no continuation can
        change.
        """
        return self._state.result(None, now=True).captures

    @_exclusive
    def events(self) -> list[Event]:
        """Return the new events since the last call: holes opened, text added, values completed, text taken back.

        For an unfinished text, these are only the events that every surviving parse agrees on; the rest follows when
        the sequence is complete.
        """
        return self._state.transcript.events(complete=self._is_complete())

    @overload
    def snapshot(
        self: Formatter[list[_T]], *, plain: Literal[False] = False, open_numbers: bool = False
    ) -> list[_T | Partial[_T]] | None: ...
    @overload
    def snapshot(
        self, *, plain: Literal[False] = False, open_numbers: bool = False
    ) -> Value_co | Partial[Value_co] | None: ...
    @overload
    def snapshot(self, *, plain: bool, open_numbers: bool = False) -> Any: ...
    def snapshot(self, *, plain: bool = False, open_numbers: bool = False) -> Any:
        """Return the value as far as it is certain, at any token; None while nothing is certain.

        JSON is given as dicts and lists with their complete items and the item that has begun; a string as far as it is
        written; a number, true, false or null once it is complete. With a Python type, complete values are instances of
        the type, and an unfinished object is a `Partial`. Text with holes is a dict of the holes that have begun.

        A snapshot shares its complete parts with later ones; do not change it. It costs the parsing of the new text,
        and a copy of the open lists and dicts, but not of their contents.

        Args:
            plain: whether to give JSON as JSON data, whatever its Python type.
            open_numbers: whether to give a number that may have more digits as far as it is written.
        """
        return self._snapshot(true_or_false(plain, "plain"), true_or_false(open_numbers, "open_numbers"))

    @_exclusive
    def _snapshot(self, plain: bool, open_numbers: bool) -> Any:
        return self._state.transcript.snapshot(self._is_complete(), plain=plain, open_numbers=open_numbers)

    @_exclusive
    def deltas(self) -> list[JsonDelta]:
        """Return the changes of `snapshot(plain=True)` since the last call, or since the beginning.

        The cost is that of the new text. After a rollback past text that was reported, the changes begin again with the
        whole value.
        """
        return self._state.transcript.deltas(self._is_complete())

    def _is_complete(self) -> bool:
        return self._state.transcript.ends > 0 or self._state.must_stop()

    @_exclusive
    def result(self, ended: Ended | None = None) -> Result[Value_co]:
        """Return the outcome so far.

        Args:
            ended: how the sequence ended, if you know it; by default `"end"` once an end id was accepted.

        A text is complete if it matches the format and the format itself ended it: by an end id, or because nothing
        more may follow.
        """
        if ended is not None:
            one_of(ended, "ended", get_args(Ended))
        return self._state.result(ended)


def step_together(
    formatters: Sequence[Formatter],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    places: Sequence[int],
    logits: NDArray[Any] | None = None,
) -> dict[int, Exception]:
    """Do `Formatter.step_batch` with checked arguments; it can also mask logits (rows, width).

    The logits of formatters that failed are not changed.
    """
    return step_batch([formatter._state for formatter in formatters], token_ids, rows, places, logits)
