"""JSON Schema: what each keyword accepts and rejects. Each row: a schema, texts in the format, texts outside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import (
    FormatterError,
    InvalidArgument,
    InvalidFormat,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.formats.json_schema import SchemaWarning, from_json, json_schema
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.schema import Whitespace

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


@pytest.mark.contract("JSON Schema: on_unsupported")
def test_dropping_instead_of_refusing_gives_a_superset_and_says_so() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": ["integer", "array"]}, "uniqueItems": True}
    schema["not"] = {"pattern": TWICE}
    with pytest.warns(SchemaWarning) as told:
        judge = Judge(schema, on_unsupported="warn")
    assert judge.accepts("[1, 1]")
    assert not judge.accepts('["x"]')
    said = {str(each.message).split(" is not enforced")[0] for each in told}
    assert said == {"`uniqueItems` at the root", "`not` at the root"}


@pytest.mark.contract("JSON Schema: string_formats")
def test_formats_as_annotations() -> None:
    assert Judge({"type": "string", "format": "date"}, string_formats="annotate").accepts('"soon"')


@pytest.mark.contract("JSON Schema: registry")
def test_references_into_a_registry() -> None:
    registry = {"http://x.test/int": {"type": "integer"}}
    judge = Judge({"items": {"$ref": "http://x.test/int"}, "type": "array"}, registry=registry)
    assert judge.accepts("[1]")
    assert not judge.accepts('["x"]')


@pytest.mark.contract("JSON Schema: key_order")
def test_free_key_order() -> None:
    judge = Judge({**AB, "properties": {**AB["properties"], "c": A}}, key_order="any")  # type: ignore[dict-item]
    for text in ('{"b": "x", "a": 1}', '{"c": 1, "a": 1, "b": "x"}', '{"a": 1}'):
        assert judge.accepts(text)
    for text in ("{}", '{"b": "x"}', '{"a": 1, "a": 1}', '{"a": 1, "d": 1}'):
        assert not judge.accepts(text)


@pytest.mark.contract("JSON Schema: key_order")
def test_own_properties_come_first_and_then_what_the_walk_adds() -> None:
    schema = {
        "type": "object",
        "allOf": [{"properties": {"a": {}}}, {"$ref": "#/$defs/b"}],
        "required": ["d"],
        "properties": {"c": {}},
        "$defs": {"b": {"properties": {"b": {}}}},
    }
    judge = Judge(schema)
    assert judge.accepts('{"c": 1, "a": 1, "b": 1, "d": 1, "e": 1}')
    assert not judge.accepts('{"a": 1, "c": 1, "d": 1}')
    assert not judge.accepts('{"e": 1, "d": 1}')


@pytest.mark.parametrize("option", ["spelling", "whitespace", "key_order", "string_formats", "on_unsupported"])
def test_unknown_options(option: str) -> None:
    with pytest.raises(InvalidArgument):
        json_schema({}, **{option: "nonsense"})


@pytest.mark.contract("JSON Schema: whitespace")
def test_whitespace() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    value = {"a": [1, {"b": 2}]}
    pretty, default, tight = json.dumps(value, indent=4), json.dumps(value), json.dumps(value, separators=(",", ":"))
    flexible, compact, exact = (
        Judge(schema, whitespace=choice)
        for choice in ("flexible", "compact", Whitespace(comma=", ", colon=": ", spaces=0, lines=False))
    )
    assert [flexible.accepts(text) for text in (pretty, default, tight)] == [True, True, True]
    assert [compact.accepts(text) for text in (pretty, default, tight)] == [False, False, True]
    assert [exact.accepts(text) for text in (pretty, default, tight)] == [False, True, False]
    for text in (
        " {}",
        "{} ",
        '{"a":\t[]}',
        '{"a":  []}',
        "{\n" + " " * 5 + "}",
        "{\r\n}",
        '{"a" :[]}',
        '{"a":[1 ,2]}',
    ):
        assert not flexible.accepts(text)
    assert flexible.accepts("{\n" + " " * 4 + "}")
    everywhere = Judge(schema, spelling="any")
    for text in ("{\n" + " " * 64 + "}", '{"a"\n :\n[1 , 2]}'):
        assert everywhere.accepts(text)
        assert Judge(schema, whitespace=Whitespace()).accepts(text)
    assert not everywhere.accepts("{\n" + " " * 65 + "}")


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


def test_coverage_tells_what_became_of_each_keyword() -> None:
    schema = {
        "title": "T",
        "requierd": ["a"],
        "nullable": True,
        "properties": {"a": {"type": "string", "format": "slug"}, "b/c": {"type": "array", "uniqueItems": True}},
    }
    coverage = json_schema(schema).coverage()
    found = {(entry.pointer, entry.keyword): entry for entry in coverage.entries}
    assert {key: entry.status for key, entry in found.items()} == {
        ("", "title"): "annotation",
        ("", "requierd"): "unknown",
        ("", "nullable"): "unknown",
        ("", "properties"): "enforced",
        ("/properties/a", "type"): "enforced",
        ("/properties/a", "format"): "annotation",
        ("/properties/b~1c", "type"): "enforced",
        ("/properties/b~1c", "uniqueItems"): "refused",
    }
    assert "required" in found["", "requierd"].reason
    assert "OpenAPI" in found["", "nullable"].reason
    assert '"null"' in found["", "nullable"].reason
    assert coverage.with_status("refused") == (found["/properties/b~1c", "uniqueItems"],)
    assert len(str(coverage).splitlines()) == 1 + len(coverage.entries)


def test_coverage_of_an_older_draft() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1, "items": {"$ref": "#", "type": "null"}}
    statuses = {(entry.pointer, entry.keyword): entry.status for entry in json_schema(schema).coverage().entries}
    assert statuses["", "const"] == "unknown"
    assert statuses["/items", "type"] == "annotation"
    assert statuses["/items", "$ref"] == "enforced"


def test_dropped_keywords_are_warned_about() -> None:
    made = json_schema({"type": "array", "uniqueItems": True}, on_unsupported="warn")
    with pytest.warns(SchemaWarning, match="uniqueItems"):
        made.to_grammar(DEFAULT_LIMITS).grammar.check(DEFAULT_LIMITS)
    assert [entry.keyword for entry in made.coverage().with_status("refused")] == ["uniqueItems"]


def test_the_format_goes_to_json_and_back() -> None:
    made = json_schema({"type": "number", "minimum": 0.1}, whitespace=Whitespace(comma=", "), registry={"x:y": True})
    assert from_json(json.loads(json.dumps(made.to_json()))) == made
    assert (
        made.key()
        == json_schema(
            '{"type": "number", "minimum": 0.1}', whitespace=Whitespace(comma=", "), registry={"x:y": True}
        ).key()
    )
    for fault in (3, None, [1]):
        with pytest.raises(InvalidFormat):
            json_schema(fault)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ['{"const": 0.0}', '{"enum": [1, true, 1.0, 1E2]}', '{"const": 0.1000000000000000000001}', '{"const": 1e999}'],
)
def test_json_keeps_every_digit(text: str) -> None:
    made = json_schema(text)
    again = from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert hash(again) == hash(made)


def test_a_schema_is_data_in_json() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 0.5}}}
    assert json_schema(schema, registry={"x:y": schema}).to_json()["schema"] == schema
    assert json_schema(True, registry={"x:y": schema}).to_json()["registry"] == {"x:y": schema}


def test_later_changes_of_a_dict_do_not_reach_the_format() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    made = json_schema(schema)
    key = made.key()
    schema["properties"]["a"]["type"] = "string"
    assert made.key() == key != json_schema(schema).key()


def test_order_and_kind_make_another_format() -> None:
    assert json_schema({"const": 1}) != json_schema({"const": True})
    assert json_schema({"properties": {"a": A, "b": A}}) != json_schema({"properties": {"b": A, "a": A}})


def test_data_that_json_does_not_have() -> None:
    for fault in ({"const": {1}}, {"const": float("inf")}, {"const": {2: 1}}, {"const": b"a"}, {"const": 10**4000}):
        with pytest.raises(InvalidSchema):
            json_schema(fault)
    with pytest.raises(InvalidSchema):
        json_schema({"minimum": float("nan")})


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


TWICE = "(a)\\1"


@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [
        ({"not": {"properties": {"a": {"pattern": TWICE}}}}, ['{"a": "("}', '{"a": 1}', "{}"], []),
        ({"type": "string", "pattern": TWICE, "maxLength": 2}, ['"("'], ['"abc"']),
        ({"oneOf": [{"pattern": TWICE}, {"type": "integer"}], "maximum": 3}, ["3", '"("'], ["4"]),
        ({"properties": {"a": {"$ref": "#/$defs/r"}, "b": {"not": {"$ref": "#/$defs/r"}}}, "type": "object",
          "$defs": {"r": {"pattern": TWICE, "type": "string"}}}, ['{"a": "(", "b": "x"}', '{"b": 1}'], ['{"a": 1}']),
    ],
)  # fmt: skip
def test_dropping_never_narrows(schema: object, kept: list[str], lost: list[str]) -> None:
    judge = Judge(schema, on_unsupported="warn")
    assert [text for text in kept if not judge.accepts(text)] == []
    assert [text for text in lost if judge.accepts(text)] == []


HOST: dict[str, Any] = {"type": "string", "format": "hostname"}


@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [
        (HOST, ["a", "a-1.b", "x" * 63, ".".join(["x" * 60] * 4)], ["", "-a", "a-", "a..b", "a_b", "x" * 64, "é"]),
        (HOST, ["xn.a--b.c"], [".".join(["x" * 63] * 4), "xn--a", "a.xn--4gbwdl", "ab--c"]),  # or left out
        ({**HOST, "enum": ["a.b", "_"]}, ["a.b"], ["_"]),
        ({**HOST, "minLength": 3, "pattern": "x$"}, ["a.x"], ["x", "abc"]),
        ({"anyOf": [HOST, {"type": "string", "format": "ipv6"}]}, ["a.b", "::1"], ["::g"]),
        ({"oneOf": [HOST, {"type": "integer"}]}, ["a"], ["_"]),
    ],
)
def test_host_names(schema: object, kept: list[str], lost: list[str]) -> None:
    judge = Judge(schema)
    assert [text for text in kept if not judge.accepts(json.dumps(text))] == []
    assert [text for text in lost if judge.accepts(json.dumps(text))] == []


def test_the_names_of_properties_are_host_names() -> None:
    judge = Judge({"type": "object", "propertyNames": {"format": "hostname"}})
    assert judge.accepts('{"a.b": 1, "c": 2}')
    assert not judge.accepts('{"a.b": 1, "_": 2}')
    assert not judge.accepts('{"a.b": 1, "xn--a": 2}')


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"not": HOST}, "/not"),
        ({"oneOf": [HOST, {"minLength": 2}]}, "/oneOf/0"),
        ({"oneOf": [HOST, {"const": "xn--a"}]}, "/oneOf/0"),
        ({**HOST, "enum": ["a", "xn--a"]}, ""),
        ({"properties": {"a": {"not": {"$ref": "#/$defs/h"}}}, "$defs": {"h": HOST}}, "/$defs/h"),
        ({"type": "object", "if": {"properties": {"a": HOST}, "required": ["a"]}, "then": False}, "/if/properties/a"),
        ({"type": "array", "contains": HOST, "maxContains": 1}, "/contains"),
        ({"propertyNames": {"format": "hostname"}, "properties": {"xn--a": True}}, "/propertyNames"),
    ],
)
def test_where_it_matters_which_host_names_are_left_out_they_are_refused(schema: object, pointer: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        Compiler(Vocabulary.of_bytes()).compile(json_schema(schema))
    assert (caught.value.pointer, caught.value.keyword) == (pointer, "format")


def test_the_coverage_says_which_host_names_are_left_out() -> None:
    (entry,) = (entry for entry in json_schema(HOST).coverage().entries if entry.keyword == "format")
    assert entry.status == "enforced"
    assert "Punycode" in entry.reason


DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


@pytest.mark.parametrize("draft", DIALECTS)
@pytest.mark.parametrize(
    "name",
    [
        *("date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uri-template", "json-pointer"),
        *("date", "time", "idn-email", "iri", "iri-reference", "relative-json-pointer", "duration", "uuid"),
    ],
)
def test_a_format_is_enforced_in_every_draft_whichever_defined_it(draft: int, name: str) -> None:
    wrong = '"{ {"'  # in no format
    schema = {"$schema": DIALECTS[draft], "type": "string", "format": name}
    compiled = Compiler(Vocabulary([b'"', b"</s>"], [1])).compile(json_schema(schema))
    assert not compiled.parse(wrong).is_complete
