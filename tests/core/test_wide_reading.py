"""Texts that exist already: a schema or a type, given as such, is read in any spelling and any order of keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from formatter_core import formats, parse
from formatter_core.errors import FormatterError

from .random_schemas import random_case


@dataclass
class Person:
    name: str
    age: int


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WRITTEN = [
    '{"name": "Ann", "age": 7}',
    '{"age": 7, "name": "Ann"}',
    '{"\\u006eame": "A\\u006en", "age": 7}',
    '{"name" : "Ann" , "age": 7.0}',
    '{\n        "age": 7, "name": "\\u0041nn"}',
]


@pytest.mark.parametrize("text", WRITTEN)
def test_shorthands_are_read_however_they_are_written(text: str) -> None:
    assert parse(SCHEMA, text).value == {"name": "Ann", "age": 7}
    assert parse(json.dumps(SCHEMA), text).value == {"name": "Ann", "age": 7}
    assert parse(Person, text).value == Person("Ann", 7)


@pytest.mark.parametrize("text", WRITTEN[1:])
def test_a_format_is_taken_as_it_says(text: str) -> None:
    for format in (formats.json_schema(SCHEMA), formats.python_type(Person)):
        assert not parse(format, text).is_complete
    assert parse(formats.json_schema(SCHEMA, spelling="any", key_order="any"), text).is_complete


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"name": "Ann", "age": "7"}', "byte 23"),  # canonical up to there
        ('{"age" : 7, "name" : 1}', "byte 21"),  # the wider reading goes further
        ('{"name" : "Ann"', "output ended too early"),
    ],
)
def test_what_is_missing_is_said_where_the_text_stops_matching(text: str, missing: str) -> None:
    result = parse(SCHEMA, text)
    assert not result.is_complete
    assert missing in (result.missing or "")


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (int | float, "1.0", 1.0),
        (int | float, "1", 1),
        (float | int, "1", 1.0),
        (list[int | float], "[1.0, 2]", [1.0, 2]),
        (str | int, '"\\u0061"', "a"),
    ],
)
def test_the_alternative_that_has_the_text_in_canonical_spelling_comes_first(tp: Any, text: str, value: Any) -> None:
    for format in (tp, formats.python_type(tp, spelling="any")):
        found = parse(format, text).value
        assert (found, type(found)) == (value, type(value))


def test_both_readings_of_random_schemas_have_equal_values() -> None:
    both = 0
    for seed in range(120):
        schema, _, documents = random_case(seed)
        if not isinstance(schema, dict):
            continue
        try:
            canonical, wide = formats.json_schema(schema), formats.json_schema(schema, spelling="any", key_order="any")
            for document in documents:
                text = json.dumps(document, ensure_ascii=False)
                narrow, other, read = parse(canonical, text), parse(wide, text), parse(schema, text)
                assert read.is_complete == (narrow.is_complete or other.is_complete), (seed, text)
                if narrow.is_complete:
                    both += 1
                    assert other.is_complete, (seed, schema, text)
                    assert narrow.value == other.value == read.value == json.loads(text), (seed, text)
        except FormatterError:
            continue
    assert both > 100
