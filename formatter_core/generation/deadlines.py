"""When a call ends although outputs are unfinished: somebody cancels it, or its time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown

__all__ = ["Cancelled", "is_to_end"]

#: Asked again and again; True ends what is not finished.
Cancelled: TypeAlias = Callable[[], bool]


def is_to_end(cancelled: Cancelled | None, timeout: Any) -> Cancelled | None:
    """Whether a call is to end; the time begins now. None where nothing ends it.

    Args:
        cancelled: a function to ask; None if there is none.
        timeout: seconds for the whole call; None for no limit.

    Raises:
        InvalidArgument: one of them is something else.
    """
    if cancelled is not None and not callable(cancelled):
        raise InvalidArgument(
            f"cancelled is {shown(cancelled)}; give a function, such as threading.Event().is_set", argument="cancelled"
        )
    if timeout is None:
        return cancelled
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout >= 0:
        raise InvalidArgument(f"timeout is {shown(timeout)}; give seconds", argument="timeout")
    end = time.monotonic() + timeout
    return lambda: time.monotonic() >= end or (cancelled is not None and bool(cancelled()))
