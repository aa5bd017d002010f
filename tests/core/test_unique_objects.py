"""`uniqueItems` of arrays and objects of which there are few."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import UnsatisfiableSchema, UnsupportedSchema
from tests.sampling import sampled

Draft202012Validator = pytest.importorskip("jsonschema").Draft202012Validator

COMPILER = Compiler(Vocabulary.of_bytes(), engine="native")
POINT = {
    "type": "object",
    "properties": {"x": {"enum": [1, 2]}, "y": {"type": "boolean"}},
    "required": ["x"],
    "additionalProperties": False,
}


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def closed(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **more}


A_THEN_B = closed({"a": {"const": 1}, "b": {"enum": [1, 2]}}, "a", "b")
B_THEN_A = closed({"b": {"enum": [2, 3]}, "a": {"const": 1}}, "a", "b")


@pytest.mark.parametrize(
    ("items", "kept", "lost"),
    [
        (POINT, ["[]", '[{"x": 1}, {"x": 2}, {"x": 1, "y": true}, {"x": 1, "y": false}]'], ['[{"x": 1}, {"x": 1}]']),
        (
            {"anyOf": [A_THEN_B, B_THEN_A]},  # each in its own order
            ['[{"a": 1, "b": 2}, {"b": 3, "a": 1}]', '[{"b": 2, "a": 1}, {"a": 1, "b": 1}]'],
            ['[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', '[{"b": 1, "a": 1}]'],
        ),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
            ['[[], ["a"], ["a", "b"], ["b", "a"], ["a", "a"]]'],
            ["[[], []]", '[["a", "b"], ["b"], ["a", "b"]]'],
        ),
        (array({"enum": [1, 2, 3]}), ["[[1, 2], [2, 1], [3, 1, 2]]"], ["[[1, 1]]", "[[1, 2], [1, 2]]"]),
        ({"anyOf": [POINT, {"enum": ["x", 1]}]}, ['["x", {"x": 1}, 1]'], ['["x", {"x": 1}, "x"]']),
        ({"enum": [{"a": [1]}, {"a": [True]}, {}]}, ['[{"a": [true]}, {"a": [1]}]'], ['[{"a": [1]}, {"a": [1]}]']),
        (
            closed({"x": {"type": "integer", "minimum": 0, "maximum": 9}, "y": {"const": "k"}}, "x"),
            ['[{"x": 9}, {"x": 8}, {"x": 9, "y": "k"}]'],
            ['[{"x": 9}, {"x": 8}, {"x": 9}]'],
        ),
        (
            {**POINT, "if": {"properties": {"x": {"const": 1}}}, "then": {"required": ["y"]}, "minProperties": 1},
            ['[{"x": 2}, {"x": 1, "y": true}]'],
            ['[{"x": 1}]', '[{"x": 2}, {"x": 2}]'],
        ),
    ],
)
def test_values_come_once(items: Any, kept: list[str], lost: list[str]) -> None:
    compiled = COMPILER.compile(array(items))
    assert [text for text in kept if not compiled.parse(text).is_complete] == []
    assert [text for text in lost if compiled.parse(text).is_complete] == []


def test_numbers_and_keys_are_compared_as_json_does() -> None:
    compiled = COMPILER.compile(formats.json_schema(array(POINT), spelling="any", key_order="any"))
    assert compiled.parse('[{"x": 1.0, "y": true}, {"y": true, "x": 2}]').is_complete
    assert not compiled.parse('[{"x": 1.0, "y": true}, {"y": true, "\\u0078": 1}]').is_complete


@pytest.mark.parametrize(
    "items",
    [
        {"type": "object"},
        {**POINT, "additionalProperties": {"const": 1}},
        closed({"a": {"type": "string"}}),
        closed({name: {"enum": [1, 2]} for name in "abcd"}),  # 81 of them
        {"type": "array", "items": {"const": 1}},
        {"$ref": "#/$defs/n"},
    ],
    ids=json.dumps,
)
def test_other_items_are_refused(items: Any) -> None:
    schema = {**array(items), "$defs": {"n": closed({"n": {"$ref": "#/$defs/n"}})}}
    with pytest.raises(UnsupportedSchema, match="that are not few") as caught:
        COMPILER.compile(schema)
    assert caught.value.keyword == "uniqueItems"


def test_where_all_values_have_come_the_array_ends() -> None:
    formatter = COMPILER.compile(array(closed({"a": {"type": "boolean"}}))).formatter(max_tokens=60)
    formatter.accept_bytes(b'[{}, {"a": true}, {"a": ')
    assert formatter.allowed_tokens() == [ord("f")]
    formatter.accept_bytes(b"false}")
    assert formatter.forced_bytes() == b""
    assert ord(",") not in formatter.allowed_tokens()


def random_item(rng: random.Random, levels: int = 2) -> dict[str, Any]:
    """A schema of few values, mostly."""
    kind = rng.randrange(6 if levels else 3)
    if kind < 3:
        return rng.choice([{"enum": rng.sample([1, 2, "a", None, True, 0.5], 2)}, {"type": "boolean"}, {"const": "b"}])
    if kind == 3:
        lengths = {"maxItems": rng.randint(1, 2), "minItems": rng.randint(0, 1)}
        return {"type": "array", "items": random_item(rng, 0), **lengths}
    if kind == 4:
        return {rng.choice(["anyOf", "oneOf"]): [random_item(rng, levels - 1) for _ in range(2)]}
    names = rng.sample("abc", rng.randint(1, 3))
    schema = closed({name: random_item(rng, levels - 1) for name in names}, *rng.sample(names, rng.randint(0, 1)))
    if rng.random() < 0.2:
        schema["minProperties"] = 1
    if rng.random() < 0.2:
        schema["dependentRequired"] = {names[0]: names[-1:]}
    return schema


def random_value(rng: random.Random, levels: int = 2) -> Any:
    kind = rng.randrange(4 if levels else 2)
    if kind < 2:
        return rng.choice([1, 1.0, 2, "a", "b", None, True, False, 0.5])
    if kind == 2:
        return [random_value(rng, 0) for _ in range(rng.randint(0, 2))]
    return {name: random_value(rng, levels - 1) for name in rng.sample("abc", rng.randint(0, 3))}


def differ(document: list[Any]) -> bool:
    """Tell whether all items differ: `jsonschema` takes `True` for 1 when it sorts them."""
    return len({json.dumps(item, sort_keys=True).replace(".0", "") for item in document}) == len(document)


@pytest.mark.parametrize("first", sampled(range(0, 120, 20), 2))
def test_the_same_as_jsonschema(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        item = random_item(rng)
        schema = array(item, minItems=rng.choice([0, 0, 1, 2]), maxItems=rng.choice([3, 5]))
        if rng.random() < 0.2:
            schema["prefixItems"] = [random_item(rng, 1)]
        validator, fits = Draft202012Validator({**schema, "uniqueItems": False}), Draft202012Validator(item)
        try:
            compiled = COMPILER.compile(formats.json_schema(schema, spelling="any", key_order="any"))
        except (UnsupportedSchema, UnsatisfiableSchema) as error:
            found[type(error).__name__] += 1
            continue
        fitting = [value for value in (random_value(rng) for _ in range(400)) if fits.is_valid(value)]
        for _ in range(30):
            document = rng.choices(fitting or [1], k=rng.randint(0, 4))
            accepted = compiled.parse(json.dumps(document)).is_complete
            assert accepted == (validator.is_valid(document) and differ(document)), (schema, document)
            found["valid" if accepted else "invalid"] += 1
        formatter = compiled.formatter(max_tokens=compiled.min_tokens + 8)
        while not formatter.is_finished:
            allowed = formatter.allowed_tokens()
            assert allowed == [token for token in range(257) if formatter.count_valid([token])], schema
            formatter.accept_token(rng.choice(allowed))
        document = json.loads(formatter.text)
        assert validator.is_valid(document) and differ(document), (schema, document)  # noqa: PT018
    assert min(found["valid"], found["invalid"]) > 50
    assert found["UnsupportedSchema"] < 10
