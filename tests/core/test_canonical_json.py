"""Masks of a schema offer only what a careful writer writes; the recogniser that judges so is tested too."""

from __future__ import annotations

import gzip
import inspect
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formatter_core import formats

from .canonical_json import Fault, Place, first_fault, places_of
from .canonical_walks import walk_schemas
from .random_schemas import random_case

WRITTEN = [
    "{}",
    "[]",
    '{"a": 1, "b": [true, null]}',
    '{"a":1,"b":[1,2]}',
    '{\n    "a": {\n        "b": [\n            1\n        ]\n    }\n}',
    r'"\"\\\b\f\n\r\t\u0001\u001F/é\u00e9\u00C9\ud83d\ude00😀"',
    "-12.50",
    "1e-07",
    "1.5E+16",
    "12345678901234567890",
    "-0.0",
]

FAULTS = [
    (r'"a\u0062"', 2, "needs no escape"),
    (r'"é\/"', 3, "needless"),
    (r'"\u000a"', 1, "short escape"),
    (r'"\ud83d"', 1, "half of a pair"),
    (r'"\ude00"', 1, "half of a pair"),
    ('{"a" :1}', 4, "expected `:`"),
    ('{"a"\n:\n1}', 4, "expected `:`"),
    ('{"a":  1}', 6, "expected a value"),
    ('{"a":\n1}', 5, "expected a value"),
    ("[1 ,2]", 3, "before the comma"),
    ("[1\n,2]", 3, "before the comma"),
    ("[1,  2]", 3, "blanks"),
    ("[\t1]", 1, "blanks"),
    ("[\n\n1]", 1, "blanks"),
    ("[\n" + 65 * " " + "1]", 1, "65 spaces"),
    (" 1", 0, "expected a value"),
    ("1\n", 1, "follows the root"),
    ("-0", 0, "-0"),
    ("10e3", 0, "exponent form"),
    ("1e400", 0, "infinity"),
    ("1." + 21 * "0", 0, "21 after it"),
    (21 * "1", 0, "21 digits"),
    ("1e0001", 0, "exponent form"),
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_what_writers_write_has_no_fault(text: str) -> None:
    json.loads(text)
    assert first_fault(text) is None


@pytest.mark.parametrize(("text", "byte", "why"), FAULTS)
def test_what_no_writer_writes_is_found(text: str, byte: int, why: str) -> None:
    found = first_fault(text)
    assert found is not None
    assert (found.byte, why in found.why) == (byte, True), found


def test_documents_as_json_dumps_writes_them_have_no_fault() -> None:
    for seed in range(60):
        for document in random_case(seed)[2]:
            for options in ({}, {"indent": 2}, {"indent": 4}, {"separators": (",", ":")}):
                assert first_fault(json.dumps(document, ensure_ascii=False, **options)) is None  # type: ignore[arg-type]


SCHEMA = {
    "type": "object",
    "properties": {
        "é": {"type": "integer"},
        "kind": {"enum": ["ä", 2.0, "b"]},
        "more": {"type": "array", "items": {"$ref": "#/$defs/deep"}},
    },
    "$defs": {"deep": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"é": 1, "kind": "ä"}', None),
        ('{"é": 1, "kind": 2}', None),
        (r'{"\u00e9": 1}', "the name 'é'"),
        (r'{"other \u00e9": 1}', None),
        (r'{"kind": "\u00e4"}', "the listed text 'ä'"),
        ('{"kind": 2.0}', "has a fraction"),
        ('{"é": 1.0}', "has a fraction"),
        ('{"é": 1e3}', "or an exponent"),
        ('{"more": [{"x": 1.0}]}', "has a fraction"),
        ('{\n        "é": 1}', None),
        ('{\n         "é": 1}', "9 spaces"),
        ('{"more": [{\n                                 "x": 1}]}', None),
    ],
)
def test_a_schema_says_what_is_listed(text: str, why: str | None) -> None:
    found = first_fault(text, places_of(SCHEMA, json.loads(text)))
    assert (found is None) if why is None else (found is not None and why in found.why), found


def test_places_of_references_and_all_of() -> None:
    schema = {
        "allOf": [{"properties": {"a": {"$ref": "#/properties/b"}}}],
        "properties": {"b": {"type": "integer"}, "c": {"$ref": "#"}},
    }
    places = places_of(schema, {"a": 1, "c": {"a": 2}})
    assert places["a",].is_integer
    assert places["c", "a"].is_integer
    assert places[()] == Place(names=frozenset({"a", "b", "c"}))
    assert first_fault('{"a": 1.0}', places) == Fault(6, "the integer 1.0 has a fraction or an exponent")


def real_schemas(shared: Path) -> Iterator[tuple[str, Any]]:
    """Real schemas in a random order."""
    path = shared / "maskbench" / "maskbench_dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in random.Random(50).sample(cases, len(cases)):
        yield case["id"], case["schema"]


needs_spelling = pytest.mark.skipif(
    "spelling" not in inspect.signature(formats.json_schema).parameters, reason="formats.json_schema has no spelling"
)


@needs_spelling
def test_walks_through_random_schemas_are_written_carefully() -> None:
    cases = ((str(seed), random_case(seed)[0]) for seed in range(10_000))
    found = walk_schemas(cases, schemas=40, each=5, seed=1)
    assert not found.faults, found.faults[:3]
    assert found.walks == 200


@needs_spelling
def test_walks_through_real_schemas_are_written_carefully(shared: Path) -> None:
    found = walk_schemas(real_schemas(shared), schemas=12, each=5, seed=2)
    assert not found.faults, found.faults[:3]
    assert found.walks == 60
