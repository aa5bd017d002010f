"""Record what one sequence has accepted, and answer questions about it with the parser."""

from __future__ import annotations

import builtins
import sys
from array import array
from collections.abc import Callable, MutableSequence, Sequence
from functools import partial
from itertools import islice

from formatter_core.errors import LimitExceeded
from formatter_core.errors.arguments import shown
from formatter_core.formats.json_reader import JsonDelta
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.explanation import expected_after, explain_token, reader_of
from formatter_core.runtime.growth import Growth
from formatter_core.runtime.history import History
from formatter_core.runtime.prepared import PreparedFormat
from formatter_core.runtime.reading import TextReading, captures_in
from formatter_core.runtime.result import Ended, Event, Result
from formatter_core.vocabulary import parts_of

__all__ = ["Transcript"]


class Transcript:
    """The steps of one sequence, with the parser's answers: text, captures, events, the outcome, explanations.

    Its owner appends token ids to `steps` and counts `ends`; everything else is computed from them.

    Attributes:
        steps: the last of the steps, to append to, 8 bytes a step: token ids, and -1 for a byte string.
        ends: the number of end ids at the end of the steps.
    """

    __slots__ = ("_byte_strings", "_compiled", "_events", "_growth", "_history", "_intact", "ends", "steps")

    def __init__(self, compiled: PreparedFormat) -> None:
        self._compiled = compiled
        self.steps: MutableSequence[int] = array("q")
        self._history: History[int] | None = None  # made on the first copy, rollback or read
        self._byte_strings: History[builtins.bytes] | None = None  # those of the steps -1, in order; most are empty
        self.ends = 0
        self._events: EventStream | None = None  # made when captures of an unfinished text are first read
        self._intact = sys.maxsize  # how many of the steps that it has read were never taken back
        self._growth: Growth | None = None  # made for the first snapshot

    def copy(self) -> Transcript:
        """Return an independent transcript of the same steps, with all events undelivered."""
        other = Transcript.__new__(Transcript)
        other._compiled = self._compiled
        other._history = self._steps.copy()
        other.steps = other._history.tail
        other._byte_strings = None if self._byte_strings is None else self._byte_strings.copy()
        other.ends = self.ends
        other._events = None
        other._intact = sys.maxsize
        other._growth = None
        return other

    def clear(self) -> None:
        """Start over; the next events retract those that were delivered."""
        self._steps.clear()
        self.ends = self._intact = 0
        self._byte_strings = None
        self._forget_growth(0)

    @property
    def _steps(self) -> History[int]:
        """Return all steps."""
        if self._history is None:
            self._history = History(self.steps)
        return self._history

    @property
    def length(self) -> int:
        """Return the number of steps."""
        return len(self._steps)

    def undo(self, steps: int) -> None:
        """Take back the last `steps` steps; end ids come last."""
        self.ends -= min(steps, self.ends)
        if self._byte_strings:
            self._byte_strings.drop(sum(step < 0 for step in islice(reversed(self._steps), steps)))
        self._steps.drop(steps)
        self._intact = min(self._intact, self.length - self.ends)
        self._forget_growth(self.length - self.ends)

    def append_bytes(self, data: builtins.bytes) -> None:
        """Append a byte string as one step."""
        if self._byte_strings is None:
            self._byte_strings = History([])
        self._byte_strings.tail.append(data)
        self.steps.append(-1)

    def drop_half_steps(self) -> None:
        """After an interrupt, forget a byte string that did not become a step."""
        if self._byte_strings:
            self._byte_strings.drop(len(self._byte_strings) - sum(step < 0 for step in self._steps))

    @property
    def tokens(self) -> tuple[int, ...]:
        """Return the token ids, including end ids."""
        return tuple(step for step in self._steps if step >= 0) if self._byte_strings else tuple(self._steps)

    @property
    def bytes(self) -> bytes:
        """Return the bytes; end ids have none."""
        return bytes_of(self._parts())

    @property
    def text(self) -> str:
        """Return the bytes as text; U+FFFD replaces an incomplete character."""
        return self.bytes.decode("utf-8", "replace")

    def events(self, complete: bool) -> list[Event]:
        """Return the new events since the last call; `complete` says that the format's own rules ended the text."""
        if not self._compiled.has_captures:
            return []
        return self._stream().advance((lambda: captures_in(self._compiled, self._parts())) if complete else None)

    def snapshot(self, complete: bool, *, plain: bool, open_numbers: bool) -> object:
        """Return the value so far; `complete` says that the format's own rules ended the text."""
        records = self._growth is not None and self._growth.records
        return self._grown(complete, records).snapshot(plain=plain, open_numbers=open_numbers)

    def deltas(self, complete: bool) -> list[JsonDelta]:
        """Return the changes of the plain value since the last call; `complete` is as in `snapshot`."""
        return self._grown(complete, True).take_deltas()

    def _grown(self, complete: bool, records: bool) -> Growth:
        """Return the value's reader after it has read all steps."""
        growth = self._growth
        if growth is None or growth.records != records:
            growth = self._growth = Growth(self._compiled.lowered, records=records)
        growth.append(self._parts(growth.length))
        if complete:
            growth.settle(captures_in(self._compiled, self._parts()) if growth.needs_marks else None)
        elif growth.needs_marks and self._compiled.has_captures:
            growth.follow(*self._stream().agreed())
        return growth

    def _forget_growth(self, length: int) -> None:
        """Forget the values reported for steps past this length."""
        growth = self._growth
        if growth is not None and growth.length > length:
            self._growth = Growth(self._compiled.lowered, records=growth.records)

    def offset_of(self, step: int) -> int:
        """Return how many bytes come before a step."""
        return len(bytes_of(self._parts()[:step]))

    def result(
        self, ended: Ended | None, *, complete: bool, may_end: bool, shortened: int | None = None, now: bool = False
    ) -> Result:
        """Return the outcome so far.

        Args:
            ended: how the sequence ended, if it has.
            complete: whether the format's own rules ended the text.
            may_end: whether the text matches the format.
            shortened: the byte at which a budget first narrowed a choice.
            now: the caller reads it before the sequence continues, so the captures followed so far can be used.
        """
        compiled, parts = self._compiled, self._parts()
        stream = None
        if compiled.has_captures:
            stream = self._stream if now else partial(self._new_stream, parts)
        parsed = partial(captures_in, compiled, parts)
        reading = TextReading(compiled.lowered, compiled.limits, parts, may_end, parsed, stream)
        return Result(bytes_of(parts), self.tokens, ended, complete, reading, shortened)

    def refusal(self, data: builtins.bytes) -> str:
        """Describe where bytes that may not come next stop matching, and what was expected there."""
        compiled, parts = self._compiled, [*self._parts(), data]
        reading = TextReading(compiled.lowered, compiled.limits, parts, False)
        return f"with {shown(data)}, {reading.missing(None).words}"

    def expected(self) -> str:
        """Describe what may come next."""
        compiled = self._compiled
        return expected_after(compiled.lowered.grammar, self._parts(), compiled.limits)

    def explain(
        self, token_id: int, end_ids: tuple[int, ...], *, can_stop: Callable[[], bool], allows: Callable[[], bool]
    ) -> tuple[bool, str]:
        """Explain whether and why a token may come next; if the parser takes too long, the engine decides."""
        compiled, so_far = self._compiled, f"after {self.text[-40:]!r},"
        if self.ends:
            return token_id in end_ids, "the sequence has ended, so only end ids may follow"
        if token_id in end_ids:
            if can_stop():
                return True, f"{so_far} the format may end"
            return False, f"{so_far} the format may not end; expected {self.expected()}"
        if token_id < 0:
            return False, "its id is not known yet"
        size = len(compiled.vocabulary)
        if token_id >= size:
            return False, f"the vocabulary has no token {token_id}, only 0 to {size - 1}"
        try:
            reader = reader_of(compiled.lowered.grammar, compiled.limits)
            reader.append(self._parts())
            return explain_token(reader, token_id, compiled.vocabulary.text_token(token_id), so_far)
        except LimitExceeded:
            return allows(), f"{so_far} the mask says so (explanation exceeded Limits.work)"

    def _parts(self, start: int = 0) -> list[Part]:
        """Return what was accepted from a step on, for the parser: bytes, and ids of tokens that the grammar names."""
        steps = self._steps.since(start)[: self.length - self.ends - start]
        parts: list[Part] = parts_of(self._compiled.vocabulary, steps)
        if self._byte_strings:
            places = [place for place, step in enumerate(steps) if step < 0]
            for place, data in zip(reversed(places), reversed(self._byte_strings), strict=False):
                parts[place] = data
        return parts

    def _stream(self) -> EventStream:
        """Return the event stream after it has read all steps."""
        stream = self._events
        if stream is None:
            stream = self._events = self._new_stream([])
        stream.truncate(self._intact)
        self._intact = sys.maxsize
        stream.append(self._parts(stream.length))
        return stream

    def _new_stream(self, parts: Sequence[Part]) -> EventStream:
        stream = EventStream(self._compiled.lowered, self._compiled.limits)
        stream.append(parts)
        return stream
