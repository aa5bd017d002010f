"""Captures as marks: in the order in which they open and close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from formatter_core.parsing.match import Match

__all__ = ["Mark", "News", "marks_of", "matches_of"]


class Mark(NamedTuple):
    """A capture that opens or closes at a byte offset."""

    opens: bool
    name: str
    offset: int


class News(NamedTuple):
    """What is new in what all parses of an unfinished text agree on.

    Attributes:
        kept: of the marks that were agreed before, these are as they were.
        marks: those after them.
        agreed_to: the offset in bytes up to which there are no others.
    """

    kept: int
    marks: list[Mark]
    agreed_to: int


def marks_of(whole: Match) -> Iterator[Mark]:
    """The captures of a parse."""
    stack: list[Match | Mark] = list(reversed(whole.children))
    while stack:
        top = stack.pop()
        if isinstance(top, Mark):
            yield top
        else:
            yield Mark(True, top.name, top.start)
            stack.append(Mark(False, top.name, top.end))
            stack.extend(reversed(top.children))


def matches_of(marks: Sequence[Mark], text: bytes) -> list[Match]:
    """The captures that `marks` close, in order of their start, each with those inside it."""
    stack: list[tuple[str, int, list[Match]]] = [("", 0, [])]
    for mark in marks:
        if mark.opens:
            stack.append((mark.name, mark.offset, []))
        else:
            name, start, inner = stack.pop()
            stack[-1][2].append(Match(name, start, mark.offset, text[start : mark.offset], tuple(inner)))
    for _, _, inner in reversed(stack[1:]):  # captures that are still open: what is complete inside them counts
        stack[0][2].extend(inner)
    return sorted(stack[0][2], key=lambda match: match.start)
