"""Find long runs of one character, or of blanks, which a reader of an output notices first."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from formatter_core.trace.steps import Step

__all__ = ["Run", "find_runs"]

#: The minimum number of characters of a run.
_LONG = 16
_RUN = re.compile(rf"(\S)\1{{{_LONG - 1},}}|\s{{{_LONG},}}")


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the same character, or of blanks.

    Attributes:
        text: the character; " " for blanks of any kind, line breaks included.
        count: the number of characters.
        start, end: the byte offsets of the run in the text.
        steps: the indices of the tokens that overlap it.
    """

    text: str
    count: int
    start: int
    end: int
    steps: tuple[int, ...]

    def __str__(self) -> str:
        what = "blanks" if self.text == " " else f"times `{self.text}`"
        return f"{self.count} {what} in a row, from token {self.steps[0] + 1} on"


def find_runs(steps: Sequence[Step]) -> tuple[Run, ...]:
    """Return the runs of at least 16 characters, in the order of the text."""
    text = b"".join(step.bytes or b"" for step in steps).decode("utf-8", "surrogateescape")
    starts = [step.start for step in steps]
    ends = [step.start + len(step.bytes or b"") for step in steps]
    found = []
    read = place = 0
    for match in _RUN.finditer(text):
        start = place + _width(text[read : match.start()])
        read, place = match.end(), start + _width(match[0])
        numbers = range(bisect_right(ends, start), bisect_left(starts, place))
        char = (match[1] or " ").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        found.append(Run(char, len(match[0]), start, place, tuple(number for number in numbers if steps[number].bytes)))
    return tuple(found)


def _width(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
