"""Read context-free grammars as formats, in several notations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from formatter_core.errors import InvalidFormat, LimitExceeded, UnsupportedSchema
from formatter_core.errors.arguments import one_of
from formatter_core.formats.guidance import read_guidance
from formatter_core.formats.json_schema import schema_grammar
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.schema import Spelling
from formatter_core.syntax.bnf import parse_ebnf, parse_gbnf
from formatter_core.syntax.kbnf import parse_kbnf
from formatter_core.syntax.lark import parse_lark

__all__ = ["NotationFormat", "ebnf", "gbnf", "kbnf", "lark"]

Notation: TypeAlias = Literal["ebnf", "gbnf", "kbnf", "lark"]

_READERS: dict[Notation, Callable[[str, str, Limits], Grammar]] = {
    "ebnf": parse_ebnf,
    "gbnf": parse_gbnf,
    "kbnf": parse_kbnf,
}
#: The cost of reading a character of a grammar, in steps of `Limits.work`.
_STEPS_OF_A_CHARACTER = 10


@dataclass(frozen=True)
class NotationFormat(Alternatives):
    """A format of the texts that the rule `start` of a grammar derives."""

    kind: ClassVar = "grammar"
    notation: Notation
    text: str
    start: str = "start"
    #: The spelling of the JSON parts of Lark.
    spelling: Spelling = "canonical"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not isinstance(self.start, str):
            wanted = "text, a str" if self.notation == "lark" else "text and the name of its start rule, both str"
            raise InvalidFormat(f"{self.notation} takes the grammar's {wanted}")
        one_of(self.spelling, "spelling", get_args(Spelling))

    def to_grammar(self, limits: Limits) -> Lowered:
        if len(self.text) * _STEPS_OF_A_CHARACTER > limits.work:
            raise LimitExceeded("work", limits.work, f"reading a grammar of {len(self.text)} characters")
        if self.notation == "lark":
            lowered = partial(_lowered, spelling=self.spelling, limits=limits)
            return Lowered(parse_lark(self.text, lowered, limits))
        return Lowered(_READERS[self.notation](self.text, self.start, limits))

    def to_json(self) -> dict[str, Any]:
        option = {"spelling": self.spelling} if self.notation == "lark" else {"start": self.start}
        return {"type": self.notation, "text": self.text, **option}


def _lowered(schema: Any, *, spelling: Spelling, limits: Limits) -> Grammar:
    try:
        schema, options = read_guidance(schema)
    except RecursionError as error:
        raise LimitExceeded("depth", limits.depth, "the nesting of a schema after %json") from error
    try:
        return schema_grammar(schema, limits, spelling=spelling, **options)
    except UnsupportedSchema as error:
        raise error.advising("Remove it") from None


def ebnf(text: str, start: str = "root") -> NotationFormat:
    """Return the format of a grammar in EBNF, XGrammar's notation. Compiling reports errors with line and column."""
    return NotationFormat("ebnf", text, start)


def gbnf(text: str, start: str = "root") -> NotationFormat:
    """Return the format of a grammar in GBNF, llama.cpp's notation. Compiling reports errors with line and column."""
    return NotationFormat("gbnf", text, start)


def kbnf(text: str, start: str = "start") -> NotationFormat:
    """Return the format of a grammar in KBNF. Compiling reports errors with line and column."""
    return NotationFormat("kbnf", text, start)


def lark(text: str, *, spelling: Spelling = "canonical") -> NotationFormat:
    """Return the format of a grammar in Lark as llguidance reads it; `spelling` applies to its `%json` parts.

    Compiling reports errors with line and column.
    """
    return NotationFormat("lark", text, spelling=spelling)
