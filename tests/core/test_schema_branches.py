"""`oneOf` beside other branches of an `allOf`, and branches that a property tells apart; `jsonschema` judges."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from formatter_core.errors import UnsatisfiableSchema

from .schema_judge import Judge

KINDS: list[Any] = [{"const": "x"}, {"enum": ["y", "z"]}, {"enum": ["x", 1, True]}, {"const": 1}, {"type": "string"}]
VALUES: list[Any] = ["x", "y", "w", 1, True, None]


def branch(source: random.Random) -> dict[str, Any]:
    """An object, whose `kind` may or may not tell it apart."""
    made: dict[str, Any] = {"properties": {"kind": source.choice(KINDS)}}
    if source.random() < 0.5:
        made["properties"]["n"] = source.choice([{"type": "integer"}, {"type": "string"}, {"enum": [1, None]}])
    if source.random() < 0.4:
        made["required"] = source.sample(["kind", "n"], source.randint(1, 2))
    if source.random() < 0.3:
        made["type"] = source.choice(["object", ["object", "string"]])
    if source.random() < 0.2:
        made["additionalProperties"] = False
    return made


def schema_of(source: random.Random) -> dict[str, Any]:
    """An `allOf` with a `oneOf` alone in one branch, or in two."""
    exact = {"oneOf": [branch(source) for _ in range(source.randint(1, 4))]}
    branches: list[Any] = [exact, source.choice([True, {"required": ["kind"]}, {"anyOf": [branch(source), {}]}])]
    if source.random() < 0.2:
        branches.append({"oneOf": [branch(source), branch(source)], "title": "another"})
    source.shuffle(branches)
    made: dict[str, Any] = {"allOf": branches}
    if source.random() < 0.6:
        made |= {"type": "object", "required": source.sample(["kind", "n"], source.randint(0, 2))}
    if source.random() < 0.2:
        made["unevaluatedProperties"] = False
    return made


def documents() -> list[Any]:
    """Objects with each of the two properties or none, and what is no object."""
    found: list[Any] = ["x", 1, None, [], {"other": 1}]
    for kind, number in itertools.product([*VALUES, ...], repeat=2):
        found.append({name: value for name, value in (("kind", kind), ("n", number)) if value is not ...})
    return found


@pytest.mark.parametrize("seed", range(40))
def test_branches_mean_what_jsonschema_says(seed: int) -> None:
    schema = schema_of(random.Random(seed))
    validator = Draft202012Validator(schema)
    try:
        judge = Judge(schema)
    except UnsatisfiableSchema:
        assert not any(map(validator.is_valid, documents()))
        return
    for document in documents():
        assert judge.accepts_value(document) == validator.is_valid(document), (schema, document)


def test_a_branch_may_refer_to_the_schema_around_it() -> None:
    leaf = {"properties": {"kind": {"const": "leaf"}}}
    pair = {"properties": {"kind": {"const": "pair"}, "n": {"$ref": "#"}}, "required": ["n"]}
    schema = {"type": "object", "required": ["kind"], "allOf": [{"oneOf": [leaf, pair]}]}
    judge = Judge(schema)
    for document in ({"kind": "leaf"}, {"kind": "pair", "n": {"kind": "pair", "n": {"kind": "leaf"}}}):
        assert judge.accepts_value(document)
    for document in ({}, {"kind": "pair"}, {"kind": "pair", "n": {}}):
        assert not judge.accepts_value(document)


@pytest.mark.parametrize(("patterns", "keys"), [
    (["^ab", "^ac"], ["ab", "ac", "a", "abc"]),
    (["^a", "^ab", "^b$"], ["a", "ab", "b", "bb", ""]),
    (["^ab|c", "^x"], ["ab", "c", "x", "xc", "y"]),
    (["^é", "^è"], ["é", "èé", "e"]),
])  # fmt: skip
def test_patterns_that_begin_differently(patterns: list[str], keys: list[str]) -> None:
    values = [{"const": number} for number in range(len(patterns))]
    schema = {"type": "object", "patternProperties": dict(zip(patterns, values, strict=True))}
    judge, validator = Judge(schema), Draft202012Validator(schema)
    for key, value in itertools.product(keys, range(len(patterns) + 1)):
        assert judge.accepts_value({key: value}) == validator.is_valid({key: value}), (key, value)


def tagged(source: random.Random, number: int) -> dict[str, Any]:
    """A branch that its tag tells from others, where that is there."""
    kind: Any = {"const": f"k{number}"} if number else {"type": "string", "not": {"pattern": "^k[0-9]$"}}
    made: dict[str, Any] = {"properties": {"kind": kind}}
    for name in source.sample("abc", source.randint(0, 2)):
        made["properties"][name] = source.choice([{"type": "integer"}, {"type": "string"}, {"const": 1}])
    if source.random() < 0.3:
        made["required"] = source.sample(list(made["properties"]), 1)
    if source.random() < 0.5:
        made["additionalProperties"] = False
    return made


def test_branches_with_an_optional_tag_are_judged_as_jsonschema_judges_them() -> None:
    agreed = [0, 0]
    for seed in range(150):
        source = random.Random(seed)
        numbers = source.sample(range(8), source.randint(3, 6))
        schema = {"type": "object", "oneOf": [tagged(source, number) for number in numbers]}
        try:
            judge = Judge(schema)
        except UnsatisfiableSchema:
            continue
        for _ in range(40):
            document = {name: source.choice([1, 2, "x"]) for name in "abcd" if source.random() < 0.4}
            if source.random() < 0.7:
                document = {"kind": source.choice([f"k{number}" for number in numbers] + ["other"]), **document}
            accepted = judge.accepts_value(document)
            assert accepted == Draft202012Validator(schema).is_valid(document), (seed, schema, document)
            agreed[accepted] += 1
    assert min(agreed) > 500


@pytest.mark.parametrize("closed", [True, False])
def test_many_branches_need_not_require_their_tag(closed: bool) -> None:
    branches = []
    for number in range(60):
        properties = {"kind": {"const": f"k{number}"}, "n": {"type": "integer"}, f"x{number}": {"type": "string"}}
        branches.append({"properties": properties, **({"additionalProperties": False} if closed else {})})
    judge = Judge({"type": "object", "oneOf": branches})
    assert judge.accepts_value({"kind": "k7", "x7": "a"})
    assert not judge.accepts_value({"n": 1})
    assert judge.accepts_value({"x7": "a"}) == closed
    if not closed:
        others = {f"x{number}": "a" if number == 7 else 1 for number in range(60)}
        assert judge.accepts_value(others, orders=1)
