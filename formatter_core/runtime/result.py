"""Results: the captures and the value of a text, and whether it is complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from formatter_core.errors import FormatterError, IncompleteResult, InvalidValue
from formatter_core.errors.arguments import picklable
from formatter_core.formats.protocol import Converter, Lowered
from formatter_core.grammar import is_internal
from formatter_core.grammar.lazy import cached_property
from formatter_core.grammar.values import value
from formatter_core.parsing.captures import Captures, Match
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.spans import spans_as_html

__all__ = [
    "Capture",
    "Ended",
    "Event",
    "HoleOpened",
    "Missing",
    "Reading",
    "Result",
    "Retracted",
    "TextAdded",
    "ValueCompleted",
]

Ended: TypeAlias = Literal["end", "length", "stop_string", "error"]


@dataclass(frozen=True, slots=True)
class Capture:
    """One value that was captured. `start` and `end` count bytes of the text."""

    name: str
    value: Any
    text: str
    start: int
    end: int


@value()
class HoleOpened:
    """A capture has begun at the byte `offset` of the text."""

    name: str
    offset: int


@value()
class TextAdded:
    """Text was added to an open capture; it ends between two characters."""

    name: str
    text: str


@value()
class ValueCompleted:
    """A capture is complete. `start` and `end` count bytes of the text."""

    name: str
    value: Any
    start: int
    end: int


@value()
class Retracted:
    """The text was taken back: forget every event at the byte `to` or later, and captured text past `to`."""

    to: int


Event: TypeAlias = HoleOpened | TextAdded | ValueCompleted | Retracted


class Missing(NamedTuple):
    """Why a text is not complete, in words, and the byte at which it stops matching, if it does."""

    words: str
    position: int | None = None


class Reading(Protocol):
    """The parser's answers about a text, computed when asked for."""

    @property
    def lowered(self) -> Lowered:
        """How a parse becomes values."""
        ...

    def whole(self) -> Captures | None:
        """The captures of a text that is complete; None of any other."""
        ...

    def certain(self) -> Captures:
        """The captures of an unfinished text that no continuation can change."""
        ...

    def missing(self, ended: Ended | None) -> Missing:
        """Why a text that ended so is not complete."""
        ...


@dataclass(frozen=True)
class KeptReading:
    """What could be read of a result before it was pickled, without its parser.

    Attributes:
        values: what `Result` has under each name of `READ`.
        errors: what reading the others raised.
    """

    values: Mapping[str, Any]
    errors: Mapping[str, BaseException]

    @classmethod
    def of(cls, result: Result[Any]) -> KeptReading:
        """Read all of a result."""
        values: dict[str, Any] = {}
        errors: dict[str, BaseException] = {}
        for name in READ:
            try:
                values[name] = getattr(result, name)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again where the copy is read
                errors[name] = picklable(error)
        return cls(values, errors)

    def read(self, name: str) -> Any:
        """What was there under a name.

        Raises:
            BaseException: what was raised there.
        """
        if name in self.errors:
            raise self.errors[name]
        return self.values[name]


#: What a result reads from its parser when it is asked.
READ = ("missing", "spans", "captures", "value")

_T = TypeVar("_T")


