"""The core's cursor alone, as an adapter would use it: one for each row, and rows of bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from formatter_core import Compiler, Cursor, bitmask
from tests.adapters.contract import WIDTH, Request, Session


class CursorSession(Session):
    cannot: ClassVar = {
        "reused": "a cursor cannot tell one request from another",
        "narrow": "rows of bits are as wide as the caller makes them",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        self._new = [
            None if request.format is None else (compiler.compile(request.format), request.end_ids)
            for request in requests
        ]
        self._cursors = [self._cursor(row) for row in range(len(requests))]

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        for cursor, tokens in zip(self._cursors, kept, strict=True):
            if cursor is not None:
                cursor.follow(tokens)
        rows = bitmask.allocate(len(kept), width, fill="all")
        constrained = {row: cursor for row, cursor in enumerate(self._cursors) if cursor is not None}
        Cursor.step_batch(list(constrained.values()), rows, list(constrained))
        return [set(bitmask.allowed_ids(row)) for row in rows]

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        cursor = self._cursors[0]
        cursor.follow(kept)
        rows = bitmask.allocate(len(drafts) + 1, WIDTH, fill="all")
        cursor.fill_drafts(drafts, rows)
        return [set(bitmask.allowed_ids(row)) for row in rows]

    def preempt(self, row: int) -> None:
        self._cursors[row] = self._cursor(row)

    def errors(self) -> Mapping[int, Exception]:
        return {row: cursor.error for row, cursor in enumerate(self._cursors) if cursor and cursor.error}

    def result(self, row: int) -> Any:
        cursor = self._cursors[row]
        cursor.check_used("give it to an engine")
        if cursor.error is not None:
            raise cursor.error
        return cursor.result()

    def _cursor(self, row: int) -> Cursor | None:
        new = self._new[row]
        return None if new is None else Cursor(new[0].formatter(new[1]))
