"""The states that most formats pass through and whose first masks take longest: the inside of JSON strings.

An engine computes those masks together with the tables of a vocabulary, so that no request waits for them.
"""

from __future__ import annotations

from functools import cache

from formatter_core.grammar import (
    ANY_CHAR,
    Bytes,
    Complement,
    Grammar,
    Intersection,
    JsonText,
    Repeat,
    Sequence,
    Terminal,
)
from formatter_core.grammar.json_text import spell_chars
from formatter_core.grammar.program import Program
from formatter_core.limits import Limits

__all__ = ["INSIDE_STRING", "strings"]

#: The text that opens a JSON string.
INSIDE_STRING = b'"'


@cache
def strings() -> tuple[Program, ...]:
    """Return nodes for a JSON string other than one text, and for one of limited length.

    Inside, the first has the states of all strings and names.
    """
    text = Repeat(spell_chars(ANY_CHAR.ranges, "canonical"))
    bodies = (Intersection((text, Complement(JsonText("a", "canonical")))), Repeat(text.item, 0, 2))
    quoted = (Terminal(Sequence((Bytes(b'"'), body, Bytes(b'"')))) for body in bodies)
    return tuple(Grammar({"": string}, "").check(Limits()) for string in quoted)
