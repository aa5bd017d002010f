"""Answer questions about an accepted text with the parser, when the answers are read and never within a batch step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from formatter_core.engine.native_parser import Reading, parser_of
from formatter_core.errors import LimitExceeded
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Node
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Captures
from formatter_core.parsing.object_keys import fault_of_keys
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.explanation import describe, describe_cut, in_words, reader_of
from formatter_core.runtime.prepared import PreparedFormat
from formatter_core.runtime.result import Ended, Missing

__all__ = ["TextReading", "captures_in"]

#: The ways in which an incomplete text ended.
_ENDS: dict[Ended | None, str] = {"length": " (length limit)", "stop_string": " (stop string)", "error": " (error)"}


def captures_in(compiled: PreparedFormat, parts: Sequence[Part]) -> Captures | None:
    """Return the captures of a text that the engine has found to match the format."""
    if not compiled.has_captures:
        return Captures(bytes_of(parts))  # there is nothing to parse
    return parser_of(compiled.lowered.grammar, compiled.limits).captures(parts)


@dataclass(frozen=True)
class TextReading:
    """A `Reading` of a text, computed on demand.

    Attributes:
        lowered: the format.
        limits: the maximum cost of each parse.
        parts: the text's bytes, and the ids of tokens that the grammar names.
        may_end: whether the text matches the format.
        parsed: the captures of a complete text, or a function that finds them.
        stream: the event stream that followed the captures of an unfinished text; None without captures.
        wider: a format with more texts that was also tried; the format that follows the text further says what is
            missing.
    """

    lowered: Lowered
    limits: Limits
    parts: Sequence[Part]
    may_end: bool
    parsed: Captures | Callable[[], Captures | None] | None = None
    stream: Callable[[], EventStream] | None = None
    wider: Lowered | None = None

    def whole(self) -> Captures | None:
        """Return the captures of a complete text; see `Reading`."""
        return self.parsed() if callable(self.parsed) else self.parsed

    def certain(self) -> Captures:
        """Return the captures that are certain; see `Reading`."""
        return Captures(bytes_of(self.parts)) if self.stream is None else self.stream().captures()

    def missing(self, ended: Ended | None) -> Missing:
        """Say why the text is not complete; this is best effort and never raises; see `Reading`."""
        found = self._missing(ended)
        if self.wider is None or found.position is None:
            return found
        other = replace(self, lowered=self.wider, wider=None)._missing(ended)
        return other if other.position is None or other.position > found.position else found

    def _missing(self, ended: Ended | None) -> Missing:
        if self.may_end:
            return Missing("the text is in the format, but it could go on, and no end id came")
        how = _ENDS.get(ended, "")
        try:
            reader = self._reader()
            if reader.append(self.parts):
                words, fault = describe_cut(reader.expected(), how), self._fault_of_keys(reader)
                return Missing(f"{words}; {fault}" if fault else words)
            taken = _first_steps(self.parts, reader.length)
            reader = self._reader()
            reader.append(taken)
            offset = len(bytes_of(taken))
            what = self._fault_of_keys(reader, offset) or f"expected {describe(in_words(reader.expected()))}"
            return Missing(f"the text does not match at byte {offset}: {what}", offset)
        except LimitExceeded:
            return Missing(f"output ended too early{how} (explanation exceeded Limits.work)")

    def _fault_of_keys(self, reader: Reading, offset: int | None = None) -> str | None:
        """Describe what is wrong with an object's keys where the text stops matching, or at its end."""
        data = bytes_of(self.parts)
        before, after = (each.decode(errors="replace") for each in (data[:offset], data[len(data[:offset]) :]))

        def find_rules() -> dict[str, Node]:
            rules = self.lowered.grammar.lowered.rules
            return {name: rules[name] for name in reader.rules() if name in rules}

        return fault_of_keys(find_rules, before, after)

    def _reader(self) -> Reading:
        return reader_of(self.lowered.grammar, self.limits)


def _first_steps(parts: Sequence[Part], steps: int) -> list[Part]:
    """Return the parts up to this number of bytes and tokens."""
    taken: list[Part] = []
    for part in parts:
        if steps <= 0:
            break
        taken.append(part if isinstance(part, int) else part[:steps])
        steps -= 1 if isinstance(part, int) else len(part)
    return taken
