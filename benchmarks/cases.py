"""List formats as each engine writes them, with texts that follow them. `grammars` has the grammars."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from formatter_core import FormatterBuilder, formats

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """Hold a format: a JSON Schema, a regular expression that all engines read alike, or a grammar in each notation.

    A notation that is None cannot say it, or not as one format; that engine is left out. Documents of a schema that is
    `compact` have no blanks.
    """

    name: str
    texts: tuple[str, ...]
    schema: Any = None
    pattern: str | None = None
    own: Any = None
    lark: str | None = None
    ebnf: str | None = None
    tag: Any = None
    compact: bool = False

    def format(self) -> Any:
        """Return the format for `Compiler.compile`."""
        if self.schema is not None:
            return formats.json_schema(self.schema, whitespace="compact" if self.compact else "flexible")
        return formats.regex(self.pattern) if self.pattern is not None else self.own


def _documents(*values: Any) -> tuple[str, ...]:
    return tuple(json.dumps(value, ensure_ascii=False) for value in values)


_LETTER = (
    "Dear Ms. Oyelaran, thank you for your letter of 3 May. We have looked into the matter, and you are right: the "
    "invoice was sent twice. The second one is void; nothing needs to be done on your side. Größere Umstände – so we "
    "hope – bleiben Ihnen erspart. 感谢您的耐心。 Yours, the accounts department."
)

_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "pattern": "^[a-z0-9.]+@[a-z0-9]+\\.[a-z]{2,4}$"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}

_TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "kind": {"enum": ["leaf", "inner", "root"]},
                "weight": {"type": "number"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["kind", "children"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}

_HOLES_LARK = r"""
start: TEXT
TEXT: /Name: [^\n]{1,40}, age (0|[1-9][0-9]*), city (London|Delhi|Lima)\.\nSummary: [^\n]*\n/
"""


def _text_with_holes() -> FormatterBuilder:
    b = FormatterBuilder()
    name, age = b.string(name="name", max_length=40), b.integer(name="age", minimum=0)
    return b.append(
        "Name: ", name, ", age ", age, ", city ", b.choice(["London", "Delhi", "Lima"], name="city"),
        ".\nSummary: ", b.string(name="summary"), "\n",
    )  # fmt: skip


CASES = [
    Case(
        "flat object",
        _documents(
            {"name": "Ada Lovelace", "age": 36, "email": "ada@engine.org", "tags": ["maths", "first", "poetry"]},
            {"name": "José \"Pepe\" García", "age": 7},
        ),
        schema=_PERSON,
    ),
    Case("long string", _documents({"letter": _LETTER}), schema={
        "type": "object", "properties": {"letter": {"type": "string"}},
        "required": ["letter"], "additionalProperties": False,
    }),
    Case(
        "recursive tree",
        _documents(
            {"kind": "root", "weight": 1.5, "children": [
                {"kind": "inner", "children": [{"kind": "leaf", "children": [], "label": None}]},
                {"kind": "leaf", "weight": -2e-3, "children": [], "label": "right"},
            ]}
        ),
        schema=_TREE,
    ),
    Case("any object", _documents({"a": [1, 2.5, {"b": None}], "c": "text", "d": {"e": [True, []]}}), schema={
        "type": "object",
    }),
    Case("array of numbers", _documents([0, -1.25, 3e8, 12345678901234567890, 0.001] * 4), schema={
        "type": "array", "items": {"type": "number"},
    }),
    Case("date and time", ("2024-02-29T23:59:58Z", "1999-12-31T00:00:00+05:30"), pattern=(
        r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-][0-9]{2}:[0-9]{2})"
    )),
    Case(
        "text with holes",
        ("Name: Grace Hopper, age 85, city London.\nSummary: she found the first bug, and taped it into the log.\n",),
        own=_text_with_holes(), lark=_HOLES_LARK,
        ebnf='root ::= "Name: " [^\\n]{1,40} ", age " ("0" | [1-9] [0-9]*) ", city " ("London" | "Delhi" | "Lima") '
             '".\\nSummary: " [^\\n]* "\\n"\n',
    ),
]  # fmt: skip
