"""Schemas with keywords of others, or with values that belong elsewhere: a right answer or an error of ours."""

from __future__ import annotations

import copy
import itertools
import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError
from formatter_core.schema.keywords import keywords

jsonschema = pytest.importorskip("jsonschema")

#: Schemas, each with documents, that use every kind of keyword.
PARENTS: list[tuple[dict[str, Any], list[Any]]] = [
    (
        {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}, "id": {"type": "integer", "minimum": 0}},
            "required": ["id"],
            "additionalProperties": {"type": ["string", "null"], "maxLength": 4},
            "maxProperties": 4,
        },
        [{"name": "ab", "id": 1}, {"id": 2, "b": None}],
    ),
    (
        {
            "type": "object",
            "patternProperties": {"^[ab]": {"type": "number", "multipleOf": 2}},
            "propertyNames": {"maxLength": 4},
            "minProperties": 1,
            "dependentRequired": {"name": ["id"]},
            "dependentSchemas": {"id": {"required": ["a"]}},
        },
        [{"a": 2}, {"id": 1, "a": 4}],
    ),
    (
        {
            "type": "array",
            "prefixItems": [{"const": 1}, {"enum": ["a", 2, None, {"name": "a"}]}],
            "items": {"type": "integer", "exclusiveMaximum": 9},
            "contains": {"const": 2},
            "maxContains": 2,
            "minItems": 1,
            "maxItems": 4,
        },
        [[1, "a", 2], [1, 2]],
    ),
    ({"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True}, [[1, "a"], [1, 1]]),
    (
        {
            "anyOf": [{"type": "string", "pattern": "^[a-c]*$"}, {"type": "object", "required": ["a"]}],
            "not": {"enum": ["a", {"a": 1}]},
        },
        ["abc", {"a": 2}],
    ),
    (
        {
            "if": {"required": ["name"]},
            "then": {"properties": {"name": {"const": "a"}}},
            "else": {"required": ["b"]},
            "properties": {"b": True},
            "unevaluatedProperties": False,
        },
        [{"name": "a"}, {"b": 1}],
    ),
    (
        {"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}], "$defs": {"n": {"type": "null"}}},
        [1, 2, 2.5],
    ),
    (
        {"allOf": [{"$ref": "#/$defs/tree"}], "$defs": {"tree": {"properties": {"a": {"$ref": "#/$defs/tree"}}}}},
        [{"a": {"a": 1}}, {}],
    ),
]
#: Values that belong nowhere, or to another keyword.
STRAY: list[Any] = [
    None,
    True,
    -1,
    0,
    2,
    0.1,
    10**40,
    "",
    "a",
    "\ud800",
    "(?=x)",
    "[",
    "#",
    "object",
    [],
    {},
    ["a", "a"],
]
STRAY += [
    [[]],
    {"$ref": "#"},
    {"not": {}},
    {"enum": []},
    {"\udfff": {}},
    ["\ud800"],
    ["string", "string"],
    float("inf"),
]
DOCUMENTS: list[Any] = [
    None,
    True,
    0,
    1,
    2,
    3,
    1.5,
    "",
    "a",
    "abc",
    [],
    {},
    [1, "a"],
    [2, 2],
    {"a": 1},
    {"name": "a"},
    {"id": 1},
]


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for keyword, value in schema.items():
            if keyword in keywords().objects and isinstance(value, dict):
                for below in value.values():
                    yield from subschemas(below)
            elif keyword not in ("enum", "const"):
                for below in value if isinstance(value, list) else [value]:
                    yield from subschemas(below)


def crossed(draw: random.Random) -> tuple[Any, list[Any]]:
    """One of `PARENTS` with one to three keywords of its subschemas replaced, added or removed; and its documents."""
    schema, documents = copy.deepcopy(draw.choice(PARENTS))
    for _ in range(draw.randint(1, 3)):
        place = draw.choice(list(subschemas(schema)))
        keyword = draw.choice(KEYWORDS)
        if place and draw.random() < 0.2:
            del place[draw.choice(list(place))]
        else:
            place[keyword] = copy.deepcopy(draw.choice([found[keyword] for found in FOUND if keyword in found]))
    return schema, documents


FOUND = [place for schema, _ in PARENTS for place in subschemas(schema)]
KEYWORDS = sorted({keyword for place in FOUND for keyword in place} - {"$defs"})


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(Vocabulary.of_bytes())


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_stray_values(keyword: str, compiler: Compiler) -> None:
    draw = random.Random(keyword)
    for stray in STRAY:
        for schema, on_unsupported in itertools.product(({}, draw.choice(PARENTS)[0]), ("error", "warn")):
            changed = copy.deepcopy(schema)
            draw.choice(list(subschemas(changed)))[keyword] = stray
            key_order = draw.choice(["schema", "any"])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    format = formats.json_schema(changed, key_order=key_order, on_unsupported=on_unsupported)  # type: ignore[arg-type]
                    compiled = compiler.compile(format)
                assert compiled.formatter().allowed_tokens()
                compiled.parse('{"a": 1}')
            except FormatterError:
                pass


@pytest.mark.parametrize("seed", range(20))
def test_crossed_schemas(seed: int, compiler: Compiler) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        schema, documents = crossed(draw)
        judge = jsonschema.Draft202012Validator(schema)
        try:
            compiled = compiler.compile(formats.json_schema(schema, key_order="any"))
        except FormatterError:
            continue
        for document in [*documents, *DOCUMENTS]:
            accepted = compiled.parse(json.dumps(document)).is_complete
            assert accepted == judge.is_valid(document), (schema, document)
