"""Inputs that a search begins with, and the words of a language, which libFuzzer puts into inputs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["DICTIONARIES", "IN_PYTHON", "seeds"]

#: Targets whose inputs are read by Python code, whose branches are counted then instead of the library's.
IN_PYTHON = {"notation"}

_NAMES = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
SCHEMAS: tuple[Any, ...] = (
    True,
    False,
    {},
    {"type": ["string", "null", "integer"]},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"type": "string", "pattern": "^[a-c]+(x|é)$", "maxLength": 6},
    *({"type": "string", "format": name} for name in ("date", "date-time", "uuid", "email", "ipv4", "uri", "hostname")),
    {"type": "integer", "minimum": -3, "exclusiveMaximum": 120},
    {"type": "number", "minimum": 0.5, "maximum": 12.25},
    {"type": "integer", "multipleOf": 7, "maximum": 700},
    {"type": "number", "multipleOf": 0.25},
    {"enum": ["a", "ab", 1, 1.5, None, True, [1, {"a": "b"}]]},
    {"const": {"a": [1, 2], "b": '\u00e9\n"\\'}},
    {**_NAMES, "type": "object", "required": ["a", "c"], "additionalProperties": False},
    {**_NAMES, "type": "object", "required": ["b"], "additionalProperties": {"type": "boolean"}},
    {"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 3}}, "maxProperties": 3},
    {"type": "object", "propertyNames": {"pattern": "^[a-c]{1,3}$"}, "minProperties": 2},
    {**_NAMES, "dependentRequired": {"a": ["b"], "c": ["a", "d"]}},
    {**_NAMES, "dependentSchemas": {"a": {"required": ["b"], "properties": {"b": {"minLength": 2}}}}},
    {**_NAMES, "unevaluatedProperties": False, "allOf": [{"properties": {"c": True}}]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, True], "items": False},
    {"type": "array", "contains": {"const": 1}, "minContains": 1, "maxContains": 2, "maxItems": 4},
    {"type": "array", "items": {"enum": ["a", "b", 3, 4.5]}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "maxItems": 3},
    {"type": "array", "unevaluatedItems": {"type": "null"}, "prefixItems": [{"type": "boolean"}]},
    {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "object", "required": ["a"]}]},
    {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"},
    {"oneOf": [{"properties": {"kind": {"const": k}, k: {}}, "required": ["kind"]} for k in ("a", "b")]},
    {"allOf": [{"minimum": 2}, {"maximum": 7}, {"type": "integer"}]},
    {"not": {"enum": ["a", "b"]}, "type": "string", "maxLength": 2},
    {"not": {"type": ["object", "array"]}},
    {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": {"maxProperties": 1}},
    {"$defs": {"t": {"type": "object", "properties": {"l": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"},
    {"$id": "http://a/", "$defs": {"x": {"$anchor": "y", "type": "null"}}, "items": {"$ref": "#y"}},
    {"$dynamicAnchor": "n", "properties": {"c": {"$dynamicRef": "#n"}}},
    {"definitions": {"p": {"type": "integer"}}, "items": [{"$ref": "#/definitions/p"}], "additionalItems": False},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["a"]},
    {"$ref": "http://r/a"},
    {"items": {"$ref": "http://r/b"}, "maxItems": 1, "contains": {"$ref": "http://r/a#n"}},
    {"contentEncoding": "base64", "title": "t", "description": "d", "default": 1, "examples": [2], "nullable": True},
)
PATTERNS = (
    *("a", "", "[a-f]+x?", "(ab|cd){2,4}", r"\d{3}-\d{4}", r"[^\n\"\\]*", "a*?b+?", "(?:x|y|)z", "[[:alpha:]]{2}"),
    *(r"^\w+@\w+\.\w{2,3}$", "(a+)+b", "(?i)straße", r"\p{Lu}\p{L}*", r"[\p{Greek}&&[^α]]", "é|日本", r"\x41\u{1F600}"),
    *(
        "(?=a)[ab]+",
        r"\bab\b c",
        "(?<=x)y|xy",
        r"(a)\1",
        "(?P<n>a)(?P=n)",
        "[a-z&&[^aeiou]]",
        r"(?s).{0,3}",
        "(?x) a b # c",
    ),
    *(
        r"\A[0-9]{1,3}\z",
        "(?<n>b)|c",
        "x{0}",
        "[^\\x00-\\x7f]",
        "a{1,}",
        r"[\w--\d]",
        "$a",
        "a^",
        "(|a|(|b))",
        r"\S\s\D\W",
    ),
)
NOTATIONS = (
    (0, 'start: "a" (B | c)* ";"\nB: /[0-9]+/\nc: "x" | "y" B?\n%ignore " "\n'),
    (0, 'start: call* rest\nrest: TEXT\nTEXT: /(.|\\n)*/\nhead[lazy]: TEXT "<c>"\ncall: head /[0-9]+/ "</c>"\n'),
    (0, 'start: x~2..3 ("," x)?\nx.2: "é"i -> y\n%import common.INT\n_S: INT+\n!z: [_S]\n'),
    (0, 'start: %json {"type": "integer"} | %regex {"substring_words": "a b c"}\n'),
    (1, 'root ::= "a" x* [^"\\n]\nx ::= [a-z0-9] | "\\u00e9" ("," x){1,2} # c\n'),
    (2, 'root ::= (("a" | "b" b)+ [0-9]?)\nb ::= "\\n" | /* c */ "" | root{2}\n'),
    (3, 'start ::= "a" b? | #"[0-9]+" start*; b ::= #e"x" | except!("</c>", 5); (* c *)'),
    (3, '%include x;\nstart ::= regex("a") | json({"type":"null"}) start;'),
    (4, json.dumps({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"type": "integer"}}})),
    (
        4,
        json.dumps(
            {
                "type": "structural_tag",
                "format": {
                    "type": "triggered_tags",
                    "triggers": ["<f"],
                    "tags": [{"begin": "<f=a>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</f>"}],
                    "at_least_one": True,
                    "stop_after_first": False,
                },
            }
        ),
    ),
    (5, json.dumps({"type": "choice", "options": ["a", "ab"]})),
    (5, json.dumps({"type": "json_schema", "schema": {"type": "integer"}, "spelling": "any"})),
    (5, json.dumps({"type": "text", "parts": ["a", {"hole": {"type": "regex", "pattern": "b+"}, "name": "x"}]})),
)

_KEYWORDS = sorted({key for schema in SCHEMAS if isinstance(schema, dict) for key in schema})
_TYPES = ("string", "integer", "number", "object", "array", "boolean", "null")
#: The words of a target's language, which libFuzzer puts into inputs.
DICTIONARIES: dict[str, tuple[str, ...]] = {
    "schema": (*(f'"{word}":' for word in _KEYWORDS), *(f'"{word}"' for word in _TYPES), '{"', '"}', "[]", "true"),
    "pattern": ("(?:", "(?=", "(?!", "(?<=", "(?i)", "(?P<n>", r"\p{L}", r"\b", r"\d", "[^", "{2,3}", "&&", "*?", "|"),
    "notation": (
        "%json",
        "%regex",
        "%ignore",
        "%import",
        "::=",
        "start: ",
        "root ::= ",
        "[lazy]",
        "~2",
        "except!(",
        "->",
    ),
}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs of a target that use its language; the same every time."""
    chosen = random.Random(target)
    texts = {
        "schema": [
            (bits, json.dumps(one))
            for one in SCHEMAS
            for bits in (0, 1 + chosen.randrange(127), 128 + chosen.randrange(128))
        ],
        "pattern": [(bits, one) for one in PATTERNS for bits in range(3)],
        "notation": list(NOTATIONS),
    }
    for bits, text in texts.get(target, []):
        yield bytes([bits]) + text.encode() + b"\0" + chosen.randbytes(24)
    if target not in texts:
        yield from (chosen.randbytes(60) for _ in range(40))
