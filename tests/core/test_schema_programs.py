"""Schemas of every kind, by the documents of their formats, which the `jsonschema` package judges."""

from __future__ import annotations

import copy
import json
import pickle
import random
import sys
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine import native_schema
from formatter_core.engine.native_schema import NativeSchema, begun, native_json
from formatter_core.errors import (
    EngineUnavailable,
    FormatterError,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.grammar import Program
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema import Whitespace
from formatter_core.schema.data import read_json
from formatter_core.schema.keywords import keywords
from formatter_core.schema.library import LibraryOptions, common_terminals
from tests.sampling import sampled

from .canonical_walks import write

PLAIN: list[Any] = [
    {"type": "object"},
    {"type": ["object", "array", "null"]},
    {"properties": {"a": {}, "b": True, "c": False, "d": {"type": "string"}}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "c"], "additionalProperties": {"const": 1}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "properties": {n: {} for n in ("a", "aa", "ab", "b", "", "é", "日本")}, "required": ["aa"]},
    {"type": "object", "properties": {"\"\\\n\u00e9\U0001f600": {"const": "\"\\\n"}}, "additionalProperties": False},
    {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 1}, "maxItems": 3},
    {"type": "array", "minItems": 2, "items": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    {"type": "array", "maxItems": 0},
    {"type": "array", "minItems": 3, "maxItems": 3, "uniqueItems": False},
    {"items": {"enum": ["x", 1, None, True, 1.5]}},
    {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object", "properties": {"more": {"$ref": "#"}}}}},
    {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}, "a": {}}}]},
    {"anyOf": [{"type": "array"}, {"type": "array", "items": {}}, {"type": "string", "format": "date"}, {"const": 3}]},
    {"anyOf": [{"type": "object", "required": ["z"]}, {"type": "object", "required": ["z"]}, {"type": "object"}]},
    {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}, {}], "$defs": {"n": {"type": "null"}}},
    {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "object", "properties": {"a": {"$ref": "#"}}}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "array"}]},
    {"type": "string", "not": {"enum": ["a", "b"]}, "minLength": 1},
    {"type": ["string", "null"], "anyOf": [{"pattern": "^a"}, {"maxLength": 3}, {"type": "null"}]},
    {"type": "object", "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMaximum": 1.5}}},
    {"type": "string", "enum": ["a", "b", "a", None, "", "ab"]},
    {"properties": {"a": {"enum": ["x", None, True]}, "b": {"enum": [False, None]}, "c": {"const": ""}}},
    {"type": ["string", "null"], "minLength": 2, "maxLength": 5},
    {"type": ["null", "string", "boolean"], "maxLength": 0},
    {"items": {"anyOf": [{"type": "null"}, {"type": ["string", "boolean"]}]}},
    {"items": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
    {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    {"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]},
    {"properties": {n: {"$ref": "#/$defs/" + n} for n in "ab"},
     "$defs": {"a": {"$ref": "#/$defs/b", "title": "a"}, "b": {"type": "object", "required": ["x"]}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string", "const": "x"},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"a": {"type": "integer"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "string",
     "definitions": {"a": {"type": "object"}}},
    {"allOf": [{"type": "object", "properties": {"a": {"allOf": [{"$ref": "#"}], "title": "a"}}}]},
    {"type": "object", "anyOf": [{"type": "object", "required": ["a"]}, {"type": "array"}, {"items": {"const": 1}}]},
    {"type": ["array", "object"], "oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]},
    {"items": {"type": "object", "anyOf": [{}]}, "additionalItems": False},
    {"type": "array", "additionalItems": False, "items": {}},
    {"properties": {"a": {"type": "integer", "format": "int32", "pattern": "("}, "b": {"type": "null", "minimum": 1}}},
    {"type": ["string", "null"], "maxLength": 3, "exclusiveMinimum": 5},
    {"type": ["boolean", "number"], "format": "date", "minLength": 3, "minimum": 0},
    {"type": "object", "patternProperties": {".*": {"type": "object", "properties": {"a": {"$ref": "#"}}}}},
    {"patternProperties": {"^.*": {}}, "properties": {"a": {"const": 1}}, "required": ["b"]},
    {"type": "object", "patternProperties": {"^\"x\\d": {"type": "array"}}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": {"items": {"const": 1}}}, "additionalProperties": {"$ref": "#"}},
    {"type": "object", "patternProperties": {}, "properties": {"a": {"patternProperties": {"b$": {"const": 1}}}}},
    {"properties": {"a": {"patternProperties": {}}, "b": {"type": "object", "patternProperties": {}}}},
    {"properties": {"a": {}, "é": {"$ref": "#"}}, "required": ["b"], "patternProperties": {"^x-": {"type": "array"}}},
    {"patternProperties": {"^a[x-z]+$": {"const": 1}, "^b([xy]|\\d)*$": {"$ref": "#"}, "^c$": {}, "^dd": {"const": 2}},
     "properties": {"a": {}, "d": {"const": 2}}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": {"type": ["null", "array"]}, "^b": {"type": "string", "title": "b"}},
     "properties": {"ab": {"type": ["string", "null"]}, "b": {"type": "string"}, "d": {"minimum": 1}}},
    {"properties": {"a": {"title": "a", "type": "null"}, "b": {"enum": [None, 3]}}, "required": ["b", "c"],
     "patternProperties": {".*": {"type": "null"}}},
    {"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    {"anyOf": [{"minProperties": 1, "properties": {"a": {}}}, {"minProperties": 0, "required": ["b"]}]},
    {"items": {"format": "date"}, "additionalProperties": {"pattern": "x"}, "properties": {"a": {"minimum": 3}}},
    {"type": ["array", "number"], "multipleOf": 0.5, "items": {"multipleOf": 7, "type": "integer"}},
    {"allOf": [{"enum": [1, "a", None]}, {"not": {"type": "null", "properties": {"a": {}}}}]},
    {"items": {"allOf": [{"minimum": 3}, {"type": ["integer", "string"]}], "format": "date"}},
    {"enum": ["a", "b", 3], "not": {"const": "b"}},
    {"type": "array", "properties": {"a": 3}, "additionalProperties": False, "items": {}},
    {"anyOf": [{"type": "string", "properties": {"b": {}}, "required": ["c"]}, {"properties": {"a": {}}},
               {"type": "array", "required": ["d"], "properties": {"a": {}}}]},
    {"type": "object", "properties": {"a": {"const": 1}}, "required": ["c"],
     "allOf": [{"properties": {"b": {}, "a": {"const": 1}}, "required": ["b"]}, {"$ref": "#/$defs/d"}],
     "$defs": {"d": {"properties": {"d": {"$ref": "#"}}}}},
    {"$ref": "#/$defs/a", "properties": {"b": {}}, "$defs": {"a": {"type": "object", "required": ["b"]}}},
    {"allOf": [{"$ref": "#/$defs/m"}, {"properties": {"t": {"enum": ["b", 3]}, "o": {"properties": {"p": {}}}}}],
     "type": "object", "$defs": {"m": {"type": "object", "properties": {
         "t": {"type": "string", "enum": ["a", "b"]}, "o": {"type": "object", "required": ["r"]}}}}},
    {"type": "object", "properties": {n: {} for n in "abc"}, "anyOf": [{"required": [n]} for n in "ab"]},
    {"properties": {n: {} for n in "abc"}, "oneOf": [{"required": [n]} for n in "abd"], "type": "object"},
    {"oneOf": [{"required": [n], "properties": {n: {}}, "additionalProperties": False, "type": "object"}
               for n in "ab"]},
    {"type": "object", "required": ["t"], "properties": {"t": {"type": "string"}},
     "oneOf": [{"properties": {"t": {"const": n}, n: {"$ref": "#"}}} for n in "ab"]},
    {"oneOf": [{"$ref": "#/$defs/" + n} for n in "ab"],
     "$defs": {n: {"type": "object", "properties": {"t": {"enum": [n, 1 + (n == "a")]}}, "required": ["t"]}
               for n in "ab"}},
    {"type": ["boolean", "object", "array"], "minItems": 1, "items": {}, "maxItems": 4,
     "anyOf": [{"maxItems": 3, "type": ["array", "boolean"]}, {"type": "object", "required": ["a"]}]},
    {"type": ["string", "object"], "maxLength": 3, "allOf": [{"minLength": 1}, {"type": ["object", "string", "null"]}]},
    {"oneOf": [{"type": "null"}, {"anyOf": [{"type": "boolean"}, {"type": "object", "properties": {"a": {}}}]}]},
    {"$schema": "http://json-schema.org/draft-04/schema#", "$ref": "#/definitions/a",
     "definitions": {"a": {"id": "#/definitions/a", "type": "array", "items": {"$ref": "#/definitions/a"}}}},
    # Nothing refers to these URIs.
    {"$id": "http://x/y", "type": "object", "properties": {"a": {"$id": "/properties/a", "type": "string"},
     "b": {"$id": "/properties/b", "type": "array", "items": {"$id": "/properties/b/items", "type": "integer"}}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x/y", "type": "object",
     "properties": {"id": {"id": "a", "type": "string"}}, "additionalProperties": {"id": "b", "$anchor": "c"}},
]  # fmt: skip
#: These need products, differences or counts.
ALGEBRA: list[Any] = [
    {"uniqueItems": True, "items": {"enum": [{"a": 1, "b": [2]}, {"b": [2], "a": 1.0}, [[]], "x"]}},
    {"type": "array", "uniqueItems": True, "items": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"minimum": 1, "maximum": 4, "type": "integer"}},
        "additionalProperties": False, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}},
    {"type": "array", "uniqueItems": True, "contains": {"required": ["a"]}, "maxContains": 1, "items": {
        "type": ["object", "null"], "properties": {"a": {"const": [1]}, "b": {"const": "x"}},
        "additionalProperties": False}},
    {"items": {"type": "string", "format": "regex", "maxLength": 30}, "propertyNames": {"format": "regex"}},
    {"properties": {"a": {"format": "idn-hostname"}, "b": {"format": "idn-hostname", "enum": ["b", "\u65e5\u672c"]}}},
    {"anyOf": [{"type": "string", "format": "idn-hostname"}, {"format": "hostname", "pattern": "^a"}]},
    {"allOf": [{"properties": {"a": {"type": "object"}}}, {"required": ["a"]}], "type": "object"},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "array"}}, "type": "object"},
    {"type": "object", "patternProperties": {"^x": {"type": "object", "properties": {"a": {"$ref": "#"}}}}},
    {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, "b": {}}},
    {"type": "object", "properties": {"n": {"multipleOf": 7, "type": "integer"}, "o": {"type": "object"}}},
    {"type": "object", "minProperties": 2, "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    {"type": "array", "items": [{"type": "string"}, {"type": "object"}],
     "$schema": "http://json-schema.org/draft-07/schema#"},
    {"type": "object", "properties": {"a": {"$ref": "#b"}}, "$defs": {"b": {"$anchor": "b", "type": "object"}}},
    {"$id": "http://x/y", "$ref": "#/$defs/c/properties/d",
     "$defs": {"c": {"$id": "z", "properties": {"d": {"$ref": "#/properties/e"}, "e": {"type": "array"}}}}},
    {"properties": {"a": {"$id": "a", "allOf": [{"properties": {"b": {"$id": "b", "type": "object"}}}, {}]}}},
    {"properties": {"a": {"$id": "http://x/", "type": "object", "properties": {"b": {"$ref": "#/properties/c"},
     "c": {"type": "array"}}}, "c": {"type": "object"}}},
    {"properties": {"a": {"$id": "a", "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1,
     "exclusiveMinimum": True, "type": "integer"}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"a": {"$ref": "#b"}},
     "definitions": {"b": {"id": "#b", "type": "object", "properties": {"c": {"$ref": "#d"}, "e": {"type": "array"}}},
                     "d": {"id": "#d", "type": "array", "items": {"$ref": "#/definitions/b"}}}},
    {"enum": [{"a": [1]}, [], "x"]},
    {"anyOf": [{"type": "string", "enum": ["a", {"b": 1}]}, {"type": "object", "properties": {"c": {}}}]},
    {"type": "object", "patternProperties": {"^ab$": {"type": "null"}}, "properties": {"ab": {"const": None}}},
    {"items": {"format": "of our own"}},
    {"type": "object", "properties": {"a\0b": {"not": {"type": "string"}}, "": {"not": {"type": "null"}}}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "allOf": [{"properties": {"a": {"minimum": 3}}}]},
    {"type": "object", "oneOf": [{"required": ["a", "b"]}, {"required": ["a", "c"]}], "properties": {"a": {}}},
    {"type": "object", "required": ["a"], "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"items": {"patternProperties": {"^a": {}}, "allOf": [{"required": ["ab"]}], "type": "object"}},
    {"allOf": [{"type": "object", "required": ["t"]}, {"oneOf": [{"properties": {"t": {"const": n}}} for n in "ab"]}]},
    {"$ref": "#/$defs/a", "enum": ["a", 3], "$defs": {"a": {"type": "string"}}},
    {"$ref": "#/things/1", "things": [{}, {"type": "object", "properties": {"%": {"pattern": "^a$"}}}]},
    {"type": "object", "properties": {"enum": {"type": "object"}, "x": {"enum": [{"type": "object"}, {}]}}},
    {"type": "object", "properties": {"a": {"type": "object", "enum": ["x"]}, "b": {"type": "null"}}},
    {"type": "object", "properties": {"a": {"type": "array", "enum": [1]}, "b": {"not": {"type": "null"}}}},
    {"type": "object", "patternProperties": {"^a": {"const": 1}}, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
    {"anyOf": [{"type": "object", "patternProperties": {"^a": {"const": 1}}, "additionalProperties": False,
                "allOf": [{"type": "object", "required": ["ab"]}]}, {"type": "object", "required": ["t"]}]},
    {"oneOf": [{"type": "object", "allOf": [{"patternProperties": {"^a": {"const": 1}}, "type": "object",
                                             "additionalProperties": {"const": 2}}, {"required": ["ab"]}]},
               {"type": "object", "required": ["ab"], "properties": {"ab": {"const": 1}}}]},
]  # fmt: skip
#: A part of these has no value.
IMPOSSIBLE: list[Any] = [
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "object", "properties": {"a": {"not": {}}, "b": {}}},
    {"type": "object", "properties": {"a": {"not": {}}, "b": {}}, "required": ["a"]},
    {"type": "array", "items": {"allOf": [{"type": "string"}, {"type": "null"}]}},
    {"type": "object", "required": ["next"],
     "properties": {"next": {"allOf": [{"$ref": "#"}, {"minProperties": 1}]}}},
    {"type": "object", "anyOf": [{"type": "array"}, {"type": "string"}]},
    {"type": "object", "properties": {"a": {"type": "object", "enum": ["x"]}}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": {"type": "object", "enum": ["x"]}}},
    {"type": "array", "items": {"type": "object", "enum": ["x"]}, "maxItems": 1},
    {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/t"}], "$defs": {"t": {"type": "object", "required": ["t"],
     "properties": {"t": {"allOf": [{"$ref": "#/$defs/t"}, {"required": ["u"]}]}}}}},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "array"}, {"minItems": 2, "maxItems": 1}]}, "b": {}}},
    {"type": "object", "properties": {"a": {"type": "string", "oneOf": [{"const": "x"}, {"const": "x"}]}, "b": {}}},
    {"type": "array", "items": {"$ref": "#/$defs/a%25"}, "$defs": {"a%": {"type": "null", "enum": [1]}}},
]  # fmt: skip
INVALID: list[Any] = [
    {"type": "object", "properties": {"a": 3}},
    {"type": "object", "required": "a"},
    {"type": "thing"},
    {"type": "array", "items": None},
    {"$ref": "#/nowhere"},
    {"$ref": "#"},
    {"oneOf": [{"type": "null"}, {"$ref": "#"}]},
    {"properties": {"a": {"oneOf": [{}, {"anyOf": [{"type": "array"}, {"$ref": "#/properties/a"}]}]}}},
    {"an": "example"},
    {"type": "string", "pattern": "("},
    {"type": "object", "properties": {"a": {"anyOf": []}}},
    {"minItems": -1},
    {"type": "array", "items": {}, "maxItems": DEFAULT_LIMITS.repeat + 2},
    {"$schema": "http://example.com/unknown", "type": "object"},
    {"type": "object", "patternProperties": {"(": {"type": "null"}}},
    {"type": "object", "patternProperties": {"(": {}}},
    {"type": "object", "patternProperties": {"^b(": {"const": 1}}, "anyOf": [{"type": "object"}, {"type": "array"}]},
    {"type": "object", "not": {"required": ["a"], "pattern": "("}},
    {"type": "object", "not": {"required": ["a"], "minLength": -1}},
    {"minimum": "x", "not": {"required": ["a", "b"]}},
    {"type": "object", "oneOf": [{"required": ["a", "b"], "pattern": "("}, {"required": ["b", "c"]}]},
    {"properties": {"a": {"type": "array", "enum": ["x"], "not": 3}, "b": {}}},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"$ref": "#/properties/a", "type": "array", "enum": ["x"]}, "b": {}},
    },
    {"type": "array", "anyOf": [{"type": "object", "patternProperties": {"(": {"const": 1}}}, {"type": "array"}]},
    {"anyOf": [{"type": "object"}, {"type": "object", "patternProperties": {"(": {"const": 1}}}]},
    {"anyOf": [{"type": ["object", "null"]}, {"type": "object", "patternProperties": {"(": {"const": 1}}}]},
    {"allOf": [{"type": "array"}, {"type": ["object", "array"], "patternProperties": {"(": {"const": 1}}}]},
    {"type": "object", "anyOf": [{"required": ["a"], "multipleOf": 0}, {"required": ["b"]}]},
    {"type": "object", "allOf": [{"required": ["a"], "pattern": "("}, {"required": ["b"]}]},
    {"type": ["object", "array"], "oneOf": [{"required": ["a"], "maxLength": 1.5}]},
]

