"""Free text up to an end marker."""

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
    """Text up to the first `end`; the value is the text before it."""

    kind: ClassVar = "until"
    end: str

    def to_grammar(self, limits: Limits) -> Lowered:
        end = literal(self.end)
        body = Sequence((Capture(VALUE, Terminal(_text_before(end.value))), end))
        return Lowered(Grammar({"until": body}, "until"), value=_value, unfinished=TextSoFar(of_value=True))


def until(end: str, *, max_tokens: int | None = None) -> Format:
    """Text in which `end` does not occur, then `end`, which is not captured. The first `end` ends it.

    Args:
        end: what ends the text.
        max_tokens: how many tokens the text and its end may take together; see `within`.
    """
    if not isinstance(end, str) or not end:
        raise InvalidFormat(f"expected a non-empty str as the end, found {end!r}")
    literal(end)  # refuses lone surrogates now, where the caller can see which text it was
    return limited(UntilFormat(end), max_tokens)


def _text_before(end: bytes) -> Node:
    """The texts T for which the first `end` in T + end is the one after T.

    An earlier one lies inside T, or begins in T's last `period` bytes and runs into `end` itself, which happens
    exactly where `end` repeats with that period. A period whose bytes end with those of a shorter one adds nothing.
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
