"""The output of one job: its tokens, and the mask of the next one, worked out when it is first asked for."""

from __future__ import annotations

import logging
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Formatter, Result, bitmask
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.runtime.result import Ended, Event

__all__ = ["Sequence"]

logger = logging.getLogger("formatter_exllamav2")


class Sequence:
    """Follows the tokens of one job. Only what is said to raise does; any other failure is kept as `error`.

    Tokens are only noted when they come, because the GPU waits meanwhile; what they mean is found by `advance`, for
    which ExLlamaV2 has threads that run beside the GPU. Safe to share between threads.

    Args:
        start: the state in which every output begins; never changed.

    Raises:
        FormatterError: nothing can come first.
    """

    def __init__(self, start: Formatter) -> None:
        self._start = start
        self._first = np.zeros(start.compiled.vocabulary.words, dtype=np.int32)
        start.fill_bitmask(self._first)
        self.row = self._first.copy()
        """The mask of the next token, int32 (words,), as of the last `advance`."""
        self.version = 0
        """Counts how often `row` was written."""
        self.is_used = False
        self._pending: list[int] = []
        self._lock = RLock()
        self._begin()

    @property
    def prefix(self) -> bytes:
        """What every output goes on from."""
        return self._start.bytes

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids that end the output, sorted."""
        return self._start.end_ids

    @property
    def error(self) -> Exception | None:
        """Why the sequence was ended; None while all is well."""
        return self._cursor.error

    @property
    def can_only_end(self) -> bool:
        """Whether nothing but an end id may follow, as far as is known without working out a mask."""
        return self._has_ended or self._cursor.has_failed

    @property
    def has_ended(self) -> bool:
        """Whether an end id has come."""
        return self._has_ended

    def begin(self, healed: str = "") -> None:
        """Begin with an empty output.

        Args:
            healed: the text of the prompt's last token where that token is sampled anew: the first token then has to
                begin with this text, and only the rest of it is output.

        Raises:
            InvalidArgument: `healed` is a part of a character, which no text can begin with.
        """
        if "\ufffd" in healed:
            raise InvalidArgument(
                "the prompt ends inside a character, where a token cannot be healed; turn token_healing off"
            )
        with self._lock:
            self._begin()
            self.is_used = True
            if healed:
                self._healed = healed.encode("utf-8")
                self._fill_healing()

    def append(self, token_id: int) -> None:
        """Note the token that was sampled."""
        self._pending.append(token_id)
        if token_id in self._start.end_ids:
            self._has_ended = True

    def advance(self) -> NDArray[np.int32]:
        """Take the tokens that were noted, and work out the mask of the next one; returns `row`."""
        with self._lock:
            # Replaced, not cleared: another may be noted meanwhile.
            tokens, self._pending = self._pending, []
            if tokens:
                failed = self._cursor.has_failed
                if self._healed:
                    self._take_healed(tokens.pop(0))
                self._take(tokens)
                self.version += 1
                if not failed:
                    self._report()
            return self.row

    def fail(self, error: Exception) -> None:
        """End the sequence with this cause: only an end id may follow."""
        with self._lock:
            if not self._cursor.has_failed:
                self._cursor.fail(error)
                self._report()
            self._cursor.fill_bitmask(self.row)
            self.version += 1

    def fork(self) -> Sequence:
        """An independent copy."""
        with self._lock:
            copy = Sequence.__new__(Sequence)
            copy.__dict__.update(self.__dict__)
            copy._lock = RLock()
            copy._cursor = self._cursor.fork()
            copy._pending = self._pending.copy()
            copy.row = self.row.copy()
            return copy

    def formatter(self) -> Formatter:
        """A copy of the state after all tokens that came."""
        with self._lock:
            self.advance()
            return self._cursor.formatter.fork()

    def result(self, ended: Ended | None = None) -> Result:
        """The outcome so far."""
        with self._lock:
            self.advance()
            return self._cursor.result(ended)

    def events(self) -> list[Event]:
        """What is new since the last call, see `Formatter.events`."""
        with self._lock:
            self.advance()
            return self._cursor.formatter.events()

    # --- inside ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._cursor = Cursor(self._start.fork())
        self._pending = []
        self._has_ended = False
        self._healed = b""
        self.row[:] = self._first
        self.version += 1

    def _take(self, tokens: list[int]) -> None:
        for token_id in tokens:
            self._cursor.append(token_id)
        self._cursor.fill_bitmask(self.row)

    def _take_healed(self, token_id: int) -> None:
        healed, self._healed = self._healed, b""
        data = self._start.compiled.vocabulary.text_token(token_id) or b""
        try:
            if not data.startswith(healed):
                reason = f"the prompt's last token, {healed!r}, is to be healed, and this one does not begin with it"
                raise TokenRejected(token_id, position=0, reason=reason)
            if data != healed:
                self._cursor.formatter.accept_bytes(data[len(healed) :])
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
            self._cursor.fail(error)

    def _fill_healing(self) -> None:
        """Allow what begins with the healed text and goes on as an output may begin."""
        healed, formatter = self._healed, self._start.fork()
        allowed: dict[bytes, bool] = {b"": True}
        ids = []
        for token_id in range(len(self._start.compiled.vocabulary)):
            data = self._start.compiled.vocabulary.text_token(token_id)
            if data is None or not data.startswith(healed):
                continue
            rest = data[len(healed) :]
            if rest not in allowed:
                allowed[rest] = _can_begin(formatter, rest)
            if allowed[rest]:
                ids.append(token_id)
        self.row[:] = 0
        bitmask.set_ids(self.row, ids)

    def _report(self) -> None:
        if self._cursor.error is not None:
            count = len(self._cursor.formatter.tokens)
            logger.warning("a sequence is ended after %d tokens: %s", count, self._cursor.error)


def _can_begin(formatter: Formatter, data: bytes) -> bool:
    try:
        formatter.accept_bytes(data)
    except TokenRejected:
        return False
    formatter.rollback(1)
    return True