REFUSED: list[Any] = [
    {"uniqueItems": True, "items": {"enum": [[number] for number in range(65)]}},
    {"format": "regex", "enum": ["a+", "(?<=a)b"]},
    {"not": {"type": "string", "format": "idn-hostname"}},
    {"allOf": [{"format": "hostname"}, {"const": "xn--a"}]},
    {"uniqueItems": True, "items": {"type": "object"}},
    {"uniqueItems": True, "items": {"multipleOf": 65537}},
    {"uniqueItems": True, "prefixItems": [{"type": "string"}, {}]},
    {"not": {"uniqueItems": True}},
    {"$ref": "http://example.com/elsewhere"},
    {"contains": {"const": 1}, "unevaluatedItems": False},
    {"unevaluatedProperties": False, "anyOf": [{"properties": {name: {}}} for name in "abcdefg"]},
    {"$ref": "#/items/0", "items": 3},
    {"properties": {"a": {"$ref": "#nowhere"}}},
    {"properties": {"a": {"type": "string", "minLength": None}}},
    {"allOf": [{"oneOf": [{"properties": {f"{n}": {"minimum": k} for n in range(40)}} for k in range(40)]}] * 3},
    False,
]


BYTES = Vocabulary.of_bytes()
#: Documents that tell these schemas apart.
DOCUMENTS: list[Any] = [
    None, True, False, 0, 1, 2, 3, 5, 7, -1, 0.5, 1.5, 4.25, "", "a", "b", "ab", "abc", "x", "\u65e5\u672c",
    [], [[]], [1], [1, 2], [1, 1], ["a"], ["a", {}], [None, "x"], [True, "a", 3], [{}], [{"a": 1}], [[True], [False]],
    *({name: value} for name in ("a", "b", "c", "t", "ab", "x1", "", "d", "aa", "o") for value in (None, 1, "b", {})),
    *({"a": one, "b": other} for one in (1, [], {}, "x", None) for other in (1, [], "b", {"c": []})),
    *({"t": kind, "a": 1, "b": "b"} for kind in ("a", "b", 1, 2)), *({"t": kind} for kind in ("a", "b", 1, 2)),
    {"a": 1, "c": 1}, {"a": [1], "n": 7}, {"n": 8}, {"a": {"a": {}}, "aa": 1}, {"x1": {"a": {"x1": {}}}}, {"ab": "x"},
    {"a": [], "b": [], "c": []}, {"a": "a", "b": "b", "c": "c", "d": {}}, {"r": 1, "o": {"r": 1, "p": 2}, "t": "b"},
    {"id": "x"}, {"enum": {}, "x": {}}, {"%": "a"}, {"e": [], "f": {}}, {"u": 1, "v": [], "w": "b"}, {"x": {}, "y": 3},
]  # fmt: skip


