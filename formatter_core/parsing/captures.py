"""The captures of a text: as marks, where they open and close; as columns, quick to make and to list; as `Match`es."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from formatter_core.grammar.lazy import cached_property

__all__ = ["Captures", "Mark", "Match", "News"]


class Match(NamedTuple):
    """One place of a parse: the whole text, or a `Capture`. Offsets count bytes of the whole text.

    `children` are the captures directly inside, in order of their start.
    """

    name: str
    start: int
    end: int
    data: bytes
    children: tuple[Match, ...] = ()

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")


class Mark(NamedTuple):
    """A capture that opens or closes at a byte offset."""

    opens: bool
    name: str
    offset: int


class News(NamedTuple):
    """The new marks that all parses of an unfinished text agree on.

    Attributes:
        kept: the number of earlier marks that are unchanged.
        marks: the marks after these.
        agreed_to: the offset in bytes up to which there are no further marks.
    """

    kept: int
    marks: list[Mark]
    agreed_to: int


@dataclass(frozen=True, eq=False)
class Captures:
    """The captures of a text, each by its number: in order of their start, an outer one before those inside it.

    Attributes:
        data: the whole text.
        names: the name of each.
        starts: where each begins, in bytes of the text.
        ends: where each ends.
        next: of each, the number of the first one after it that is not inside it.
    """

    data: bytes
    names: Sequence[str] = ()
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    next: Sequence[int] = ()

    @classmethod
    def of_marks(cls, marks: Iterable[Mark], data: bytes) -> Captures:
        """Return the closed captures; of open captures, return what is complete inside them."""
        names: list[str] = []
        starts: list[int] = []
        opened: list[int] = []
        closed: dict[int, tuple[int, int]] = {}  # where each ends, and which one is next
        for opens, name, offset in marks:
            if opens:
                opened.append(len(names))
                names.append(name)
                starts.append(offset)
            else:
                closed[opened.pop()] = offset, len(names)
        kept = sorted(closed)
        following = [bisect_left(kept, closed[number][1]) for number in kept]
        ends = [closed[number][0] for number in kept]
        return cls(data, [names[number] for number in kept], [starts[number] for number in kept], ends, following)

    def marks(self) -> list[Mark]:
        """Return the marks where captures open and close."""
        found: list[Mark] = []
        opened: list[int] = []
        for number in range(len(self.names) + 1):
            while opened and self.next[opened[-1]] <= number:
                last = opened.pop()
                found.append(Mark(False, self.names[last], self.ends[last]))
            if number < len(self.names):
                found.append(Mark(True, self.names[number], self.starts[number]))
                opened.append(number)
        return found

    @cached_property
    def texts(self) -> list[str]:
        """The text of each capture; a character that was cut becomes U+FFFD."""
        data, places = self.data, zip(self.starts, self.ends, strict=True)
        if data.isascii():
            text = data.decode()
            return [text[start:end] for start, end in places]
        return [data[start:end].decode("utf-8", "replace") for start, end in places]

    @cached_property
    def matches(self) -> list[Match]:
        """Each capture, with the captures inside it."""
        made: list[Any] = [None] * len(self.names)
        for number in reversed(range(len(made))):
            start, end = self.starts[number], self.ends[number]
            inside = self._inside(number + 1, self.next[number], made)
            made[number] = Match(self.names[number], start, end, self.data[start:end], inside)
        return made

    @property
    def match(self) -> Match:
        """The whole text as a match, with all captures inside it."""
        return Match("", 0, len(self.data), self.data, self._inside(0, len(self.names), self.matches))

    def _inside(self, number: int, last: int, made: Sequence[Match]) -> tuple[Match, ...]:
        """Return the captures from one number up to another that are directly inside, in no other of these."""
        found: list[Match] = []
        while number < last:
            found.append(made[number])
            number = self.next[number]
        return tuple(found)
