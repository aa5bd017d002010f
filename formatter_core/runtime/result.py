"""What a text turned out to be: its captures, its value, and whether it is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn, TypeAlias

from formatter_core.errors import IncompleteResult, InvalidValue, LimitExceeded
from formatter_core.formats.protocol import Converter, Lowered, text_of
from formatter_core.parsing.match import Match
from formatter_core.support.arguments import not_picklable
from formatter_core.support.lazy import cached_property

__all__ = ["Capture", "Ended", "Event", "HoleOpened", "Result", "Retracted", "TextAdded", "ValueCompleted"]

Ended: TypeAlias = Literal["end", "length", "stop_string", "error"]


@dataclass(frozen=True, slots=True)
class Capture:
    """One value that was captured. `start` and `end` count bytes of the text."""

    name: str
    value: Any
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class HoleOpened:
    """A capture has begun at the byte `offset` of the text."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class TextAdded:
    """Text was added to an open capture; it ends between two characters."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ValueCompleted:
    """A capture is complete. `start` and `end` count bytes of the text."""

    name: str
    value: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Retracted:
    """The text was taken back: forget every event at the byte `to` or later, and captured text past `to`."""

    to: int


Event: TypeAlias = HoleOpened | TextAdded | ValueCompleted | Retracted


@dataclass(frozen=True)
class Result:
    """The outcome of one sequence.

    Attributes:
        bytes: what was generated, end ids left out.
        tokens: the token ids that spelt it, end ids included; empty for a text that was parsed without tokens.
        ended: how it ended: `"end"`, `"length"`, `"stop_string"`, `"error"`, or None while it goes on.
        missing: what was still expected, as a sentence; None when the text is complete.
    """

    bytes: bytes
    tokens: tuple[int, ...]
    ended: Ended | None
    missing: str | None
    _lowered: Lowered = field(repr=False, compare=False)
    _match: Match | None = field(repr=False)
    _certain: tuple[Match, ...] = field(default=(), repr=False)
    _fault: LimitExceeded | None = field(default=None, repr=False, compare=False)

    def __copy__(self) -> Result:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        return replace(self)  # with a value of its own, which is worked out when it is read

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its text or tokens, and parse them with the same format there")

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

    @property
    def is_complete(self) -> bool:
        """Whether the text is in the format and ended by the format's own rules."""
        return self.missing is None

    @cached_property
    def spans(self) -> tuple[Capture, ...]:
        """Every capture in order of its start, an outer one before those inside it.

        Of a text that is not complete, those that no continuation could change.

        Raises:
            InvalidValue: a Python type refuses one of the values.
            LimitExceeded: parsing the text needs more steps than the limits allow.
        """
        return tuple(self._spans())

    @cached_property
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """The captured values by name, in order; raises like `spans`."""
        found: dict[str, list[Any]] = {}
        for capture in self.spans:
            found.setdefault(capture.name, []).append(capture.value)
        return {name: tuple(values) for name, values in found.items()}

    @cached_property
    def value(self) -> Any:
        """The typed value of the whole text.

        Raises:
            IncompleteResult: the text is not complete; the message says what is missing.
            InvalidValue: the text is complete, but a Python type refuses the value (docs/json_schema.md lists when).
            LimitExceeded: parsing the text needs more steps than the limits allow.
        """
        if self._fault is not None and self.missing is None:
            raise self._fault
        if self.missing is not None or self._match is None:
            missing = self.missing or "the text is not in the format"
            raise IncompleteResult(ended=self.ended, missing=missing, text=self.text)
        return converted(self._lowered.value, self._match)

    def _spans(self) -> Iterator[Capture]:
        if self._fault is not None:
            raise self._fault
        stack = list(reversed(self._certain if self._match is None else self._match.children))
        while stack:
            match = stack.pop()
            stack.extend(reversed(match.children))
            if not match.name.startswith("."):
                convert: Converter = self._lowered.converters.get(match.name, text_of)
                yield Capture(match.name, converted(convert, match), match.text, match.start, match.end)


def converted(convert: Converter, match: Match) -> Any:
    """The value of a match.

    Raises:
        InvalidValue: the type refuses it, or it is an object within objects, deeper than Python's stack.
    """
    try:
        return convert(match)
    except RecursionError as error:
        reason = "it is nested deeper than Python builds objects (see sys.setrecursionlimit)"
        raise InvalidValue(reason, text=match.text) from error
