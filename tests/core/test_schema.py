"""JSON Schema: what each keyword accepts and rejects. Each row: a schema, texts in the format, texts outside."""

from __future__ import annotations

import json

import pytest

from formatter_core.errors import (
    FormatterError,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.limits import Limits

from .schema_judge import Judge, lowered

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

A, B = {"type": "integer"}, {"type": "string"}
AB = {"type": "object", "properties": {"a": A, "b": B}, "required": ["a"], "additionalProperties": False}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}, "v": A}, "additionalProperties": False}
MUTUAL = {
    "$defs": {
        "list": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "node": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]},
    },
    "$ref": "#/$defs/list",
}

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

TABLE = [
    # any value, no value in places
    (
        {},
        ["null", '"x"', '[1, {"a": [true, false]}]', '{"a": 1, "a": 2}', "-1.5e-3", "[]", "{}", "[ ]"],
        ["", "nul", "01", "[1,]", '{"a"}', "1.", " 1"],
    ),
    (True, ["1", "{}"], ["tru"]),
    ({"items": False}, ["[]", "1"], ["[1]"]),
    ({"title": "T", "description": "d", "default": 3, "x-y": 1, "readOnly": True}, ["null", "3"], ["x"]),
    # type
    ({"type": "null"}, ["null"], ["0", '""']),
    ({"type": "boolean"}, ["true", "false"], ["null", "True"]),
    ({"type": "integer"}, ["0", "-12", "1.0", "1.000", "-0"], ["1.5", "1e3", "01", "+1", "1.", '"1"']),
    ({"type": "number"}, ["0", "1.50", "-1e3", "1E+3", "2e-7"], ["1.", ".5", "1e", "-", "NaN"]),
    ({"type": ["integer", "null"]}, ["1", "null"], ["1.5", "true"]),
    ({"type": ["integer", "number"]}, ["1.5"], ["true"]),
    # in draft 4, 2.0 is not an integer
    ({"$schema": DRAFT_4, "type": "integer", "minimum": 2}, ["2", "13"], ["2.0", "1", "1e1"]),
    ({"$schema": DRAFT_4, "not": {"type": "integer"}}, ["2.0", "1.5", "-0.0", "[]"], ["2", "0", "-0", "13"]),
    ({"$schema": DRAFT_4, "not": {"not": {"type": "integer"}}}, ["2"], ["2.0", "1.5"]),
    (
        {"$schema": DRAFT_4, "type": "number", "not": {"type": "integer", "multipleOf": 3}, "minimum": 1, "maximum": 6},
        ["1", "1.5", "3.0", "6.00", "5"],
        ["3", "6"],
    ),
    (
        {"$schema": DRAFT_4, "enum": [2, 3, 2.5], "oneOf": [{"type": "integer"}, {"minimum": 3}]},
        ["2", "3.0"],
        ["2.0", "3", "2.5"],
    ),
    # keywords of other types have no effect
    ({"type": "string", "properties": {"a": A}, "minimum": 3, "items": False}, ['"a"'], ["1", "{}"]),
    ({"minLength": 2}, ['"ab"', "1", "[]", "null"], ['"a"', '""']),
    ({"properties": {"a": A}}, ['{"a": 1}', '{"b": "x"}', "[]", '"a"'], ['{"a": "x"}']),
    # objects
    (
        AB,
        ['{"a": 1}', '{"a": 1, "b": "x"}'],
        ["{}", '{"b": "x"}', '{"a": 1, "c": 1}', '{"b": "x", "a": 1}', '{"a": 1,}'],
    ),
    (
        {"type": "object", "required": ["z"], "properties": {"a": A}},
        ['{"a": 1, "z": null}', '{"z": [1]}', '{"z": 1, "q": 2}'],
        ['{"a": 1}', '{"z": 1, "z": 2}', '{"a": 1, "a": 2, "z": 0}'],
    ),
    ({"type": "object", "additionalProperties": A}, ["{}", '{"x": 1, "y": 2}', '{"x": 1, "x": 2}'], ['{"x": "1"}']),
    (
        {"properties": {"a": A}, "additionalProperties": B, "type": "object"},
        ['{"a": 1, "b": "x"}', '{"ab": "x"}', '{"": "x"}'],
        ['{"a": "x"}', '{"ab": 1}', '{"b": "x", "a": 1}', '{"\\u0061": "x"}'],
    ),
    (
        {"type": "object", "properties": {"a": False, "b": {}}, "additionalProperties": False},
        ["{}", '{"b": 1}'],
        ['{"a": 1}'],
    ),
    (
        {"type": "object", "properties": {"é": A, "a/b": A, 'q"': A}, "additionalProperties": False},
        ['{"é": 1, "a/b": 2, "q\\"": 3}', '{"\\u00E9": 1, "a\\/b": 2}', '{"\\u0071\\u0022": 3}'],
        ['{"q"": 3}', '{"e": 1}'],
    ),
    (
        {"type": "object", "patternProperties": {"^x": A}, "additionalProperties": False},
        ["{}", '{"x1": 1, "x": 2}'],
        ['{"x": "s"}', '{"y": 1}'],
    ),
    (
        {"type": "object", "patternProperties": {"a": A, "b": {"minimum": 5}}},
        ['{"a": 1, "b": 6, "ab": 7, "c": "x"}', '{"b": "x"}'],
        ['{"ab": 1}', '{"ab": "x"}', '{"b": 1}'],
    ),
    (
        {"type": "object", "properties": {"x": {"type": "number"}}, "patternProperties": {"^x$": {"minimum": 2}}},
        ['{"x": 3}'],
        ['{"x": 1}'],
    ),
    ({"type": "object", "propertyNames": {"maxLength": 2}}, ['{"ab": 1}', "{}"], ['{"abc": 1}']),
    (
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "properties": {"c": A}},
        ['{"a": 1}'],
        ['{"c": 1}', '{"d": 1}'],
    ),
    ({"type": "object", "minProperties": 1}, ['{"a": 1}', '{"a": 1, "b": 2}'], ["{}"]),
    (
        {"type": "object", "maxProperties": 1, "properties": {"a": A}},
        ["{}", '{"a": 1}', '{"b": 1}'],
        ['{"a": 1, "b": 1}'],
    ),
    (
        {
            "type": "object",
            "properties": {"a": A, "b": A, "c": A},
            "minProperties": 2,
            "maxProperties": 2,
            "additionalProperties": False,
        },
        ['{"a": 1, "b": 1}', '{"b": 1, "c": 1}'],
        ['{"a": 1}', '{"a": 1, "b": 1, "c": 1}'],
    ),
    (
        {"type": "object", "properties": {"a": A, "b": B}, "dependentRequired": {"a": ["b"]}},
        ["{}", '{"b": "x"}', '{"a": 1, "b": "x"}'],
        ['{"a": 1}'],
    ),
    (
        {"type": "object", "dependentSchemas": {"a": {"properties": {"b": A}}}},
        ['{"b": "x"}', '{"b": 1, "a": 0}'],
        ['{"b": "x", "a": 0}'],
    ),
    # arrays
    (
        {"type": "array", "items": A},
        ["[]", "[1]", "[1, 2,3 ,4]", "[\n  1\n]"],
        ["[1,]", "[,1]", '["x"]', "[1 2]", "[ 1  ]"],
    ),
    ({"type": "array", "items": A, "minItems": 1, "maxItems": 3}, ["[1]", "[1,2,3]"], ["[]", "[1,2,3,4]"]),
    ({"type": "array", "minItems": 2}, ["[1, 2]", "[1,2,3,4]"], ["[]", "[1]"]),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    ({"type": "array", "prefixItems": [A, B], "items": False}, ["[]", "[1]", '[1, "x"]'], ['["x"]', '[1, "x", 1]']),
    (
        {"type": "array", "prefixItems": [A, B], "minItems": 1, "items": {"type": "null"}},
        ["[1]", '[1, "x", null, null]'],
        ["[]", "[1, null]", '[1, "x", 1]'],
    ),
    (
        {"type": "array", "prefixItems": [A], "minItems": 3, "maxItems": 4},
        ["[1, 2, 3]", "[1,2,3,4]"],
        ["[1,2]", "[1,2,3,4,5]"],
    ),
    ({"type": "array", "contains": A}, ["[1]", '["x", 1, null]'], ["[]", '["x"]', "[1.5]"]),
    ({"type": "array", "not": {"contains": B}}, ["[]", "[1]", "[1, 2]", "[1, [], 3]"], ['["x"]', '[1, "x"]']),
    (
        {"type": "array", "contains": {"const": 0}, "minContains": 0, "maxContains": 1},
        ["[]", "[0]", "[1]", "[1, 0]", "[0, 1, 2]"],
        ["[0, 0]", "[0, 1, 0]"],
    ),
    (
        {"type": "array", "oneOf": [{"contains": B}, {"maxItems": 1}]},
        ["[]", "[1]", '[1, "x"]', '["x", 1, "x"]'],
        ['["x"]', "[1, 2]"],
    ),
    (
        {"type": "array", "if": {"contains": B}, "else": {"items": A}},
        ["[]", "[1, 2]", '[null, "x"]'],
        ["[null]", "[1, null]"],
    ),
    (
        {"type": "array", "contains": A, "minContains": 2, "maxContains": 3, "maxItems": 5},
        ['[1, "x", 2]'],
        ["[1]", "[1,2,3,4]", '[1,1,"a","b","c","d"]'],
    ),
    (
        {"uniqueItems": True, "items": {"enum": [1, None]}, "anyOf": [{"maxItems": 2}, {"minItems": 1}]},
        ["[]", "[1, null]", "[null]"],
        ["[1, 1]", "[null, null]", "[1, null, 1]"],
    ),
    (
        {"type": "array", "items": {"enum": [1, 2, "a"]}, "uniqueItems": True},
        ["[]", '[1, "a", 2]', "[2]"],
        ["[1, 1]", "[1, 1.0]", '["a", "\\u0061"]'],
    ),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, ["[1]"], ["[1,2]"]),
    # enum and const
    (
        {"enum": [1, "a", None, True, [1], {"k": 2}]},
        ["1", "1.0", '"\\u0061"', "null", "true", "[1]", "[ 1.0 ]", '{"k": 2}'],
        ["2", "1e0", '"b"', "false", "[]", "[1,1]", '{"k": 2, "l": 1}', "{}"],
    ),
    ({"const": 1.5}, ["1.5", "1.500"], ["1.51", "15e-1"]),
    ({"const": 0}, ["0", "0.0", "-0"], ["false"]),
    ({"enum": ["ab", "abc", "b"], "minLength": 2}, ['"ab"', '"abc"'], ['"b"', '"a"']),
    # numbers
    ({"type": "integer", "minimum": -3, "maximum": 12}, ["-3", "0", "9", "12", "12.0"], ["-4", "13", "12.5", "1e1"]),
    ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, ["1", "2"], ["0", "3"]),
    ({"type": "number", "exclusiveMinimum": 0.5, "maximum": 2}, ["0.51", "2.00", "1"], ["0.5", "2.01", "-1"]),
    ({"minimum": 3, "exclusiveMinimum": True}, ["3.1", '"x"'], ["3"]),
    ({"type": "number", "multipleOf": 0.01}, ["0.01", "1.5", "7", "1.250"], ["0.001", "1.255"]),
    ({"type": "integer", "multipleOf": 7}, ["0", "49", "-7", "700.0"], ["1", "50"]),
    # strings
    (
        {"type": "string", "minLength": 1, "maxLength": 2},
        ['"é"', '"😀😀"', '"\\ud83d\\ude00x"', '"\\n"'],
        ['""', '"abc"'],
    ),
    ({"type": "string", "pattern": "^a+$"}, ['"a"', '"a\\u0061"'], ['""', '"ab"', '"b"']),
    ({"type": "string", "pattern": "b"}, ['"abc"', '"b"'], ['"ac"']),
    ({"type": "string", "pattern": '^[^"]{2}$', "maxLength": 2}, ['"\\\\\\\\"', '"a\\n"'], ['"a\\""', '"a"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"today"']),
    ({"type": "string", "format": "no-such-format"}, ['"x"'], ["1"]),
    # combinators
    ({"anyOf": [A, B]}, ["1", '"x"'], ["null"]),
    (
        {"anyOf": [{"properties": {"a": A}, "required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ['{"a": 1}', '{"b": 0}', '{"a": "x", "b": 0}'],
        ["{}", '{"a": "x"}'],
    ),
    (
        {"properties": {"a": A}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ['{"a": 1}', '{"b": 0}'],
        ["{}", '{"a": "x"}'],
    ),
    (
        {"allOf": [{"properties": {"a": A}}, {"properties": {"b": B}, "required": ["b"]}], "type": "object"},
        ['{"a": 1, "b": "x"}', '{"b": "x"}'],
        ['{"a": 1}', '{"b": 1}'],
    ),
    ({"allOf": [{"minimum": 2}, {"maximum": 4}], "type": "integer"}, ["2", "4"], ["1", "5"]),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 5}], "type": "integer"}, ["2", "5"], ["10", "3"]),
    (
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        ['{"a": 1}', '{"b": 1, "c": 2}'],
        ["{}", '{"a": 1, "b": 2}'],
    ),
    ({"not": {"type": "string"}}, ["1", "null", "{}"], ['"x"']),
    ({"not": {"enum": [1, "a"]}}, ["2", '"b"', "null"], ["1", "1.0", '"a"', '"\\u0061"']),
    ({"type": "object", "properties": {"a": A}, "not": {"required": ["b"]}}, ['{"a": 1}', '{"c": 1}'], ['{"b": 1}']),
    (
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"required": ["v"]},
            "else": {"required": ["w"]},
            "type": "object",
        },
        ['{"k": 1, "v": 0}', '{"k": 2, "w": 0}', '{"w": 0}'],
        ['{"k": 1, "w": 0}', '{"k": 2}'],
    ),
    (
        {"type": "object", "allOf": [{"properties": {"a": A}}], "properties": {"b": B}, "unevaluatedProperties": False},
        ['{"b": "x", "a": 1}'],
        ['{"c": 1}'],
    ),
    ({"type": "array", "prefixItems": [A], "unevaluatedItems": False}, ["[]", "[1]"], ["[1, 2]"]),
    # references
    (TREE, ["{}", '{"next": {"next": {"v": 1}}, "v": 2}'], ['{"next": 1}', '{"next": {"v": "x"}}']),
    (MUTUAL, ["[]", "[[], null, [[null]]]"], ["[1]", "null"]),
    ({"$defs": {"p": {"minimum": 2}}, "$ref": "#/$defs/p", "type": "integer"}, ["2"], ["1", "2.5"]),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"p": A},
            "$ref": "#/definitions/p",
            "maximum": 1,
        },
        ["5"],
        ["true"],
    ),
    ({"properties": {"a/b": A, "c": {"$ref": "#/properties/a~1b"}}, "type": "object"}, ['{"c": 1}'], ['{"c": "x"}']),
    (
        {
            "$id": "http://x.test/a",
            "$defs": {"n": {"$anchor": "n", "type": "null"}, "m": {"$id": "m", "type": "boolean"}},
            "anyOf": [{"$ref": "#n"}, {"$ref": "m"}],
        },
        ["null", "true"],
        ["1"],
    ),
    # older spellings
    ({"items": [A, B], "additionalItems": False, "type": "array"}, ['[1, "x"]'], ['["x"]', '[1, "x", 1]']),
    ({"dependencies": {"a": ["b"]}, "type": "object"}, ["{}", '{"a": 1, "b": 2}'], ['{"a": 1}']),
]


