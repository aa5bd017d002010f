"""Captures as marks: in the order in which they open and close."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mark", "News"]


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