def _or_kept(read: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """Read a property of a result from what was kept, where it has been pickled."""

    @wraps(read)
    def read_or_kept(result: Result[Any]) -> _T:
        if isinstance(result._reading, KeptReading):
            return cast(_T, result._reading.read(read.__name__))
        return read(result)

    return read_or_kept


@dataclass(frozen=True)
class Result(Generic[Value_co]):
    """The outcome of one sequence.

    Pickling reads all of it (`missing`, `spans`, `captures`, `value`) and keeps that, or the errors that reading it
    raises: a copy in another process has no parser. A value of your own class is pickled as that class is.

    Attributes:
        bytes: what was generated, without end ids.
        tokens: the token ids that spelt it, including end ids; empty for a text that was parsed without tokens.
        ended: how it ended: `"end"`, `"length"`, `"stop_string"`, `"error"`, or None while it continues.
        is_complete: whether the text matches the format and the format itself ended it.
        shortened: where a budget first narrowed a choice, in bytes of the text: from there on the model might have
            continued otherwise. None if none did.
        cause: the error that ended the sequence, if one did; such a result is never complete.
    """

    bytes: bytes
    tokens: tuple[int, ...]
    ended: Ended | None
    is_complete: bool
    _reading: Reading | KeptReading = field(repr=False, compare=False)
    shortened: int | None = None
    cause: BaseException | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.cause is not None:  # whatever text was there before: what failed is not complete
            object.__setattr__(self, "is_complete", False)

    def __copy__(self) -> Result[Value_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Result[Value_co]:
        if isinstance(self._reading, KeptReading):
            return replace(self, _reading=deepcopy(self._reading, memo))
        return replace(self)  # with a value of its own, which is computed when it is read

    def __reduce__(self) -> tuple[Any, ...]:
        cause = None if self.cause is None else picklable(self.cause)
        kept = KeptReading.of(self)
        return type(self), (self.bytes, self.tokens, self.ended, self.is_complete, kept, self.shortened, cause)

    def _repr_html_(self) -> str:
        status = "complete" if self.is_complete else f"not complete: {self.missing}"
        try:
            named = [(one.name, one.start, one.end) for one in self.spans]
        except FormatterError as error:
            named, status = [], f"{status}; {error}"
        return spans_as_html(self.bytes, named, status)

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

    @cached_property
    @_or_kept
    def missing(self) -> str | None:
        """What was still expected or does not match, as a sentence; None if the text is complete."""
        if self.is_complete:
            return None
        return str(self.cause) if self.cause is not None else self._missing.words

    @cached_property
    @_or_kept
    def spans(self) -> tuple[Capture, ...]:
        """Every capture in order of its start, an outer one before those inside it.

        For a text that is not complete, only those that no continuation could change.

        Raises:
            InvalidValue: a Python type refuses one of the values.
            LimitExceeded: parsing the text needs more steps than the limits allow.
        """
        found = self._captures
        columns = zip(found.names, self._values, found.texts, found.starts, found.ends, strict=True)
        return tuple(Capture(*column) for column in columns if not is_internal(column[0]))

    @cached_property
    @_or_kept
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """The captured values by name, in order; raises like `spans`."""
        found: dict[str, list[Any]] = {name: [] for name in dict.fromkeys(self._captures.names)}
        for name, captured in zip(self._captures.names, self._values, strict=True):
            found[name].append(captured)
        return {name: tuple(values) for name, values in found.items() if not is_internal(name)}

    @cached_property
    @_or_kept
    def value(self) -> Value_co:
        """The typed value of the whole text.

        Raises:
            IncompleteResult: the text is not complete; the message says what is missing.
            InvalidValue: the text is complete, but a Python type refuses the value (docs/json_schema.md lists when).
            LimitExceeded: parsing the text needs more steps than the limits allow.
        """
        if self._whole is None:
            missing = self.missing or "the text is not in the format"
            position = None if self.is_complete or self.cause is not None else self._missing.position
            raise IncompleteResult(ended=self.ended, missing=missing, text=self.text, position=position)
        return cast(Value_co, converted(self._parser.lowered.value, self._whole.match))

    @property
    def _parser(self) -> Reading:
        return cast(Reading, self._reading)  # only what has not been kept is read from it

    @cached_property
    def _missing(self) -> Missing:
        return self._parser.missing(self.ended)

    @cached_property
    def _whole(self) -> Captures | None:
        return self._parser.whole() if self.is_complete else None

    @cached_property
    def _captures(self) -> Captures:
        return self._parser.certain() if self._whole is None else self._whole

    @cached_property
    def _values(self) -> list[Any]:
        """The value of each capture; of internal ones the text."""
        found, converters = self._captures, self._parser.lowered.converters
        values: list[Any] = list(found.texts)
        if not converters.keys().isdisjoint(found.names):
            for number, match in enumerate(found.matches):
                if match.name in converters and not is_internal(match.name):
                    values[number] = converted(converters[match.name], match)
        return values


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