@pytest.mark.parametrize("row", range(len(TABLE)))
def test_table(row: int) -> None:
    schema, inside, outside = TABLE[row]
    judge, canonical = Judge(schema, spelling="any"), Judge(schema)
    for text in inside:
        assert judge.accepts(text), text
        value = json.loads(text, parse_float=_float if DRAFT_4 in str(schema) else _canonical)
        assert canonical.accepts(json.dumps(value, ensure_ascii=False)), text
    for text in outside:
        assert not judge.accepts(text), text
        assert not canonical.accepts(text), text


def _float(number: str) -> float:
    return float(number) or 0.0  # without the sign of a zero


def _canonical(number: str) -> float:
    value = float(number)
    return int(value) if value.is_integer() else value


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "/properties/a", "uniqueItems"),
        ({"properties": {"a~/": {"pattern": "(a)\\1"}}}, "/properties/a~0~1", "pattern"),
        ({"$ref": "http://example.test/other"}, "", "$ref"),
        ({"$schema": "http://example.test/dialect"}, "", "$schema"),
        ({"enum": ["\ud800"]}, "", "enum"),
    ],
)
def test_refusals_name_the_place(schema: object, pointer: str, keyword: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        Judge(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "text"}}}, "/properties/a"),
        ({"properties": []}, ""),
        ({"items": 3}, "/items"),
        ({"properties": {"a": {"items": None}}}, "/properties/a"),
        ({"required": "a"}, ""),
        ({"anyOf": []}, ""),
        ({"minLength": -1}, ""),
        ({"$ref": "#/$defs/none"}, ""),
        ({"name": "Ann", "age": 3}, ""),
        ({"$ref": "#"}, ""),
        ({"allOf": [{"$ref": "#"}]}, ""),
        ('{"minimum": 1e999999}', ""),
        ('{"type": ', ""),
    ],
)
def test_what_is_no_schema(schema: object, pointer: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        Judge(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "string", "minLength": 2, "maxLength": 1},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "minItems": 1, "items": False},
        {"enum": []},
        {"const": "a", "pattern": "^b"},
        {"type": "string", "allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]},
        {"not": {}},
    ],
)
def test_schemas_without_documents(schema: object) -> None:
    with pytest.raises(UnsatisfiableSchema):
        Judge(schema)


