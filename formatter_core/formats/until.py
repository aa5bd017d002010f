"""Define free text up to an end marker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formatter_core.errors import InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import VALUE, Format, Lowered, value_part
from formatter_core.formats.unfinished import TextSoFar
from formatter_core.formats.within import limited
from formatter_core.grammar import (
    ANY_TEXT,
    Bytes,
    Capture,
    Complement,
    Grammar,
    Intersection,
    Node,
    Sequence,
    Terminal,
    literal,
)
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["UntilFormat", "until"]


@dataclass(frozen=True)
class UntilFormat(Alternatives):
    """A format of text up to the first `end`; the value is the text before it."""

    kind: ClassVar = "until"
    end: str

    def to_grammar(self, limits: Limits) -> Lowered:
        end = literal(self.end)
        body = Sequence((Capture(VALUE, Terminal(_text_before(end.value))), end))
        return Lowered(Grammar({"until": body}, "until"), value=_value, unfinished=TextSoFar(of_value=True))


def until(end: str, *, max_tokens: int | None = None) -> Format:
    """Return the format of text in which `end` does not occur, then `end`, which is not captured.

    Args:
        end: the text that ends it.
        max_tokens: the maximum number of tokens of the text and its end together; see `within`.
    """
    if not isinstance(end, str) or not end:
        raise InvalidFormat(f"expected a non-empty str as the end, found {end!r}")
    literal(end)  # reject lone surrogates now, where the caller sees which text has them
    return limited(UntilFormat(end), max_tokens)


def _text_before(end: bytes) -> Node:
    """Return the texts T such that the first `end` in T + end is the one after T.

    An earlier `end` lies inside T, or begins in T's last `period` bytes and overlaps the final `end`, which happens
    exactly if `end` repeats with that period. A period whose bytes end with those of a shorter one adds nothing.
    """
    periods: list[int] = []
    for length in range(1, len(end)):
        repeats = end[length:] == end[:-length]
        if repeats and not any(end[:length].endswith(end[:shorter]) for shorter in periods):
            periods.append(length)
    return Intersection(
        (
            ANY_TEXT,
            Complement(Sequence((ANY_TEXT, Bytes(end), ANY_TEXT))),
            *(Complement(Sequence((ANY_TEXT, Bytes(end[:period])))) for period in periods),
        )
    )


def _value(match: Match) -> str:
    return value_part(match).text
