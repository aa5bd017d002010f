"""Schemas with many alternatives stay cheap, counted in steps and rules, and documents show that nothing is lost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine.shortest import min_bytes
from formatter_core.errors import LimitExceeded
from formatter_core.limits import Limits

from .schema_judge import Judge, lowered

A = {"type": "integer"}
EXCLUSIVE = {"oneOf": [{"properties": {f"k{n}": A}, "required": [f"k{n}"]} for n in range(200)]}
CONDITIONAL = {"allOf": [{"if": {"required": [f"a{n}"]}, "then": {"required": [f"b{n}"]}} for n in range(24)]}
GROUPS = {"allOf": [{"anyOf": [{"required": [f"g{n}{kind}"]} for kind in "abcd"]} for n in range(14)]}
DEPENDENT = {"type": "object", "dependentRequired": {f"a{n}": [f"b{n}"] for n in range(24)}}


def _text(*names: str) -> str:
    return "{" + ", ".join(f'"{name}": 1' for name in names) + "}"


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        (
            EXCLUSIVE,
            ['{"k7": 1}', '{"k7": 1, "k9": "x"}', '{"k0": null, "k199": 1, "other": 1}'],
            ["{}", "null", '{"k7": "x"}', '{"k7": 1, "k9": 2}', '{"other": 1}'],
        ),
        (
            CONDITIONAL,
            ["{}", "3", _text("b3"), _text("a3", "b3"), _text("a0", "b0", "b1", "a23", "b23")],
            [_text("a3"), _text("a0", "b0", "a23"), _text("a3", "b4")],
        ),
        (
            GROUPS,
            [
                "[]",
                _text(*(f"g{n}{'abcd'[n % 4]}" for n in range(14))),
                _text(*(f"g{n}{k}" for n in range(14) for k in "ad")),
            ],
            ["{}", _text(*(f"g{n}a" for n in range(13))), _text(*(f"g{n}a" for n in range(1, 14)))],
        ),
        (DEPENDENT, ["{}", _text("a3", "b3"), _text("b5")], [_text("a3"), _text("a3", "b3", "a4")]),
    ],
)
def test_alternatives_are_not_written_out(schema: Any, accepted: list[str], rejected: list[str]) -> None:
    """With a hundredth of the steps that are allowed by default."""
    limits = Limits(work=200_000)
    assert len(lowered(schema, limits=limits).rules) < 1000
    judge = Judge(schema, limits=limits)
    assert [text for text in accepted if not judge.accepts(text)] == []
    assert [text for text in rejected if judge.accepts(text)] == []


def test_exclusive_branches_can_be_negated() -> None:
    judge = Judge({"not": {"oneOf": EXCLUSIVE["oneOf"][:12]}})
    for values in itertools.product(["", "1", '"x"'], repeat=3):
        pairs = [f'"k{n}": {value}' for n, value in zip((0, 5, 11), values, strict=True) if value]
        assert judge.accepts("{" + ", ".join(pairs) + "}") == (values.count("1") != 1), pairs


def test_conditionals_about_one_property_are_met_once() -> None:
    """Seventy of them were refused: each goal was worked out from its first literal on."""
    numbers = range(40)
    kinds = {"type": "object", "properties": {"k": {"enum": list(numbers)}}, "required": ["k"]}
    rules = [
        {"if": {"properties": {"k": {"const": n}}, "required": ["k"]}, "then": {"required": [f"r{n}"]}} for n in numbers
    ]
    judge = Judge({**kinds, "allOf": rules}, limits=Limits(work=2_000_000))
    assert judge.accepts('{"k": 39, "r7": 0, "r39": 0}')
    assert not judge.accepts('{"k": 39, "r7": 0}')


@pytest.mark.parametrize("kinds", [{"type": "string"}, {"enum": ["a", "k1", "k11", 5]}, True])
def test_conditionals_about_a_property_that_may_be_absent(kinds: Any) -> None:
    """Their values tell them apart; from nine on, all combinations of them were too many."""
    rules = [{"if": {"properties": {"k": {"const": f"k{n}"}}}, "then": {"required": [f"r{n}"]}} for n in range(12)]
    rules[3]["if"] = {"properties": {"k": {"not": {"enum": ["a", "k3"]}}}, "required": ["k"]}
    schema = {"type": "object", "properties": {"k": kinds}, "allOf": rules}
    validator, judge = Draft202012Validator(schema), Judge(schema)
    every = [f"r{n}" for n in range(12)]
    for value in ("a", "k1", "k3", "k11", "b", 5, None):
        for names in ([], ["r1"], ["r11"], ["r3"], ["r1", "r3"], ["r3", "r11"], every[:3] + every[4:], every):
            for document in ({"k": value, **dict.fromkeys(names, 1)}, dict.fromkeys(names, 1)):
                assert judge.accepts_value(document, orders=1) == validator.is_valid(document), document


def _branches_of_maps(count: int, required: Sequence[str]) -> dict[str, Any]:
    """Branches told apart by a tag, and where that is absent, by what two other members hold together."""
    names = [f"n{number}" for number in range(count + 4)]
    branches: list[dict[str, Any]] = []
    for number in range(count):
        options = {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in names if name != f"n{number}"},
            "additionalProperties": False,
        }
        several = {"type": "object", "additionalProperties": options}
        tag = {"const": f"tag {number}"}
        properties = {"tag": tag, "options": options, "configurations": several}
        branches.append({"type": "object", "properties": properties, "required": list(required)})
    return {"type": "object", "additionalProperties": {"oneOf": branches}}


def test_branches_that_several_members_tell_apart_together() -> None:
    schema = _branches_of_maps(3, [])
    validator, compiled = Draft202012Validator(schema), Compiler(Vocabulary.of_bytes()).compile(schema)
    held = [{}, {"n0": True}, {"n1": True}, {"n2": True, "n3": False}, {"n0": True, "n1": True}, {"n1": 1}]
    for options, configuration in itertools.product(held, held):
        for tag in ({}, {"tag": "tag 1"}):
            document = {"a": {**tag, "options": options, "configurations": {"x": configuration, "y": {"n2": True}}}}
            assert compiled.parse(json.dumps(document)).is_complete == validator.is_valid(document), document


def test_what_would_take_masks_too_long_is_refused_with_advice_that_helps() -> None:
    with pytest.raises(LimitExceeded, match="require the property that tells them apart"):
        lowered(_branches_of_maps(8, []))
    lowered(_branches_of_maps(8, ["tag"]))


def test_comparing_strings_is_charged() -> None:
    pairs = [{"anyOf": [{"pattern": f"a{{{n}}}"}, {"pattern": f"b.{{{n}}}c"}]} for n in range(13)]
    with pytest.raises(LimitExceeded) as caught:
        lowered({"allOf": pairs}, limits=Limits(work=2_000_000))
    assert caught.value.limit == "work"


def test_four_patterns_at_once_are_within_the_limits_whatever_was_compiled_before() -> None:
    first, second, third = "^([a-z][0-9])+$", "((c1d3g3).{4,8}){6,6}", "(t|8){10,10}..$"
    all_of = [{"pattern": pattern} for pattern in (first, second, third, "^z9((.){10,10}){10,10}z9$")]
    any_of = [{"not": {"pattern": pattern}} for pattern in (first, f"^..{second}", third)]
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b"of this test", None], [257])
    compiler = Compiler(vocabulary, engine="native", cache_bytes=0)
    for _ in range(2):
        compiler.compile({"allOf": [*all_of, {"multipleOf": 7}, {"anyOf": any_of}]})


def test_following_a_reference_takes_as_long_among_many_definitions() -> None:
    def steps(count: int) -> int:
        """Return the steps that 200 references take among `count` more definitions, rounded up to a power of two."""
        chain = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(200)} | {"200": {"type": "null"}}
        others = {f"other {n}": {"type": "null"} for n in range(count)}
        schema = {"$ref": "#/$defs/0", "$defs": {**chain, **others}}
        return next(most for power in range(24) if _is_within(schema, most := 2**power))

    assert steps(20_000) <= 2 * steps(20)


def _is_within(schema: Any, work: int) -> bool:
    try:
        lowered(schema, limits=Limits(work=work))
    except LimitExceeded:
        return False
    return True


def test_telling_keys_apart_is_charged() -> None:
    patterns = {f"^x{n}.*a{n}": {"minimum": n} for n in range(80)}
    with pytest.raises(LimitExceeded) as caught:
        lowered({"patternProperties": patterns}, limits=Limits(work=100_000))
    assert caught.value.limit == "work"


@pytest.mark.parametrize(("text", "length"), [("x" * 500_000, 500_000), ('"\\\n\x01é€😀' * 1000, 21_000)])
def test_the_shortest_spelling_of_a_long_text_takes_no_automaton(text: str, length: int) -> None:
    assert min_bytes(lowered({"const": text}), Limits(states=10)) == length + 2


def test_many_objects_that_all_hold_are_combined_in_quadratic_time() -> None:
    """It was cubic: 2,000 of them took minutes."""
    every = [{"properties": {f"k{n}": A}, "required": [f"k{n}"]} for n in range(120)]
    few = next(most for power in range(26) if _is_within({"allOf": every[:60]}, most := 2**power))
    assert _is_within({"allOf": every}, 4 * few)


def test_combining_large_objects_is_charged() -> None:
    with pytest.raises(LimitExceeded) as caught:
        lowered({"allOf": [{"required": [f"k{n}"]} for n in range(400)]}, limits=Limits(work=100_000))
    assert caught.value.limit == "work"


@pytest.mark.parametrize("leaf", [A, {"minimum": 1.5}, {"not": A}])
@pytest.mark.parametrize("wrap", [lambda a: {"items": a, "contains": a}, lambda a: {"allOf": [a, a]}])
def test_parts_that_data_shares_on_many_levels(leaf: Any, wrap: Any) -> None:
    """Twenty levels took seconds, thirty for ever: each part is a schema of its own wherever it stands."""
    schema = leaf
    for _ in range(30):
        schema = wrap(schema)
    with pytest.raises(LimitExceeded) as caught:
        Compiler(Vocabulary([b"1", None], [1])).compile(schema)
    assert caught.value.limit == "repeated values"
    assert "`$defs`" in str(caught.value)


def test_parts_that_data_shares_often() -> None:
    schema = {"properties": {f"k{n}": A for n in range(5000)}}
    assert formats.json_schema(schema) == formats.json_schema({"properties": {f"k{n}": {**A} for n in range(5000)}})


def test_ways_to_count_an_item_are_charged() -> None:
    """Sixteen branches gave each item so many that the memory did not suffice."""
    with pytest.raises(LimitExceeded) as caught:
        lowered({"oneOf": [{"items": {"maximum": n}} for n in range(12)]}, limits=Limits(work=1_000_000))
    assert caught.value.limit == "work"


def test_looking_through_lists_of_items_is_charged() -> None:
    lists = [{"prefixItems": [{"minimum": n + place} for place in range(40)], "minItems": 40} for n in range(5)]
    with pytest.raises(LimitExceeded) as caught:
        lowered({"oneOf": lists}, limits=Limits(work=400_000))
    assert caught.value.limit == "work"