def compiled_or_error(schema: Any, **options: Any) -> Any:
    try:
        return Compiler(BYTES, engine="native", cache_bytes=0).compile(formats.json_schema(schema, **options))
    except FormatterError as error:
        return error


def program_of(schema: Any, **options: Any) -> Any:
    """The program that a schema becomes, or what is wrong with it."""
    found = compiled_or_error(schema, **options)
    return found if isinstance(found, FormatterError) else found.program


def faults_of(schema: Any, seed: int = 7) -> list[Any]:
    """Documents that the format and the validator judge otherwise, and what the format writes that is wrong."""
    compiled = compiled_or_error(schema, spelling="any", key_order="any")
    validator = validator_for(schema, default=Draft202012Validator)(schema)
    has_formats = '"format"' in json.dumps(schema)  # which the validator only notes
    try:
        valid = list(map(validator.is_valid, DOCUMENTS))
    except Exception:  # noqa: BLE001 (it knows fewer references than the drafts, and has several classes for that)
        return []
    if isinstance(compiled, FormatterError):
        is_wrong = isinstance(compiled, UnsatisfiableSchema) and not has_formats
        return [document for document, is_valid in zip(DOCUMENTS, valid, strict=True) if is_valid and is_wrong]
    wrong: list[Any] = []
    for document, is_valid in zip(DOCUMENTS, valid, strict=True):
        is_taken = compiled.parse(json.dumps(document)).is_complete
        wrong += [document] if is_taken != is_valid and (is_taken or not has_formats) else []
    canonical = compiled_or_error(schema)
    if not isinstance(canonical, FormatterError):
        text = write(canonical, random.Random(seed), max(400, 2 * canonical.min_tokens))
        wrong += [] if validator.is_valid(json.loads(text)) else [text]
    return wrong


