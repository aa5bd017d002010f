"""Keeping a formatter in step with the token ids that an inference engine has kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine import rows as bitmask
from formatter_core.errors import TokenRejected
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.result import Ended, Result

__all__ = ["Cursor"]


class Cursor:
    """A formatter that follows a list of kept token ids, however the inference engine changes that list.

    Tokens may be appended, several at once, taken back, cleared, or come back after a preemption; the list may hold
    drafts that nobody has checked, and -1 for tokens whose id is not known yet. A token that the format does not allow
    is never an exception here, and neither is anything else that goes wrong: it is kept as `error`, and the sequence is
    offered nothing but its end until the list no longer holds that token.

    Attributes:
        formatter: the state after the tokens that were accepted.
        error: why the sequence cannot go on; None while it can.
    """

    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter
        self.error: Exception | None = None
        self._kept: list[int] = list(formatter.tokens)

    def follow(self, token_ids: Sequence[int]) -> None:
        """Bring the formatter in step with the kept ids of the whole output so far.

        Costs one comparison of the lists, and a step for each token that is new or was taken back.
        """
        kept = [int(token_id) for token_id in token_ids]
        common = _common_prefix(self._kept, kept)
        accepted = len(self.formatter.tokens)
        if common < len(self._kept) and common <= accepted:
            self.error = None
        self._kept = kept
        try:
            if common < accepted:
                self.formatter.rollback(accepted - common)
            if self.error is None:
                self._accept(kept[common:])
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
            self.error = error

    def append(self, token_ids: Sequence[int]) -> None:
        """Go on with ids that come after those kept: `follow` without a look at the whole output."""
        new = [int(token_id) for token_id in token_ids]
        self._kept += new
        if self.error is None:
            try:
                self._accept(new)
            except Exception as error:  # noqa: BLE001 - as above
                self.error = error

    def step(self, token_id: int, row: NDArray[np.int32]) -> None:
        """`append` of one id and `fill_bitmask`, in one call into the grammar engine."""
        self._kept.append(token_id)
        if self.error is None:
            try:
                self.formatter.step(token_id, row)
            except Exception as error:  # noqa: BLE001 - as above
                self.error = error
        if self.error is not None:
            self._fill_end_only(row)

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """`Formatter.fill_bitmask`, but a sequence that cannot go on is offered its end ids and nothing else."""
        if self.error is None:
            try:
                self.formatter.fill_bitmask(row)
            except Exception as error:  # noqa: BLE001 - as above
                self.error = error
        if self.error is not None:
            self._fill_end_only(row)

    @staticmethod
    def step_batch(
        cursors: Sequence[Cursor],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        places: Sequence[int] | None = None,
    ) -> dict[int, Exception]:
        """`append` of one token and `fill_bitmask` for several cursors, in one call into the engine where they can.

        Args:
            cursors: at least one, all different.
            token_ids: the new token of each, None where there is none.
            rows: int32 (rows, words), writable, each row C-contiguous.
            places: the row of each; by default the first ones, in order.

        Returns:
            nothing: like everything that goes wrong here, faults are kept by the cursors.
        """
        rows_of = range(len(cursors)) if places is None else places
        going, formatters = [], []
        for number, (cursor, token_id) in enumerate(zip(cursors, token_ids, strict=True)):
            if token_id is not None:
                cursor._kept.append(token_id)
            if cursor.error is None:
                going.append(number)
                formatters.append(cursor.formatter)
        are_all = len(going) == len(cursors)
        if going:
            new = token_ids if are_all else [token_ids[number] for number in going]
            there = rows_of if are_all else [rows_of[number] for number in going]
            for position, error in Formatter.step_batch(formatters, new, rows, there).items():
                cursors[going[position]].error = error
                are_all = False
        if not are_all:
            for cursor, place in zip(cursors, rows_of, strict=True):
                if cursor.error is not None:
                    cursor._fill_end_only(rows[place])
        return {}

    def fill_drafts(self, drafts: Sequence[int], rows: NDArray[np.int32]) -> int:
        """Masks for the token now and the one after each draft; returns how many drafts the format allows.

        Args:
            drafts: ids that were proposed but not kept.
            rows: int32 (len(drafts) + 1, words). Row `i` is the mask after the first `i` drafts; past the first draft
                that is not allowed the rows hold the end ids alone, for no kept token can follow there.
        """
        self.fill_bitmask(rows[0])
        taken, filled = 0, 1
        if self.error is None:
            with suppress(Exception):  # found again, and kept, if the draft is
                for draft in drafts:
                    if not self.formatter.accept_tokens([int(draft)]):
                        break
                    taken += 1
                    self.formatter.fill_bitmask(rows[taken])
                    filled += 1
            self.formatter.rollback(taken)
        for row in rows[filled : len(drafts) + 1]:
            self._fill_end_only(row)
        return taken

    def fork(self) -> Cursor:
        """An independent cursor at the same place."""
        copy = Cursor.__new__(Cursor)
        copy.formatter = self.formatter.fork()
        copy.error = self.error
        copy._kept = self._kept.copy()
        return copy

    def result(self, ended: Ended | None = None) -> Result:
        """The outcome so far; a sequence that could not go on has ended with `"error"`."""
        return self.formatter.result("error" if self.error is not None else ended)

    def _accept(self, token_ids: list[int]) -> None:
        taken = self.formatter.accept_tokens(token_ids)
        if taken == len(token_ids):
            return
        rejected = token_ids[taken]
        position = len(self.formatter.tokens)
        self.error = TokenRejected(rejected, position=position, reason=self.formatter.explain(rejected))

    def _fill_end_only(self, row: NDArray[np.int32]) -> None:
        bitmask.check_row(row)
        row[:] = 0
        bitmask.set_ids(row, self.formatter.end_ids)


def _common_prefix(old: list[int], new: list[int]) -> int:
    """How many elements both lists begin with; the usual case, one list going on from the other, is one comparison."""
    shorter = min(len(old), len(new))
    if old[:shorter] == new[:shorter]:
        return shorter
    return next(index for index in range(shorter) if old[index] != new[index])
