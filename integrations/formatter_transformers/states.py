"""The states of a batch, found by the tokens that each row has after its prompt.

Rows are never told apart by their number or by counting calls: beams change places between two calls, drafts come and
go, and an assistant model shares the processor. A row's generated ids say all there is to know.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Formatter, bitmask

__all__ = ["RowState", "StatePool", "parent_of", "tokens_of"]

logger = logging.getLogger(__name__)

_ID = np.dtype(np.int64)


def tokens_of(key: bytes) -> list[int]:
    """The token ids of a key; a key is the ids as int64, which numpy makes and compares fastest."""
    ids: list[int] = np.frombuffer(key, _ID).tolist()
    return ids


def _count(key: bytes) -> int:
    return len(key) // _ID.itemsize


def _shared(left: bytes, right: bytes) -> int:
    """How many token ids two keys share at their beginning."""
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length // _ID.itemsize
    differs = np.frombuffer(left[:length], _ID) != np.frombuffer(right[:length], _ID)
    return int(differs.argmax())


class RowState:
    """A formatter that follows one row's generated tokens.

    From the first token on that the format does not allow (a draft that will be thrown away, padding after the end),
    tokens are only remembered: the row is then off the format, and all that it is offered is an end.
    """

    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter
        self.key = b""
        self.error: Exception | None = None
        self.accepted = 0
        self.failed_at = 0

    @classmethod
    def off_format(cls, compiled: CompiledFormat) -> RowState:
        """The state of a row that nobody will read."""
        state = cls(compiled.formatter())
        state.key = bytes(_ID.itemsize)
        return state

    @property
    def is_off_format(self) -> bool:
        """Whether a token came that the format does not allow."""
        return self.accepted < _count(self.key)

    def fork(self) -> RowState:
        """An independent copy."""
        copy = RowState(self.formatter.fork())
        copy.key, copy.accepted = self.key, self.accepted
        copy.error, copy.failed_at = self.error, self.failed_at
        return copy

    def follow(self, key: bytes) -> None:
        """Go back to what the two keys share, then accept the rest."""
        shared = _shared(self.key, key)
        if shared < self.failed_at:
            self.error, self.failed_at = None, 0
        self.key = key
        try:
            if shared < self.accepted:
                self.formatter.rollback(self.accepted - shared)
                self.accepted = shared
            if shared == self.accepted and self.error is None:
                self._accept(tokens_of(key[shared * _ID.itemsize :]))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this row, and this row alone
            self.fail(error)

    def fill(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the next token; only the end ids where something went wrong."""
        if self.error is None and not self.is_off_format:
            try:
                self.formatter.fill_bitmask(row)
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        if self.error is not None or self.is_off_format:
            row.fill(0)
            bitmask.set_ids(row, self.formatter.end_ids)

    def fail(self, error: Exception) -> None:
        """End this row with a cause; the other rows go on."""
        self.error, self.failed_at = error, _count(self.key)
        logger.warning("a sequence is ended after %d tokens: %s", self.failed_at, error)

    def _accept(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            if not self.formatter.accept_tokens([token_id]):
                return
            self.accepted += 1


class StatePool:
    """The states of one format's rows, the most recently used ones of them."""

    def __init__(self, compiled: CompiledFormat) -> None:
        self.compiled = compiled
        self._states: OrderedDict[bytes, RowState] = OrderedDict()

    def find(self, keys: Iterable[bytes]) -> dict[bytes, RowState]:
        """The state of each key.

        A state goes along with the one row that goes on from it; a row that goes on from elsewhere gets a copy, so that
        no other row's state is taken back.
        """
        wanted = dict.fromkeys(keys)
        children = Counter(parent_of(key) for key in wanted if key not in self._states)
        found: dict[bytes, RowState] = {}
        for key in wanted:
            state = self._states.get(key)
            if state is None:
                parent, nearest = parent_of(key), self.nearest(key)
                if nearest is None:
                    state = RowState(self.compiled.formatter())
                elif nearest.key == parent and children[parent] == 1:
                    state = self._states.pop(parent)
                else:
                    state = nearest.fork()
                children[parent] -= 1
                state.follow(key)
                self._states[key] = state
            self._states.move_to_end(key)
            found[key] = state
        # Beams drop branches for good, and groups of beams come in turns: keep enough for all of those.
        for _ in range(len(self._states) - 64 - 16 * len(wanted)):
            self._states.popitem(last=False)
        return found

    def nearest(self, key: bytes) -> RowState | None:
        """The state that shares the most tokens with the key; None when the pool is empty."""
        exact = self._states.get(key) or self._states.get(parent_of(key))
        if exact is not None or not self._states:
            return exact
        return max(self._states.values(), key=lambda state: _shared(state.key, key))

    def new_tokens(self, key: bytes) -> int:
        """How many tokens at the end of the key no state has."""
        nearest = self.nearest(key)
        return _count(key) - (_shared(nearest.key, key) if nearest else 0)

    def allows(self, key: bytes) -> bool:
        """Whether the format allows all tokens of the key, from the first one on."""
        return self.compiled.formatter().accept_tokens(tokens_of(key)) == _count(key)

    def forbids_last(self, key: bytes) -> bool:
        """Whether the format allows all tokens of the key but the last one."""
        nearest = self.nearest(key)
        if nearest is None or not key:
            return False
        state = nearest.fork()
        state.follow(key)
        return state.error is None and state.accepted == _count(key) - 1

    def error_in(self, key: bytes) -> Exception | None:
        """What ended the row of this key, if something went wrong with it."""
        for state in self._states.values():
            if state.error is not None and key.startswith(state.key[: state.failed_at * _ID.itemsize]):
                return state.error
        return None


def parent_of(key: bytes) -> bytes:
    """The key without its last token."""
    return key[: -_ID.itemsize]