@pytest.mark.parametrize("schema", [*PLAIN, *ALGEBRA], ids=json.dumps)
def test_a_format_has_the_documents_of_its_schema(schema: Any) -> None:
    assert faults_of(schema) == []


@pytest.mark.parametrize(
    "whitespace", [Whitespace(spaces=2**40), Whitespace(indent=2**70), Whitespace(None, ":", 5, False)]
)
def test_blanks_of_a_users_own_are_limited_where_they_stand(whitespace: Whitespace, vocabulary: Vocabulary) -> None:
    compiler = Compiler(vocabulary, engine="native", limits=Limits(repeat=4))
    compiler.compile(formats.json_schema({"enum": [1, "a"]}, whitespace=whitespace))
    for schema in ({"enum": [[]]}, {"items": {}}, {"type": "object", "required": ["a", "b"]}):
        with pytest.raises(LimitExceeded, match="repeat"):
            compiler.compile(formats.json_schema(schema, whitespace=whitespace))


@pytest.mark.parametrize("schema", PLAIN, ids=json.dumps)
def test_a_schema_is_read_in_any_layout(schema: Any) -> None:
    given = [schema, json.dumps(schema, ensure_ascii=False), json.dumps(schema, indent=3)]
    assert len({program_of(each) for each in given}) == 1


