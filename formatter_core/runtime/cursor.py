"""Follow one sequence of an inference engine: in step with the tokens that the engine keeps, and failing closed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from logging import Logger
from operator import index
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.rows import apply_at, check_row, check_rows, set_ids
from formatter_core.errors import FormatterError, HookNotCalled, InvalidArgument
from formatter_core.errors.arguments import not_a_token_id, shown, token_ids_of, whole_number
from formatter_core.runtime.batch import checked_places
from formatter_core.runtime.formatter import Formatter, step_together
from formatter_core.runtime.history import History, shared_length
from formatter_core.runtime.result import Ended, Result

__all__ = ["Cursor", "FailureLog", "NotCopied"]


class Cursor:
    """A formatter that follows a list of kept token ids, however the inference engine changes that list.

    Tokens may be appended, also several at once, taken back, cleared, or return after a preemption. The list may
    contain unchecked drafts, and -1 for tokens whose id is not known yet. A token that the format does not allow raises
    no exception here, and neither does any other error: the cursor keeps the error as `error`, and allows only the end
    ids until the list no longer contains that token. Adapters have no other state that must fail closed.

    The call that computes the next mask also accepts the latest token, without holding the GIL. The token is accepted
    earlier if you read anything else that depends on it.

    Args:
        formatter: the state in which the output begins. The cursor owns it from now on.

    Raises:
        InvalidArgument: `formatter` is not a formatter.

    Attributes:
        end_ids: the ids that end the sequence, sorted.
        has_failed: whether the sequence is known to be unable to continue; the latest token may not be accepted yet.
        is_used: whether a mask was requested, or a token followed.
        is_reported: whether a `FailureLog` has reported the failure.
    """

    __slots__ = (
        "_error",
        "_failed_after",
        "_formatter",
        "_history",
        "_kept",
        "_live",
        "_pending",
        "end_ids",
        "has_failed",
        "is_reported",
        "is_used",
    )

    def __init__(self, formatter: Formatter) -> None:
        if not isinstance(formatter, Formatter):
            raise InvalidArgument(
                f"{shown(formatter)} is not a Formatter; give compiled.formatter()", argument="formatter"
            )
        self._begin(formatter, formatter.end_ids, History([]))
        self._kept.extend(formatter.tokens)

    def _begin(self, formatter: Formatter | None, end_ids: tuple[int, ...], history: History[int]) -> None:
        self._formatter = formatter
        self.end_ids = end_ids
        self._history = history
        self._kept = history.tail  # the last block of the kept ids, to append to
        self._failed_after = 0
        self._pending: int | None = None  # the last kept token, if the formatter does not have it yet
        self._live: list[int] | None = None  # the caller's own list, if it is followed as it grows
        self._error: Exception | None = None
        self.has_failed = False
        self.is_used = False
        self.is_reported = False

    @classmethod
    def failed(cls, error: Exception, end_ids: Sequence[int]) -> Cursor:
        """Make the cursor of a sequence that could not begin, for example because its format does not compile.

        Raises:
            InvalidArgument: `error` is not an exception, or `end_ids` are not token ids.
        """
        cursor = cls.__new__(cls)
        cursor._begin(None, token_ids_of(end_ids, "end_ids"), History([]))
        cursor.fail(error)
        return cursor

    def __repr__(self) -> str:
        failure = f", failed: {self._error}" if self.has_failed else ""
        return f"<Cursor after {self.length} kept tokens{failure}>"

    # --- tokens ------------------------------------------------------------------------------------------------

    def follow(self, token_ids: Sequence[int]) -> None:
        """Update the sequence to the kept ids of the whole output so far.

        This compares the lists once, and takes a step for each token that is new or was taken back. If you pass the
        same list object again, the cursor assumes that it is the engine's own, which grows at its end: then it compares
        only its length and the last two ids.
        """
        kept, live = self._kept, self._live
        length = self._history.shared + len(kept)
        if token_ids is live is not None and len(live) == length + 1 and (not length or live[-2] == kept[-1]):
            self.append(live[-1])
            return
        self._live = token_ids if isinstance(token_ids, list) else None
        try:
            new = list(map(index, token_ids))
        except Exception:  # noqa: BLE001 - as in `append`
            self._keep_unknown(InvalidArgument(f"expected a list of token ids, found {shown(token_ids)}"))
            return
        common = shared_length(self._history.to_list(), new)
        if common < length:
            self._go_back(common)
        for token_id in new[common:]:
            self.append(token_id)

    def append(self, token_id: int) -> None:
        """Append one id, like `follow` without comparing the whole output."""
        self.is_used = True
        if self._pending is not None:
            self._settle()
        try:
            token_id = index(token_id)
        except Exception:  # noqa: BLE001 - whatever was given, and whatever it raises, it ends this sequence alone
            self._keep_unknown(not_a_token_id(token_id))
            return
        self._kept.append(token_id)
        if not self.has_failed:
            self._pending = token_id

    def rollback(self, count: int) -> None:
        """Take back the last `count` kept ids, or all if there are fewer.

        Raises:
            InvalidArgument: `count` is not a whole number of at least 0.
        """
        if whole_number(count, "count"):
            self._go_back(max(0, self.length - count))

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """Return how many of these ids the format allows next; 0 for a sequence that has failed. Nothing is changed."""
        self._settle()
        if not self.has_failed:
            try:
                return self.formatter.count_valid(token_ids)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
                self.fail(error)
        return 0

    def reset(self) -> None:
        """Start again with an empty output; a sequence that could not begin does not change."""
        self._go_back(0)
        self._live = None
        if self._formatter is not None:
            self._error, self.has_failed, self.is_reported = None, False, False

    def fail(self, error: Exception) -> None:
        """Allow only the end ids from now on; the first error is kept.

        Raises:
            InvalidArgument: `error` is not an exception.
        """
        if not isinstance(error, BaseException):
            raise InvalidArgument(f"{shown(error)} is not an exception; give the cause", argument="error")
        if self.has_failed:
            return
        self._pending = None
        self._error, self.has_failed = error, True
        if self._formatter is not None:
            self._failed_after = len(self._formatter.tokens)

    # --- masks -------------------------------------------------------------------------------------------------

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask as `Formatter.fill_bitmask` does; for a sequence that cannot continue,
        allow only its end ids.
        """
        self.is_used = True
        pending, self._pending = self._pending, None
        if not self.has_failed and self._formatter is not None:
            try:
                if pending is None:
                    self._formatter.fill_bitmask(row)
                else:
                    self._formatter.step(pending, row)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        if self.has_failed:
            self._fill_end_only(row)

    def append_kept(self, token_id: int) -> int | None:
        """Append a token; if the engine keeps the next mask, return its number; see `Formatter.step_kept`.

        If the number is new or None, get the mask from `fill_bitmask`.
        """
        if self._pending is not None or self.has_failed or self._formatter is None or type(token_id) is not int:
            self.append(token_id)
            return None
        self.is_used = True
        self._kept.append(token_id)
        try:
            number = self._formatter.step_kept(token_id)
        except Exception as error:  # noqa: BLE001 - as above
            self._pending = token_id
            self.fail(error)
            return None
        if number is None:
            self._pending = token_id
        return number

    def must_stop_or_wait(self) -> bool | None:
        """Return `must_stop`, or None if it is false and `fill_bitmask` may take long."""
        pending, self._pending = self._pending, None
        if pending is not None and not self.has_failed and self._formatter is not None:
            try:
                has_text = self._formatter.advance(pending)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
            else:
                return None if has_text is None else not has_text
        return self.must_stop or None

    @staticmethod
    def step_batch(
        cursors: Sequence[Cursor],
        rows: NDArray[np.int32],
        row_indices: Sequence[int] | None = None,
        logits: NDArray[Any] | None = None,
    ) -> None:
        """Write the masks of several cursors, in one call to the engine if possible.

        Args:
            cursors: the cursors, each at most once.
            rows: int32 (rows, words), writable, each row C-contiguous.
            row_indices: the row of each cursor; by default the first ones, in order.
            logits: floats (rows, width) to mask: every token that is not allowed gets -inf, in the logits of the same
                row. For float32 the same call does this.

        Raises:
            InvalidBitmask: the rows or logits have the wrong type or shape; nothing was changed. The cursors keep any
                other error.
            InvalidArgument: an item is not a cursor, or the number of row indices is wrong; nothing was changed.
        """
        count = len(cursors) if isinstance(cursors, Sequence) else -1
        if count < 0 or not {*map(type, cursors)} <= {Cursor}:
            raise InvalidArgument(f"{shown(cursors)} is not a list of cursors; give only cursors", argument="cursors")
        places = checked_places(rows, row_indices, count, logits)
        going, targets = cursors, places
        if True in [cursor.has_failed for cursor in cursors]:
            going = [cursor for cursor in cursors if not cursor.has_failed]
            targets = [place for cursor, place in zip(cursors, places, strict=True) if not cursor.has_failed]
        if going:
            formatters = [formatter for cursor in going if (formatter := cursor._formatter) is not None]
            tokens = [cursor._pending for cursor in going]
            for number, error in step_together(formatters, tokens, rows, targets, logits).items():
                going[number].fail(error)
        ended = []
        for cursor, place in zip(cursors, places, strict=True):
            cursor.is_used, cursor._pending = True, None
            if cursor.has_failed:
                cursor._fill_end_only(rows[place])
                ended.append(place)
        if logits is not None and ended:
            apply_at(logits, rows, ended)

    def fill_drafts(self, drafts: Sequence[int], rows: NDArray[np.int32]) -> int:
        """Write the masks for the next token and after each draft; return how many drafts the format allows.

        Args:
            drafts: ids that are proposed but not kept.
            rows: int32 (len(drafts) + 1, words). Row `i` is the mask after the first `i` drafts; past the first draft
                that is not allowed, the rows allow only the end ids, because no kept token can follow there.

        Raises:
            InvalidArgument: `drafts` are not token ids.
            InvalidBitmask: the rows have the wrong type or shape; nothing was changed.
        """
        drafts = token_ids_of(drafts, "drafts")
        check_rows(rows, len(drafts) + 1)
        self.fill_bitmask(rows[0])
        taken, filled = 0, 1
        if not self.has_failed:
            formatter = self.formatter
            with suppress(Exception):  # the error occurs again, and is kept, if the draft is kept
                for draft in drafts:
                    if not formatter.accept_tokens([draft]):
                        break
                    taken += 1
                    formatter.fill_bitmask(rows[taken])
                    filled += 1
            formatter.rollback(taken)
        for row in rows[filled : len(drafts) + 1]:
            self._fill_end_only(row)
        return taken

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def error(self) -> Exception | None:
        """Return the error because of which the sequence cannot continue; None while it can."""
        self._settle()
        return self._error

    @property
    def formatter(self) -> Formatter:
        """Return the state after the tokens that were accepted.

        Raises:
            Exception: the error that kept the sequence from beginning.
        """
        if self._formatter is None:
            raise self._error or HookNotCalled("the sequence could not begin")
        self._settle()
        return self._formatter

    @property
    def length(self) -> int:
        """Return the number of kept token ids."""
        return len(self._history)

    @property
    def bytes(self) -> bytes:
        """Return the bytes of the accepted tokens."""
        return b"" if self._formatter is None else self.formatter.bytes

    @property
    def must_stop(self) -> bool:
        """Return whether only an end id may follow: the text is complete and cannot continue, or the sequence has
        failed.
        """
        self._settle()
        if not self.has_failed:
            try:
                return self.formatter.must_stop
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return True

    def fork(self) -> Cursor:
        """Return an independent cursor with the same state."""
        if self._formatter is None:
            return Cursor.failed(self._error or HookNotCalled("the sequence could not begin"), self.end_ids)
        copy = Cursor.__new__(Cursor)
        copy._begin(self.formatter.fork(), self.end_ids, self._history.copy())
        copy._error, copy.has_failed, copy.is_used = self._error, self.has_failed, self.is_used
        copy._failed_after = self._failed_after
        return copy

    def result(self, ended: Ended | None = None) -> Result:
        """Return the outcome so far; a sequence that could not continue has ended with `"error"`.

        Raises:
            Exception: the error that kept the sequence from beginning.
        """
        return self.formatter.result("error" if self.error is not None else ended)

    def check_used(self, hint: str) -> None:
        """Raise `HookNotCalled` if no mask was requested and no token followed; `hint` says how to pass the hook."""
        if not self.is_used:
            raise HookNotCalled(hint)

    # --- internals -------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Accept the latest token, if the formatter does not have it yet."""
        pending, self._pending = self._pending, None
        if pending is None or self._formatter is None:
            return
        try:
            self._formatter.accept_token(pending)
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(error)

    def _keep_unknown(self, error: Exception) -> None:
        """Fail until the value that was given instead of a token id is removed."""
        self.is_used = True
        self._settle()
        self._kept.append(-1)
        self.fail(error)

    def _go_back(self, length: int) -> None:
        """Keep only the first `length` ids; there must be at least that many."""
        gone = self.length - length
        if not gone:
            return
        accepted = self._failed_after if self.has_failed else self.length - (self._pending is not None)
        self._history.drop(gone)
        if self._formatter is None:
            return
        self._pending = None
        if self.has_failed and length <= accepted:
            self._error, self.has_failed = None, False
        if length < accepted:
            try:
                self._formatter.rollback(accepted - length)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)

    def _fill_end_only(self, row: NDArray[np.int32]) -> None:
        check_row(row)
        row[:] = 0
        set_ids(row, self.end_ids)


class NotCopied:
    """A hook that follows one output and cannot be copied: a copy would use its state for another output."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidArgument(f"a {type(self).__name__} cannot be copied or pickled; create one for each call")


class FailureLog:
    """A counter and log of the sequences of a hook that failed, each once.

    Attributes:
        count: the number of failed sequences so far.
    """

    def __init__(self, logger: Logger) -> None:
        self.count = 0
        self._logger = logger

    def report(self, cursor: Cursor, name: str = "sequence") -> str | None:
        """Log and count a cursor that has failed, unless that was done before; `name` identifies its sequence in the
        message.

        Returns:
            the message; None if nothing was logged.
        """
        if not cursor.has_failed or cursor.is_reported:
            return None
        cursor.is_reported = True
        self.count += 1
        error, tokens = cursor.error, "1 token" if cursor.length == 1 else f"{cursor.length} tokens"
        is_ours = isinstance(error, FormatterError)
        told = f"{name} aborted after {tokens}: {error}"
        self._logger.error("%s", told, exc_info=None if is_ours else error)
        return told
