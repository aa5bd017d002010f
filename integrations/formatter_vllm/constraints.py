"""One constrained request: a cursor on its output that never raises, and what is offered when it cannot go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Compiler, bitmask
from formatter_core.errors import FormatterError, InvalidArgument, UnsupportedFormat
from formatter_core.runtime.cursor import Cursor
from formatter_vllm import _compat
from formatter_vllm.requests import read_format

__all__ = ["Constraint", "Constraints"]

logger = logging.getLogger("formatter_vllm")


class Constraint:
    """The format of one request and how far its output has come.

    Nothing here raises, just as nothing in a `Cursor` does: an exception in a worker would end every request of the
    engine. A request that cannot go on has an `error` and is offered nothing but its end.
    """

    def __init__(self, cursor: Cursor | None, end_ids: Sequence[int], has_competing_rules: bool) -> None:
        self.end_ids = tuple(end_ids)
        self.has_competing_rules = has_competing_rules
        self.is_reported = False
        self._failure: Exception | None = None
        self._cursor = cursor
        self._known = 0
        self._latest = -1
        self._next: int | None = None  # the latest token, where the cursor does not have it yet

    @property
    def error(self) -> Exception | None:
        """Why the request cannot go on; None while it can."""
        return self._failure if self._cursor is None else self._cursor.error

    @property
    def known(self) -> int:
        """How many output tokens were followed."""
        return self._known

    @property
    def text(self) -> bytes:
        """The bytes of the output so far."""
        return b"" if self._cursor is None else self._cursor.formatter.bytes

    def follow(self, token_ids: list[int]) -> None:
        """Take in the whole output so far; a mask has to be asked for next.

        An output grows by one token, which is left for the call that makes the mask; or else it is compared with what
        is known: it has not grown, because a prompt is read in parts, or it has shrunk, begun anew, grown by several.
        """
        known, cursor = self._known, self._cursor
        length = len(token_ids)
        self._next = None
        if cursor is not None:
            if length == known + 1 and (not known or token_ids[known - 1] == self._latest):
                self._next = token_ids[known]
            else:
                cursor.follow(token_ids)
        if length:
            self._latest = token_ids[-1]
        self._known = length

    @staticmethod
    def fill_together(constraints: Sequence[Constraint], rows: NDArray[np.int32]) -> None:
        """Write the masks of the next tokens of several requests, in one call into the grammar engine.

        Args:
            rows: int32 (len(constraints), words), C-contiguous.
        """
        cursors = []
        for constraint in constraints:
            if constraint._cursor is not None:
                cursors.append(constraint._cursor)
                if constraint._next is not None:
                    constraint._cursor.append(constraint._next)
                    constraint._next = None
        if len(cursors) == len(constraints):
            Cursor.step_batch(cursors, rows)
        else:
            for constraint, row in zip(constraints, rows, strict=True):
                constraint.fill_drafts((), row[None])

    def fill_drafts(self, drafts: Sequence[int], rows: NDArray[np.int32]) -> None:
        """Write the masks of the next token and of the one after each draft: int32 (len(drafts) + 1, words)."""
        if self._cursor is None:
            rows[:] = 0
            for row in rows:
                bitmask.set_ids(row, self.end_ids)
            return
        if self._next is not None:
            self._cursor.append(self._next)
            self._next = None
        self._cursor.fill_drafts(drafts, rows)

    def fail(self, error: Exception) -> None:
        """Offer nothing but the end from now on."""
        self._cursor = None
        self._failure = error


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
                raise InvalidArgument(reason)
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