@pytest.mark.parametrize("rest", [True, False, {"type": "null"}])
def test_names_that_several_patterns_match(rest: Any) -> None:
    """A value may satisfy what both patterns want of it."""
    patterns = {"^x": {"type": "string"}, "y$": {"pattern": "b"}}
    schema = {"type": "object", "patternProperties": patterns, "additionalProperties": rest}
    formatter = Compiler(Vocabulary.of_bytes(), engine="native").compile(schema).formatter()
    formatter.accept_bytes(b'{"xy":"ab"}')
    assert formatter.can_stop
    assert faults_of(schema) == []


PATTERNS = ["^a", "^ab", "^b_([a-z]{2,3}(-[a-z0-9]+)?)$", "^x-", "^é", "c$", "^(d|e)", ".", "^a*$", "^$", r"^\S+$",
            "^[0-9]{1,3}$", "^(a?b?){2,}$", "^((a|b*)*c){0,2}$", r"^\u{64}", "^x", "^(?!a)"]  # fmt: skip


@pytest.mark.parametrize("first", sampled(range(0, 400, 100), 1))
def test_names_that_patterns_tell_apart(first: int) -> None:
    """Names of properties and names that are only required may match one pattern or several."""
    seen = 0
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        values: list[Any] = [{"type": "string"}, {"const": 1}, {}, {"type": "array", "items": {"$ref": "#"}}, True]
        values += [{"type": "string", "title": "x"}, {"type": ["string", "array"]}, {"minLength": 2}]
        chosen = rng.sample(PATTERNS, rng.randint(1, 4)) if rng.random() < 0.8 else [".*"]
        patterns = {pattern: rng.choice(values) for pattern in chosen}
        names = ["a", "ab", "b_de-1", "x-", "é", "cc", "", "12", "abab", "bbcac", "q"]
        schema: dict[str, Any] = {"type": "object", "patternProperties": patterns}
        if rng.random() < 0.7:
            schema["properties"] = {name: rng.choice(values) for name in rng.sample(names, rng.randint(1, 3))}
        if rng.random() < 0.4:
            schema["required"] = rng.sample(names, rng.randint(1, 2))
        if rng.random() < 0.6:
            schema["additionalProperties"] = rng.choice([False, *values])
        if rng.random() < 0.3:
            schema["minProperties"] = rng.randint(0, 2)
        assert faults_of(schema, seed) == [], schema
        seen += not isinstance(compiled_or_error(schema), FormatterError)
    assert seen > 10


