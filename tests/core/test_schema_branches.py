"""`oneOf` beside other branches of an `allOf`, and branches that a property tells apart; `jsonschema` judges."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import UnsatisfiableSchema
from tests.sampling import sampled

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


@pytest.mark.parametrize("seed", sampled(range(40), 20))
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
        # A branch's own names come first.
        others = {"x7": "a", **{f"x{number}": 1 for number in range(60) if number != 7}}
        assert judge.accepts_value(others, orders=1)


SHORT: Any = {"properties": {"kind": {"const": "short"}, "answer": {"type": "string"}}, "required": ["kind", "answer"]}
LONG: Any = {
    "properties": {"kind": {"const": "long"}, "reasoning": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["kind", "reasoning", "answer"],
}
CLOSED = {"type": "object", "additionalProperties": False}
SHORT_TEXT = '{"kind": "short", "answer": "b"}'
LONG_TEXT = '{"kind": "long", "reasoning": "a", "answer": "b"}'
LATE_TEXT = '{"kind": "long", "answer": "b", "reasoning": "a"}'


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{**CLOSED, **SHORT}, {**CLOSED, **LONG}]},
        {"oneOf": [{**CLOSED, **SHORT}, {**CLOSED, **LONG}]},
        {"type": "object", "oneOf": [SHORT, LONG]},
        {"type": "object", "anyOf": [SHORT, LONG]},
        {"oneOf": [{"$ref": "#/$defs/s"}, {"$ref": "#/$defs/l"}], "$defs": {"s": {**CLOSED, **SHORT}, "l": LONG}},
        {"properties": {"kind": {"type": "string"}}, "type": "object", "allOf": [{"anyOf": [SHORT, LONG]}]},
        {"type": "object", "properties": {"kind": {}}, "if": {"properties": {"kind": {"const": "short"}}},
         "then": SHORT, "else": LONG},
        {"anyOf": [{**CLOSED, **SHORT}, {"anyOf": [{**CLOSED, **LONG}, {"type": "null"}]}]},
        {"anyOf": [{"allOf": [{"$ref": "#/$defs/s"}]}, {"allOf": [{"properties": {"kind": {}}}, LONG]}],
         "$defs": {"s": {**CLOSED, **SHORT}}},
    ],
    ids=str,
)  # fmt: skip
def test_each_branch_has_its_own_order_of_keys(schema: Any) -> None:
    inner = {"type": "object", "properties": {"item": schema}, "required": ["item"]} if "$defs" not in schema else None
    for made, around in ((schema, "{}"), (inner, '{{"item": {}}}')):
        if made is None:
            continue
        compiled = Compiler(Vocabulary.of_bytes()).compile(made)
        judge = Judge(made)
        for text, is_in in ((SHORT_TEXT, True), (LONG_TEXT, True), (LATE_TEXT, False)):
            text = text if around == "{}" else around.format(text)
            assert compiled.parse(text).is_complete is is_in, text
            assert judge.accepts(text) is is_in, text


def test_what_the_object_itself_names_comes_first_in_every_branch() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {}, "kind": {}},
        "anyOf": [{"properties": {"b": {"const": 1}, "a": {}}}, {"properties": {"a": {"const": 2}, "b": {}}}],
    }
    judge = Judge(schema)
    for text, is_in in (
        ('{"id": 0, "kind": 0, "b": 1, "a": 1}', True),
        ('{"id": 0, "kind": 0, "a": 2, "b": 2}', True),
        ('{"id": 0, "kind": 0, "a": 1, "b": 1}', False),
        ('{"id": 0, "b": 1, "kind": 0}', False),
    ):
        assert judge.accepts(text) is is_in, text


@dataclass
class Short:
    kind: Literal["short"]
    answer: str


@dataclass
class Long:
    kind: Literal["long"]
    reasoning: str
    answer: str


def answer(item: Short | Long) -> None:
    raise AssertionError("functions are never called")


@pytest.mark.parametrize(
    ("tp", "around"), [(Short | Long, "{}"), (list[Short | Long], "[{}]"), (answer, '{{"item": {}}}')]
)
def test_types_in_a_union_have_their_own_order_of_keys(tp: Any, around: str) -> None:
    compiled = Compiler(Vocabulary.of_bytes()).compile(tp)
    for text, is_in in ((SHORT_TEXT, True), (LONG_TEXT, True), (LATE_TEXT, False)):
        text = text if around == "{}" else around.format(text)
        assert compiled.parse(text).is_complete is is_in, text
