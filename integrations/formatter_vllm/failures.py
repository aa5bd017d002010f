"""Why requests failed: counted, logged and kept where masks are made, for the answer that the server gives."""

from __future__ import annotations

import re

from formatter_core import Cursor
from formatter_core.runtime.cursor import FailureLog
from formatter_vllm.figures import FAILURES, add

__all__ = ["METHOD", "CountingFailureLog", "cause_of"]

#: The name of `cause_of` as a method of vLLM's workers and schedulers.
METHOD = "formatter_cause_of"
#: The number of causes that a process keeps. A server requests a cause as soon as it sees that a request failed.
_MOST = 1_000

_causes: dict[str, str] = {}


class CountingFailureLog(FailureLog):
    """A failure log that also counts failed requests by cause, and keeps the causes of requests whose id is known."""

    def report(self, cursor: Cursor, name: str = "sequence", request_id: str | None = None) -> str | None:
        """Log and count a cursor that has failed, unless that was done.

        Args:
            name: says in the log which request it is, if its id is not known.
            request_id: its id, for `cause_of`.
        """
        told = super().report(cursor, name if request_id is None else f"request {request_id}")
        if told is not None:
            add(FAILURES + type(cursor.error).__name__)
            if request_id is not None:
                _causes[request_id] = told
                if len(_causes) > _MOST:
                    del _causes[next(iter(_causes))]
        return told


def cause_of(request_id: str) -> str | None:
    """Return the logged failure of a request, by the id that the client sent; None if this process logged none.

    vLLM's scheduler knows a request by an id that it has made of that one: `2_ID-1f2e3d4c` for its third sample.
    """
    own = re.compile(rf"(?:\d+_)?{re.escape(request_id)}(?:-[0-9a-f]{{8}})?")
    return next((cause for known, cause in reversed(_causes.items()) if own.fullmatch(known)), None)