@pytest.mark.parametrize("annotation", sorted(keywords().annotations - {"$schema"}))
def test_schemas_that_differ_in_annotations_are_the_same(annotation: str) -> None:
    schemas = [{"type": "string", annotation: "x"}, {"type": "string"}]
    both = [{"properties": {"a": each}, "patternProperties": {".*": {"type": "string"}}} for each in schemas]
    assert len(set(map(program_of, both))) == 1


@pytest.mark.parametrize("schema", IMPOSSIBLE, ids=json.dumps)
def test_what_has_no_value_is_left_out(schema: Any) -> None:
    assert faults_of(schema) == []


def test_a_long_chain_of_references_is_followed() -> None:
    """Its first link was taken for a schema without a value, because of what stands beside the reference."""
    chain: dict[str, Any] = {f"{n}": {"$ref": f"#/definitions/{n + 1}"} for n in range(60)} | {"60": {"const": 1}}
    first = {"$ref": "#/definitions/0", "type": "array", "enum": ["x"]}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
              "properties": {"a": first, "b": {}}, "definitions": chain}  # fmt: skip
    formatter = Compiler(Vocabulary.of_bytes(), engine="native").compile(schema).formatter()
    formatter.accept_bytes(b'{"a":1}')
    assert formatter.can_stop


@pytest.mark.parametrize("schema", INVALID, ids=json.dumps)
def test_what_is_invalid_is_refused(schema: Any) -> None:
    assert isinstance(compiled_or_error(schema), (InvalidSchema, UnsupportedSchema, LimitExceeded))


@pytest.mark.parametrize("schema", REFUSED, ids=json.dumps)
def test_what_cannot_be_enforced_is_refused(schema: Any) -> None:
    assert isinstance(compiled_or_error(schema), FormatterError)


@pytest.mark.parametrize("first", range(3))
def test_random_mixtures_of_these_schemas(first: int) -> None:
    choice = random.Random(first)
    seen = 0
    for seed in range(80):
        schema = _random_schema(choice, 3)
        assert faults_of(schema, seed) == [], schema
        seen += not isinstance(compiled_or_error(schema), FormatterError)
    assert seen >= 40


