"""Report the value of an output while it is written, for streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, true_or_false
from formatter_core.generation.models import GenerationEvent, Snapshot, StreamedValues, ValueDelta
from formatter_core.runtime.formatter import Formatter

__all__ = ["Snapshots", "streamed_values", "value_events"]

#: True gives the complete parts as objects of the Python type, `"plain"` as JSON data.
Snapshots: TypeAlias = bool | Literal["plain"]


def streamed_values(snapshots: Snapshots, deltas: bool) -> StreamedValues:
    """Check the arguments of a stream, and return them as `StreamedValues`.

    Raises:
        InvalidArgument: an argument is not True, False or, for `snapshots`, `"plain"`.
    """
    is_plain = isinstance(snapshots, str) and snapshots == "plain"
    if not (is_plain or isinstance(snapshots, bool)):
        raise InvalidArgument(f'snapshots is {shown(snapshots)}; give True, False or "plain"', argument="snapshots")
    return StreamedValues(bool(snapshots), is_plain, true_or_false(deltas, "deltas"))


def value_events(
    formatter: Formatter[Any], prompt: int, sample: int, wanted: StreamedValues
) -> Iterator[GenerationEvent]:
    """Yield the changes of a value since the last call, then its snapshot.

    Raises:
        LimitExceeded: following the text needs more work than the limits allow.
    """
    if wanted.deltas:
        for delta in formatter.deltas():
            yield ValueDelta(prompt, sample, delta)
    if wanted.snapshots:
        yield Snapshot(prompt, sample, formatter.snapshot(plain=wanted.plain))
