"""Report the captures of an unfinished text: only those that every surviving parse agrees on."""

from __future__ import annotations

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Sequence

from formatter_core.engine.native_parser import Following, parser_of
from formatter_core.errors import LimitExceeded
from formatter_core.formats.protocol import Lowered, text_of
from formatter_core.grammar import is_internal
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Captures, Mark, Match, News
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.runtime.history import shared_length
from formatter_core.runtime.result import Event, HoleOpened, Retracted, TextAdded, ValueCompleted, converted

__all__ = ["EventStream"]

_decoder = getincrementaldecoder("utf-8")


class EventStream:
    """The events of one sequence: delivered when certain, and retracted when the text is taken back.

    Args:
        lowered: the format.
        limits: the maximum cost of following the text.
    """

    def __init__(self, lowered: Lowered, limits: Limits) -> None:
        self._lowered = lowered
        self._limits = limits
        self._follower: Following | None = None
        self._parts: list[Part] = []
        self._text = bytearray()
        self._followed = 0  # the number of parts that the follower has read
        self._agreed: list[Mark] = []  # the marks that the follower reported, including internal captures
        self._agreed_to = 0
        # What was delivered: these marks, of which the first ones are known to be as in `_agreed`; captured text up to
        # a byte; the captures that are open there; and the text as it was at that time, if it has been taken back
        # since.
        self._delivered: list[Mark] = []
        self._same = 0
        self._delivered_to = 0
        self._open: list[_Open] = []
        self._text_before: bytes | None = None
        self._is_settled = False

    @property
    def length(self) -> int:
        """Return the number of parts."""
        return len(self._parts)

    def truncate(self, length: int) -> None:
        """Keep only the first `length` parts."""
        if length >= len(self._parts):
            return
        if length < self._followed and self._follower is not None:
            self._follower.pop(sum(map(_steps, self._parts[length : self._followed])))
            self._followed = length
        left = len(self._text) - len(bytes_of(self._parts[length:]))
        if left < self._delivered_to and self._text_before is None:
            self._text_before = bytes(self._text[: self._delivered_to])
        del self._text[left:], self._parts[length:]
        self._is_settled = False

    def append(self, parts: Sequence[Part]) -> None:
        """Append what was accepted: bytes, and ids of tokens that have none."""
        if parts:
            self._parts.extend(parts)
            self._text += bytes_of(parts)
            self._is_settled = False

    def captures(self) -> Captures:
        """Return the captures that are certain to be complete."""
        self._follow()
        return Captures.of_marks(self._agreed, bytes(self._text))

    def agreed(self) -> tuple[Sequence[Mark], int]:
        """Return the marks that all parses agree on, not to be changed, and the byte up to which there are no other
        marks.
        """
        self._follow()
        return self._agreed, self._agreed_to

    def advance(self, whole: Callable[[], Captures | None] | None) -> list[Event]:
        """Return the new events since the last call.

        Args:
            whole: finds the captures of the text, once the sequence is complete; this settles the captures that were
                open.
        """
        if whole is not None:
            return [] if self._is_settled else self._settle(whole())
        self._follow()
        return self._deliver(self._agreed, self._agreed_to)

    def _settle(self, whole: Captures | None) -> list[Event]:
        marks = [] if whole is None else whole.marks()
        self._same = shared_length(self._delivered, marks)
        events = self._deliver(marks, len(self._text))
        self._same = shared_length(self._agreed, marks)
        self._is_settled = True
        return events

    def _follow(self) -> None:
        """Let the follower read the parts that it has not read."""
        try:
            news = self._news()
        except LimitExceeded as error:
            if error.limit != "states":
                raise
            self._follower = None  # its automata belong to all texts so far; a new one begins empty
            self._followed = self._same = 0
            self._agreed = []
            news = self._news()
        kept, marks, self._agreed_to = news
        self._same = min(self._same, kept)
        self._agreed[kept:] = marks

    def _news(self) -> News:
        follower = self._follower
        if follower is None:
            follower = self._follower = parser_of(self._lowered.grammar, self._limits).following()
        for part in self._parts[self._followed :]:
            if isinstance(part, int):
                follower.push_token(part)
            else:
                follower.push(part)
            self._followed += 1
        return follower.news()

    def _deliver(self, marks: list[Mark], to: int) -> list[Event]:
        """Return the events for these marks, and for captured text up to a byte, that were not delivered before."""
        events: list[Event] = []
        if self._same < len(self._delivered) or to < self._delivered_to or self._text_before is not None:
            self._retract(marks, to, events)
        new = marks[len(self._delivered) :]
        for mark in new:
            self._add_text(mark.offset, events)
            self._add_mark(mark, events)
        self._add_text(to, events)
        self._delivered += new
        self._same = len(marks)
        self._delivered_to = to
        return events

    def _retract(self, marks: list[Mark], to: int, events: list[Event]) -> None:
        """Retract the events that are no longer valid, and return to the state before them."""
        same = self._same + shared_length(self._delivered[self._same :], marks[self._same :])
        offsets = [mark.offset for mark in self._delivered[same:]]
        intact = self._delivered_to
        if self._text_before is not None:
            intact = shared_length(self._text_before, bytes(self._text[:intact]))
        to = min([to, intact, *offsets])
        if same == len(self._delivered) and to == self._delivered_to:
            self._text_before = None
            return
        events.append(Retracted(to))
        kept = [mark for mark in self._delivered[:same] if mark.offset < to]
        self._delivered, self._delivered_to, self._open, self._text_before = kept, to, [], None
        known: list[Event] = []  # events delivered again are not new
        for mark in kept:
            self._add_text(mark.offset, known)
            self._add_mark(mark, known)
        self._add_text(to, known)

    def _add_text(self, to: int, events: list[Event]) -> None:
        for capture in self._open:
            capture.add(self._text, to, events)

    def _add_mark(self, mark: Mark, events: list[Event]) -> None:
        if mark.opens:
            capture = _Open(mark.name, mark.offset)
            self._open.append(capture)
            if capture.is_visible:
                events.append(HoleOpened(mark.name, mark.offset))
            return
        capture = self._open.pop()
        data = bytes(self._text[capture.start : mark.offset])
        match = Match(capture.name, capture.start, mark.offset, data, tuple(capture.inner))
        if self._open:
            self._open[-1].inner.append(match)
        if capture.is_visible:
            capture.finish(events)
            convert = self._lowered.converters.get(match.name, text_of)
            events.append(ValueCompleted(match.name, converted(convert, match), match.start, match.end))


class _Open:
    """An open capture, with the amount of its text that was delivered."""

    __slots__ = ("_at", "_decoder", "inner", "is_visible", "name", "start")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = self._at = start
        self.inner: list[Match] = []
        self.is_visible = not is_internal(name)
        self._decoder: IncrementalDecoder | None = None  # used from the first non-ASCII character on

    def add(self, text: bytearray, end: int, events: list[Event]) -> None:
        """Append the text up to `end`; a character that is split is delivered whole."""
        if self._at < end and self.is_visible:
            data = text[self._at : end]
            self._at = end
            if self._decoder is None and not data.isascii():
                self._decoder = _decoder("replace")
            added = data.decode() if self._decoder is None else self._decoder.decode(data)
            if added:
                events.append(TextAdded(self.name, added))

    def finish(self, events: list[Event]) -> None:
        """Append the rest of its text."""
        rest = self._decoder and self._decoder.decode(b"", True)
        if rest:
            events.append(TextAdded(self.name, rest))


def _steps(part: Part) -> int:
    return 1 if isinstance(part, int) else len(part)