def _random_schema(choice: random.Random, depth: int) -> Any:
    """Any of the schemas above, or one that is made of some."""
    if depth == 0 or choice.random() < 0.3:
        schema = choice.choice([*PLAIN, *ALGEBRA, *IMPOSSIBLE])
        return {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    parts = [_random_schema(choice, depth - 1) for _ in range(choice.randint(1, 3))]
    kinds = ["properties", "anyOf", "oneOf", "allOf", "items", "additionalProperties", "patternProperties", "both"]
    kind = choice.choice(kinds)
    if kind == "both":
        names = [name for name in "abc" if choice.random() < 0.5]
        branches = [{"required": [name], "properties": {name: parts[0]}} for name in names] or parts
        own = {"type": "object", "properties": {choice.choice("abcd"): parts[-1]}}
        return own | {choice.choice(["anyOf", "oneOf", "allOf"]): branches}
    if kind == "patternProperties":
        return {kind: {choice.choice([".*", "^a", "b$"]): parts[0]}, "type": "object"}
    if kind == "properties":
        named = dict(zip("abc", parts, strict=False))
        return {"type": "object", kind: named, "required": choice.sample("abc", choice.randint(0, 2))}
    return {kind: parts if kind.endswith("Of") else parts[0]}


VALUES: list[Any] = [
    {"type": "string"}, {"type": "string", "enum": ["a", "b"]}, {"enum": ["b", "c", 1]}, {"const": "b"}, {}, True,
    {"type": ["string", "null"]}, {"type": "integer", "minimum": 2}, {"type": "number", "maximum": 5}, {"$ref": "#"},
    {"type": "string", "minLength": 2}, {"type": "string", "pattern": "^a"}, {"description": "x"}, {"type": "array"},
    {"type": "string", "description": "y"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "object"},
]  # fmt: skip


TYPES = ["string", "object", "null", "array", "boolean", "number", "integer"]


@pytest.mark.parametrize("count", [63, 64, 200])
def test_many_patterns_are_past_a_limit(count: int) -> None:
    patterns = {f"^{number}_{'(a|b)' * 9}$": {"type": "integer", "minimum": number} for number in range(count)}
    found = compiled_or_error({"type": "object", "properties": {"a": {}}, "patternProperties": patterns})
    assert isinstance(found, LimitExceeded) == (count > 63)


def test_a_pattern_matches_what_another_schema_requires() -> None:
    """The library took the name for one that no pattern matches, and left out the objects that have it."""
    described = {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False}
    schema = {"anyOf": [described | {"allOf": [{"type": "object", "required": ["ab"]}]}, {"type": "null"}]}
    formatter = Compiler(Vocabulary.of_bytes(), engine="native").compile(schema).formatter()
    formatter.accept_bytes(b'{"ab":"x"}')
    assert formatter.can_stop


@pytest.mark.parametrize("first", sampled(range(0, 400, 100), 1))
def test_properties_that_several_schemas_describe(first: int) -> None:
    """In `allOf`, and in `oneOf` of few branches and of many, alone in its part and beside others."""
    seen = 0
    for seed in range(first, first + 100):
        schema = _described_twice(random.Random(seed))
        assert faults_of(schema, seed) == [], seed
        seen += not isinstance(compiled_or_error(schema), FormatterError)
    assert seen > 40


def _described_twice(rng: random.Random) -> Any:
    def value(depth: int) -> Any:
        kind = rng.randrange(15) if depth else 9
        if kind < 2:
            return {"type": "object", "properties": {name: value(depth - 1) for name in rng.sample("abc", 2)}}
        if kind == 2:
            return {"type": "array", "items": value(depth - 1)}
        if kind < 5:
            return {rng.choice(["allOf", "anyOf"]): [value(depth - 1), value(depth - 1)]}
        return rng.choice(VALUES)

    def part() -> Any:
        names = rng.sample(["t", "u", "v"], rng.randint(1, 2))
        made: dict[str, Any] = {"properties": {name: value(2) for name in names}}
        made |= {"type": "object"} if rng.random() < 0.5 else {}
        made |= {"required": rng.sample(["t", "u", "w"], rng.randint(1, 2))} if rng.random() < 0.4 else {}
        made |= {"patternProperties": {rng.choice(["^t", "^w$", "u", ".*"]): value(1)}} if rng.random() < 0.2 else {}
        made |= {"minProperties": 1} if rng.random() < 0.1 else {}
        return made | ({"additionalProperties": rng.choice([False, value(1)])} if rng.random() < 0.1 else {})

    parts = [part() if rng.random() < 0.8 else {"$ref": "#/$defs/b"} for _ in range(rng.randint(1, 3))]
    branches = [part() for _ in range(rng.choice([2, 3, 9, 10]))]
    if rng.random() < 0.6:
        for number, branch in enumerate(branches):
            told = {"const": number} if rng.random() < 0.7 else {"type": TYPES[number % len(TYPES)]}
            branch["properties"] = {"t": told} | (branch["properties"] if rng.random() < 0.3 else {})
            branch["required"] = ["t"]
    one = {"oneOf": branches} if rng.random() < 0.5 else {}
    schema = {"type": "object", "allOf": [*parts, *([one] if one and rng.random() < 0.6 else [])]}
    rng.shuffle(schema["allOf"])  # type: ignore[arg-type]
    schema |= one if one not in schema["allOf"] else {}
    schema = schema if rng.random() < 0.5 else {"properties": {"x": schema, "y": value(1)}}
    return schema | {"$defs": {"a": value(1), "b": part()}}


def test_any_text_is_read_or_left() -> None:
    choice = random.Random(5)
    texts = [json.dumps(schema, ensure_ascii=ascii) for schema in [*PLAIN, *ALGEBRA] for ascii in (True, False)]
    for _ in range(3000):
        text = list(choice.choice(texts))
        for _ in range(choice.randint(1, 3)):
            place = choice.randrange(len(text))
            text[place : place + choice.randint(0, 2)] = choice.choice('{}[]",:\\ue1-0 \U0001f600n')
        read = _read("".join(text))
        assert not isinstance(read, Program) or read.nodes > 0


def _read(text: str, *, alone: bool = True) -> Any:
    json = native_json(text)
    common = common_terminals(LibraryOptions("flexible", "canonical", False, True, "", (), DEFAULT_LIMITS))
    assert common is not None
    return None if json is None else begun(json, common, DEFAULT_LIMITS, alone=alone)


def test_a_program_that_is_written_again_replaces_the_first() -> None:
    text = '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"not": {"type": "string"}}}}'
    native = _read(text, alone=False)
    assert isinstance(native, NativeSchema)
    assert native.write(0, b"") == native.write(0, b"")


def test_texts_that_python_reads_otherwise_are_left() -> None:
    for text in (
        '{"type": "object", "type": "array"}',
        '{"a": "\\q"}',
        "[1]",
        "{} x",
        "[" * 999,
    ):
        assert _read(text) is None


SPELLINGS = [
    ('{"type": "object"}', '{ "type"\n:\t"object"\r}'),
    ('{"a": "\\u00e9\\/\\n\\"\\\\"}', '{"\\u0061": "é/\\u000A\\u0022\\u005c"}'),
    ('{"a": "\\ud83d\\ude00"}', '{"a": "😀"}'),
    ('{"a": -0, "b": 0.00}', '{"a": 0, "b": 0e5}'),
    ('{"a": 1e2}', '{"a": 1E+2}'),
    ('{"a": 0.0000001}', '{"a": 1E-7}'),
    ('{"a": 1, "b": 2, "a": 3}', '{"a": 3, "b": 2}'),
    ('{"a": [1, {"b": null}], "c": [true, false, -12345678901234567890]}',) * 2,
    ('{"a": "\\ud800"}', '{"a":"\\uD800"}'),
    ('{"a": ' + "9" * 60 + "}", '{"a":' + "9" * 60 + "}"),
    ('{"a": 1.50}', '{"a":1.50}'),
]
DIFFERENT = [
    '{"a": 1}',
    '{"a": 1.0}',
    '{"a": 1.00}',
    '{"a": "1"}',
    '{"a": true}',
    '{"a": [1]}',
    '{"a": 1, "b": 1}',
    "{}",
]


@pytest.mark.parametrize("texts", SPELLINGS, ids=str)
def test_spellings_of_one_schema_make_one_format(texts: tuple[str, str]) -> None:
    schema = read_json(texts[0])
    made = [formats.json_schema(each) for each in (*texts, schema)]
    assert len(set(made)) == 1
    assert all(each.schema == schema and list(each.schema) == list(schema) for each in made)


def test_data_that_is_there_twice_is_read_twice() -> None:
    part: Any = {"type": ["string", "integer"], "enum": ["é\n", 2**40, True]}
    for _ in range(6):
        part = {"properties": {"a": part, "b": {"items": part}}, "required": ["a", "b"]}
    data, text = native_json(part), native_json(json.dumps(part))
    assert data is not None
    assert text is not None
    assert data.content == text.content


def test_data_that_is_there_twice_is_no_deeper_than_a_text() -> None:
    part: dict[str, Any] = {}
    for _ in range(520):
        part = {"items": part}
    whole = {"not": part, "items": part}
    for _ in range(520):
        whole = {"items": whole}
    assert native_json(whole) is None
    assert native_json({"not": part, "items": part}) is not None


def test_without_the_library_schemas_are_read_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> Any:
        raise EngineUnavailable("native", ["build it"])

    told: list[Any] = []
    monkeypatch.setattr(native_schema, "load", unavailable)
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    for schema in ('{"type": "array"}', {"type": "array"}):
        assert formats.json_schema(schema).schema == {"type": "array"}
    assert not told


def test_formats_of_different_schemas_differ() -> None:
    texts = [*DIFFERENT, '{"b": 1, "a": 1}']
    made = [formats.json_schema(each) for text in texts for each in (text, read_json(text))]
    assert len(set(made)) == len(texts)


def test_a_format_whose_schema_nobody_has_read_is_copied() -> None:
    made = formats.json_schema('{"type": "array", "items": {"minimum": 0.5}}')
    again = copy.deepcopy(made), pickle.loads(pickle.dumps(made)), replace(made)
    assert set(again) == {made}
    assert formats.json_schema(made.schema) == made


def test_a_compiled_plain_schema_is_like_any_other(vocabulary: Vocabulary) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    compiler = Compiler(vocabulary, engine="native")
    compiled = compiler.compile(schema)
    assert compiled.parse('{"a": 12}').value == {"a": 12}
    assert compiled.fingerprint == compiler.compile(formats.json_schema(json.dumps(schema, indent=1))).fingerprint
    again = compiler.from_bytes(compiled.to_bytes())
    formatter = again.formatter()
    formatter.accept_bytes(b'{"a": 1')
    assert formatter.forced_bytes() == b""
    assert "#/properties/a" in formatter.explain(ord("x"))
    assert again.lowered.grammar == compiled.lowered.grammar


def test_a_schema_of_the_algebra_comes_back_from_bytes(vocabulary: Vocabulary) -> None:
    compiler = Compiler(vocabulary, engine="native")
    compiled = compiler.compile({"allOf": [{"properties": {"a": {"type": "array"}}}, {"required": ["a"]}]})
    again = compiler.from_bytes(compiled.to_bytes())
    assert again.program == compiled.program
    assert again.parse('{"a": []}').value == {"a": []}


def test_unions_of_the_same_unions_take_no_time() -> None:
    levels = {str(level): {"anyOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(45)}
    last = {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "array"}]}
    assert isinstance(program_of({"$ref": "#/$defs/0", "$defs": {**levels, "45": last}}), Program)


def test_comparing_long_objects_is_work() -> None:
    """Unions of unions of objects that differ in the last of 300 names took a minute."""
    levels = {str(level): {"anyOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(8)}
    names = [f"n{number}" for number in range(300)]
    last = {"anyOf": [{"type": "object", "required": [*names, f"x{number}"]} for number in range(90)]}
    schema = {"type": "object", "allOf": [{"$ref": "#/$defs/0"}], "$defs": {**levels, "8": last}}
    found = compiled_or_error(schema)
    assert isinstance(found, LimitExceeded) or found.parse(json.dumps(dict.fromkeys([*names, "x3"]))).is_complete


def test_a_long_chain_of_exclusive_branches_is_an_error() -> None:
    branches = {str(level): {"oneOf": [{"type": "null"}, {"$ref": f"#/$defs/{level + 1}"}]} for level in range(20_000)}
    schema = {"$ref": "#/$defs/0", "$defs": {**branches, "20000": {"type": "object"}}}
    assert isinstance(compiled_or_error(schema), LimitExceeded)


@pytest.mark.parametrize("limits", [Limits(repeat=3), Limits(depth=2), Limits(nodes=30)], ids=repr)
def test_narrow_limits_are_kept(limits: Limits, vocabulary: Vocabulary) -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "maxItems": 5}}}
    with pytest.raises(LimitExceeded):
        Compiler(vocabulary, engine="native", limits=limits).compile({"type": "array", "items": item})
