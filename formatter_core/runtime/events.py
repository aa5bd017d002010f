"""Captures of an unfinished text: only what every surviving parse agrees on."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from formatter_core.errors import LimitExceeded
from formatter_core.formats.protocol import Lowered, text_of
from formatter_core.limits import Limits
from formatter_core.parsing.agreement import Agreement, Mark
from formatter_core.parsing.match import Match
from formatter_core.runtime.result import Event, HoleOpened, Retracted, TextAdded, ValueCompleted, converted

__all__ = ["EventStream"]

_decoder = getincrementaldecoder("utf-8")


class EventStream:
    """The events of one sequence: delivered when certain, retracted when the text is."""

    def __init__(self, lowered: Lowered, limits: Limits) -> None:
        self._lowered = lowered
        self._agreement = Agreement(lowered.grammar, limits)
        self._parts: list[bytes | int] = []
        self._delivered: list[Mark] = []  # the marks that were delivered, internal ones included
        self._upto = 0  # captured text was delivered up to this byte

    def matches(self, parts: Sequence[bytes | int]) -> list[Match]:
        """The captures that are certain to be complete, in order of their start; offsets as in the whole text."""
        self._follow(parts)
        marks, _ = self._agreement.agreed()
        return _tree(marks, _text(parts))

    def advance(self, parts: Sequence[bytes | int], whole: Match | None) -> list[Event]:
        """What is new since the last call.

        Args:
            parts: all that was accepted: bytes, and ids of tokens that have none.
            whole: the parse of it, once the sequence is complete; it settles what was open.
        """
        self._follow(parts)
        text = _text(parts)
        marks, upto = self._agreement.agreed() if whole is None else (list(_marks(whole)), len(text))
        events: list[Event] = []
        keep = next((i for i, (a, b) in enumerate(zip(self._delivered, marks, strict=False)) if a != b), len(marks))
        if keep < len(self._delivered) or upto < self._upto:
            to = min([upto, self._upto, *(mark.offset for mark in self._delivered[keep:])])
            events.append(Retracted(to))
            self._delivered = [mark for mark in self._delivered[:keep] if mark.offset < to]
            self._upto = to
        events.extend(self._tell(marks, upto, text))
        self._delivered, self._upto = marks, upto
        return events

    def _follow(self, parts: Sequence[bytes | int]) -> None:
        same = next(
            (i for i, (a, b) in enumerate(zip(self._parts, parts, strict=False)) if a != b),
            min(len(self._parts), len(parts)),
        )
        self._agreement.pop(sum(_steps(part) for part in self._parts[same:]))
        del self._parts[same:]
        for part in parts[same:]:
            length = self._agreement.length
            try:
                if isinstance(part, int):
                    self._agreement.push_token(part)
                else:
                    for byte in part:
                        self._agreement.push(byte)
            except LimitExceeded:
                self._agreement.pop(self._agreement.length - length)  # both stay in step
                raise
            self._parts.append(part)

    def _tell(self, marks: list[Mark], upto: int, text: bytes) -> Iterator[Event]:
        """The events of `marks` and of the text up to `upto`, except those delivered."""
        open_: list[_Open] = []
        for index, mark in enumerate([*marks, Mark(True, "", upto)]):
            for capture in open_:
                yield from capture.add(text, min(mark.offset, upto), self._upto)
            if index == len(marks):
                return
            is_delivered = index < len(self._delivered)
            if mark.opens:
                open_.append(_Open(mark.name, mark.offset))
                if not is_delivered and not mark.name.startswith("."):
                    yield HoleOpened(mark.name, mark.offset)
                continue
            capture = open_.pop()
            match = Match(
                capture.name, capture.start, mark.offset, text[capture.start : mark.offset], tuple(capture.inner)
            )
            if open_:
                open_[-1].inner.append(match)
            if not is_delivered and not mark.name.startswith("."):
                yield from capture.finish()
                convert = self._lowered.converters.get(match.name, text_of)
                yield ValueCompleted(match.name, converted(convert, match), match.start, match.end)


@dataclass
class _Open:
    """An open capture, and how much of its text was delivered."""

    name: str
    start: int
    inner: list[Match] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at = self.start
        self._decoder = _decoder("replace")

    def add(self, text: bytes, end: int, delivered: int) -> Iterator[Event]:
        """Text up to `end`; text before `delivered` is only decoded, so that a split character comes out whole."""
        silent = min(max(self._at, delivered), end)
        self._decoder.decode(text[self._at : silent])
        added = self._decoder.decode(text[silent:end])
        self._at = max(self._at, end)
        if added and not self.name.startswith("."):
            yield TextAdded(self.name, added)

    def finish(self) -> Iterator[Event]:
        rest = self._decoder.decode(b"", True)
        if rest:
            yield TextAdded(self.name, rest)


def _text(parts: Sequence[bytes | int]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes))


def _steps(part: bytes | int) -> int:
    return 1 if isinstance(part, int) else len(part)


def _marks(whole: Match) -> Iterator[Mark]:
    """The captures of a parse as marks, in the order in which they open and close."""
    stack: list[Match | Mark] = list(reversed(whole.children))
    while stack:
        top = stack.pop()
        if isinstance(top, Mark):
            yield top
        else:
            yield Mark(True, top.name, top.start)
            stack.append(Mark(False, top.name, top.end))
            stack.extend(reversed(top.children))


def _tree(marks: Sequence[Mark], text: bytes) -> list[Match]:
    """The captures that `marks` close, outermost first, each with those inside it."""
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
