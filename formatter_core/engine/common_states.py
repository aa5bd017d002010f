"""The state that most formats pass through and whose first mask takes longest: the inside of a JSON string.

An engine works its mask out with the tables of a vocabulary, so that no request waits for it.
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

__all__ = ["INSIDE_STRING", "any_name_but_one"]

#: The text after which the inside of a JSON string is under way.
INSIDE_STRING = b'"'


@cache
def any_name_but_one() -> Program:
    """A JSON string other than one text: what follows its quote is shared with all strings, names included."""
    body = Intersection((Repeat(spell_chars(ANY_CHAR.ranges)), Complement(JsonText("a"))))
    return Grammar({"": Terminal(Sequence((Bytes(b'"'), body, Bytes(b'"'))))}, "").check(Limits())
