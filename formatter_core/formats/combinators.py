"""Combine formats: sequence, one of several, optional, repeat, a limited number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from formatter_core.errors import InvalidArgument, InvalidFormat
from formatter_core.errors.arguments import whole_number
from formatter_core.formats.coercion import as_format
from formatter_core.formats.one_of import Alternatives, OneOfFormat
from formatter_core.formats.parts import Part, Parts
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.unfinished import ChosenPart, ListedParts
from formatter_core.formats.within import limited
from formatter_core.grammar import EMPTY, Choice, Node, Repeat, Sequence, literal
from formatter_core.limits import Limits

__all__ = ["OptionalFormat", "RepeatFormat", "SequenceFormat", "one_of", "optional", "repeat", "sequence", "within"]


@dataclass(frozen=True)
class SequenceFormat(Alternatives):
    """A format of parts one after the other; the value is the tuple of the parts' values."""

    kind: ClassVar = "sequence"
    parts: tuple[Part, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        parts = Parts(limits)
        body = Sequence(tuple(parts.add(part) for part in self.parts))
        return parts.lowered("sequence", body, lambda match: tuple(parts.values(match)), _as_tuple)


@dataclass(frozen=True)
class OptionalFormat(Alternatives):
    """A format of a part or nothing; the value is the part's, or None."""

    kind: ClassVar = "optional"
    part: Part

    def to_grammar(self, limits: Limits) -> Lowered:
        parts = Parts(limits)
        body = Choice((parts.add(self.part), EMPTY))
        return parts.lowered("optional", body, lambda match: next(iter(parts.values(match)), None), ChosenPart)


@dataclass(frozen=True)
class RepeatFormat(Alternatives):
    """A format of a part `minimum` to `maximum` times, with separators between; the value is the list of the part's
    values.
    """

    kind: ClassVar = "repeat"
    part: Part
    minimum: int
    maximum: int | None
    separator: Part | None

    def to_grammar(self, limits: Limits) -> Lowered:
        parts = Parts(limits)
        item = parts.add(self.part)
        body: Node = Repeat(item, self.minimum, self.maximum)
        if self.maximum == 0:
            body = EMPTY
        elif self.separator is not None:
            most = None if self.maximum is None else self.maximum - 1
            more = Repeat(Sequence((parts.add(self.separator), item)), max(self.minimum - 1, 0), most)
            body = Sequence((item, more))
            body = body if self.minimum else Choice((body, EMPTY))
        return parts.lowered("repeat", body, lambda match: parts.values(match, ".0"), _as_list, only=".0")


def _as_tuple(parts: Mapping[str, Lowered]) -> ListedParts:
    return ListedParts(parts, tuple)


def _as_list(parts: Mapping[str, Lowered]) -> ListedParts:
    return ListedParts(parts, list)


def sequence(*parts: Any) -> SequenceFormat:
    """Return the format of the parts one after the other, with nothing between; the value is the tuple of their values.

    Args:
        parts: formats that `Compiler.compile` accepts, except that a `str` is literal text.
    """
    return SequenceFormat(tuple(map(_as_part, parts)))


def one_of(*alternatives: Any) -> OneOfFormat:
    """Return the format of one of the alternatives, also written `a | b`; the value is that of the matching one.

    If several alternatives match a text, the first one gives the value.

    Args:
        alternatives: formats that `Compiler.compile` accepts, except that a `str` is literal text.

    Raises:
        InvalidFormat: there are no alternatives.
    """
    if not alternatives:
        raise InvalidFormat("one_of has no alternatives; give at least one format")
    return OneOfFormat(tuple(map(_as_part, alternatives)))


def optional(part: Any) -> OptionalFormat:
    """Return the format of the part or nothing; the value is the part's, or None.

    Args:
        part: a format that `Compiler.compile` accepts, except that a `str` is literal text.
    """
    return OptionalFormat(_as_part(part))


def repeat(part: Any, minimum: int = 0, maximum: int | None = None, *, separator: Any = None) -> RepeatFormat:
    """Return the format of the repeated part; the value is the list of its values.

    Args:
        part: a format that `Compiler.compile` accepts, except that a `str` is literal text.
        minimum: the minimum number of repetitions.
        maximum: the maximum number of repetitions; None means no limit.
        separator: the text between two repetitions, such as `", "`, or a format as for `part`. Its value is dropped.

    Raises:
        InvalidArgument: `minimum` or `maximum` is not a whole number of at least 0, or `minimum` exceeds `maximum`.
    """
    low = whole_number(minimum, "minimum")
    high = None if maximum is None else whole_number(maximum, "maximum")
    if high is not None and low > high:
        raise InvalidArgument(f"minimum {low} exceeds maximum {high}; swap them", argument="minimum")
    return RepeatFormat(_as_part(part), low, high, None if separator is None else _as_part(separator))


def within(format: Any, max_tokens: int) -> Format:
    """Return the format, limited to `max_tokens` tokens; its value is that of the format.

    Near the end of the budget, only tokens are allowed that leave room to complete the format within it. A token counts
    for the part of the text that contains its first byte: a token that begins before this part does not count, but a
    token that begins in it and extends beyond it does. Each occurrence of the part has the whole budget. Parsing a text
    without tokens ignores budgets. Only the native grammar engine supports them.

    Args:
        format: a format that `Compiler.compile` accepts.
        max_tokens: a whole number of at least 1. If no text of the format fits, compiling raises `BudgetTooSmall`.
    """
    if max_tokens is None:
        raise InvalidArgument("max_tokens is None; give a whole number from 1", argument="max_tokens")
    return limited(as_format(format), max_tokens)


def _as_part(part: Any) -> Part:
    if isinstance(part, str):
        literal(part)  # reject lone surrogates now, where the caller sees which text has them
        return part
    return as_format(part)
