"""Decide when a call ends although outputs are unfinished: on cancellation, or when its time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown

__all__ = ["Cancelled", "is_to_end"]

#: Called repeatedly; True ends the outputs that are not finished.
Cancelled: TypeAlias = Callable[[], bool]


def is_to_end(cancelled: Cancelled | None, timeout: Any) -> Cancelled | None:
    """Return a function that tells whether the call must end; its time starts now. Return None if nothing ends it.

    Args:
        cancelled: a function that tells whether the call is cancelled; None if there is none.
        timeout: seconds for the whole call; None for no limit.

    Raises:
        InvalidArgument: an argument is of another kind.
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
