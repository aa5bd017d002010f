"""One constrained request: a cursor on its output that never raises, and what is offered when it cannot go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Compiler, Formatter, bitmask
from formatter_core.cursor import Cursor
from formatter_core.errors import FormatterError, InvalidFormat, UnsupportedFormat
from formatter_vllm import _compat
from formatter_vllm.requests import read_format

__all__ = ["Constraint", "Constraints"]

logger = logging.getLogger("formatter_vllm")

#: How many ids at the end of the known output are compared.
_LATEST = 16


class Constraint:
    """The format of one request and how far its output has come.

    Nothing here raises, just as nothing in a `Cursor` does: an exception in a worker would end every request of the
    engine. A request that cannot go on keeps its `error` and is offered nothing but its end.
    """

    def __init__(self, cursor: Cursor | None, end_ids: Sequence[int], has_competing_rules: bool) -> None:
        self.end_ids = tuple(end_ids)
        self.has_competing_rules = has_competing_rules
        self.error: Exception | None = None
        self.is_reported = False
        self._cursor = cursor
        self._known = 0
        self._latest: list[int] = []

    @property
    def known(self) -> int:
        """How many output tokens were followed."""
        return self._known

    @property
    def text(self) -> bytes:
        """The bytes of the output so far."""
        return b"" if self._cursor is None else self._cursor.formatter.bytes

    def follow(self, token_ids: list[int]) -> None:
        """Bring the state in step with the whole output so far.

        An output grows at its end, or shrinks, or begins anew; that the known part is the same is seen by its length
        and its latest ids, so that a step costs no more late in a long output than early.
        """
        known, cursor = self._known, self._cursor
        if cursor is not None:
            if token_ids[max(known - _LATEST, 0) : known] == self._latest:
                cursor.append(token_ids[known:])
            else:
                cursor.follow(token_ids)
            self.error = cursor.error
        self._known, self._latest = len(token_ids), token_ids[-_LATEST:]

    @property
    def formatter(self) -> Formatter | None:
        """The state, for masks of many requests at once; None where nothing but the end is offered."""
        return None if self._cursor is None or self._cursor.error is not None else self._cursor.formatter

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the next token."""
        if self._cursor is None:
            self._fill_ends(row)
        else:
            self._cursor.fill_bitmask(row)
            self.error = self._cursor.error

    def fill_drafts(self, drafts: Sequence[int], rows: NDArray[np.int32]) -> None:
        """Write the masks of the next token and of the one after each draft: int32 (len(drafts) + 1, words)."""
        if self._cursor is None:
            for row in rows:
                self._fill_ends(row)
        else:
            self._cursor.fill_drafts(drafts, rows)
            self.error = self._cursor.error

    def fail(self, error: Exception) -> None:
        """Offer nothing but the end from now on."""
        self._cursor = None
        self.error = error

    def _fill_ends(self, row: NDArray[np.int32]) -> None:
        row.fill(0)
        bitmask.set_ids(row, self.end_ids)


class Constraints:
    """Makes the constraints of an engine's requests, and counts and logs those that fail.

    Attributes:
        failures: how many requests were ended because they could not go on.
    """

    def __init__(self, compiler: Compiler | None, unusable: Exception | None, default_end_ids: Iterable[int]) -> None:
        self.failures = 0
        self._compiler = compiler
        self._unusable = unusable
        self._default_end_ids = tuple(default_end_ids)

    def of_request(self, parameters: Any) -> Constraint | None:
        """The constraint of a new request; None where it asks for no format. Never raises."""
        end_ids, competing = self._default_end_ids, False
        try:
            format = read_format(_compat.request_arguments(parameters))
            if format is None:
                return None
            end_ids, competing = self._end_ids(parameters), _compat.competing_rules(parameters)
            reason = _compat.refused_parameters(parameters)
            if reason is not None:
                raise InvalidFormat(reason)
            if self._compiler is None:
                raise self._unusable or UnsupportedFormat("it was started without a tokenizer", server="vLLM")
            return Constraint(Cursor(self._compiler.compile(format).formatter(end_ids)), end_ids, competing)
        except Exception as error:  # noqa: BLE001 - an older vLLM checks no request before it comes here
            constraint = Constraint(None, end_ids, competing)
            constraint.fail(error)
            self.report(constraint)
            return constraint

    def report(self, constraint: Constraint) -> None:
        """Log and count a constraint's failure, the first time that it is seen."""
        if constraint.error is None or constraint.is_reported:
            return
        constraint.is_reported = True
        self.failures += 1
        logger.error(
            "a request is ended after %d tokens, because its format cannot be kept: %s (%d failures so far)",
            constraint.known,
            constraint.error,
            self.failures,
            exc_info=None if isinstance(constraint.error, FormatterError) else constraint.error,
        )

    def _end_ids(self, parameters: Any) -> tuple[int, ...]:
        """The ids at which this request stops, as far as the model can sample them."""
        wanted = sorted(_compat.request_end_ids(parameters))
        if self._compiler is not None:
            size = len(self._compiler.vocabulary)
            wanted = [token_id for token_id in wanted if 0 <= token_id < size]
        return tuple(wanted) or self._default_end_ids
