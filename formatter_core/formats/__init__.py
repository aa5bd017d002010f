"""Provide functions that make formats; every format can be compiled, parsed, nested and serialised."""

from formatter_core.formats.builder import FormatterBuilder
from formatter_core.formats.chat_answer import chat_answer
from formatter_core.formats.choice import choice
from formatter_core.formats.coercion import as_format
from formatter_core.formats.combinators import one_of, optional, repeat, sequence, within
from formatter_core.formats.example import example
from formatter_core.formats.json_schema import json_schema
from formatter_core.formats.notations import ebnf, gbnf, kbnf, lark
from formatter_core.formats.number import integer, number
from formatter_core.formats.openai_request import extra_body
from formatter_core.formats.python_type import python_type
from formatter_core.formats.regex import regex
from formatter_core.formats.serialization import from_json
from formatter_core.formats.special import special
from formatter_core.formats.string import string
from formatter_core.formats.structural_tag import structural_tag
from formatter_core.formats.substring import substring_of
from formatter_core.formats.text import Hole, text
from formatter_core.formats.token import token
from formatter_core.formats.until import until
from formatter_core.schema import Whitespace

__all__ = [
    "FormatterBuilder",
    "Hole",
    "Whitespace",
    "as_format",
    "chat_answer",
    "choice",
    "ebnf",
    "example",
    "extra_body",
    "from_json",
    "gbnf",
    "integer",
    "json_schema",
    "kbnf",
    "lark",
    "number",
    "one_of",
    "optional",
    "python_type",
    "regex",
    "repeat",
    "sequence",
    "special",
    "string",
    "structural_tag",
    "substring_of",
    "text",
    "token",
    "until",
    "within",
]