def _exponential(depth: int) -> dict[str, object]:
    branches = [{"properties": {f"{side}{level}": A}} for level in range(depth) for side in "ab"]
    pairs = zip(branches[::2], branches[1::2], strict=True)
    return {"allOf": [{"anyOf": [{"required": [f"x{n}"], **a}, b]} for n, (a, b) in enumerate(pairs)]}


def _nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "null"}
    for _ in range(depth):
        schema = {"anyOf": [schema, {"type": "integer"}]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        _exponential(40),
        _nested(300),
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "items": A, "contains": {"minimum": 3}, "minContains": 10**6},
        {"type": "object", "properties": {"k" * 5000 + str(n): {} for n in range(100)}},
    ],
)
def test_hostile_schemas_end_within_limits(schema: object) -> None:
    try:
        lowered(schema, limits=Limits(work=1_000_000))
    except FormatterError as error:
        assert isinstance(error, LimitExceeded)


def test_exclusive_branches_stay_small() -> None:
    """Each branch against all others costs conditions, not alternatives for every property."""
    kinds = [
        {"type": "object", "properties": {f"{name}{n}": A for n in range(12)}, "required": [f"{name}0"]}
        for name in "abcdef"
    ]
    grammar = lowered({"oneOf": kinds})
    assert len(grammar.rules) < 20_000
    judge = Judge({"oneOf": kinds[:3]})
    for text in (
        '{"a0": 1}',
        '{"a0": 1, "b1": 2}',
        '{"a0": 1, "b0": "x"}',
        '{"a0": 1, "b0": 2, "b3": "x"}',
        '{"c0": 1}',
    ):
        assert judge.accepts(text), text
    for text in ("{}", '{"a0": 1, "b0": 2}', '{"a0": "x"}', '{"a0": 1, "c0": 1, "c11": 2}'):
        assert not judge.accepts(text), text


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "not", "if", "properties", "items", "dependentSchemas"])
def test_deep_schemas_end_within_limits(keyword: str) -> None:
    schema: dict[str, object] = {"type": "integer"}
    for level in range(250):
        inner = {"a": schema} if keyword in ("properties", "dependentSchemas") else schema
        schema = {
            keyword: [schema, {"minimum": level}] if keyword.endswith("Of") else inner,
            "then": {"maximum": level},
        }
    try:
        lowered(schema, limits=Limits(work=1_000_000))
    except FormatterError as error:
        assert isinstance(error, LimitExceeded)
