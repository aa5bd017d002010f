"""Items and extra keys that differ by value."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Limits, Vocabulary, formats
from formatter_core.errors import BudgetTooSmall, InvalidGrammar, LimitExceeded, UnsatisfiableSchema, UnsupportedSchema
from tests.sampling import sampled

Draft202012Validator = pytest.importorskip("jsonschema").Draft202012Validator
compare_unique = pytest.importorskip("scripts.compare_unique")

ROW = np.zeros(Vocabulary.of_bytes().words, dtype=np.int32)
COMPILER = Compiler(Vocabulary.of_bytes(), engine="native")
STRINGS: dict[str, Any] = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


@pytest.mark.parametrize("seed", sampled(range(40), 15))
def test_the_same_as_jsonschema(seed: int) -> None:
    found = compare_unique.compare(COMPILER, seed, 8)
    assert not [what for what, count in found.items() if count and what.startswith(("wrong", "dead"))]


@pytest.mark.parametrize(
    ("schema", "text", "forbidden", "allowed"),
    [
        (STRINGS, '["a", "a', '"', "b"),
        (STRINGS, '["a", "\\u0061', '"', "b"),
        ({**STRINGS, "items": {"type": "string", "maxLength": 1}}, '["a", "', "a", "b"),
        ({**STRINGS, "items": {"type": "string", "pattern": "^[ab]$"}}, '["a", "b"', ",", "]"),
        ({**STRINGS, "items": {"type": "number"}}, "[1.5, 1.50", "]", "1"),
        ({"type": "object", "minProperties": 2}, '{"a": 1, "a', '"', "b"),
    ],
)
def test_a_value_that_has_come_does_not_end(schema: Any, text: str, forbidden: str, allowed: str) -> None:
    formatter = COMPILER.compile(formats.json_schema(schema, spelling="any")).formatter()
    formatter.accept_bytes(text.encode())
    tokens = formatter.allowed_tokens()
    assert ord(forbidden) not in tokens
    assert ord(allowed) in tokens


LISTS: dict[str, Any] = {"type": "array", "uniqueItems": True}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({**LISTS, "items": {"anyOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}}, "[2,3]", "[2,2]"),
        (
            {
                **LISTS,
                "items": {"type": "integer", "enum": [1, 2]},
                "$schema": "http://json-schema.org/draft-04/schema#",
            },
            "[1]",
            "[1.0]",
        ),
    ],
)
def test_listed_items_come_once_each(schema: Any, valid: str, invalid: str) -> None:
    """A value of two branches came twice, and draft 4 had integers with a fraction."""
    compiled = COMPILER.compile(formats.json_schema(schema, spelling="any"))
    assert compiled.formatter().count_valid(valid.encode()) == len(valid)
    assert compiled.formatter().count_valid(invalid.encode()) < len(invalid)


def walk(schema: Any, tokens: list[bytes], rng: random.Random, *, steps: int, walks: int) -> None:
    """Random walks by tokens of several bytes: each is allowed exactly where its bytes are."""
    compiled = Compiler(Vocabulary([*tokens, b"</s>"], [len(tokens)]), engine="native").compile(schema)
    bytewise = COMPILER.compile(schema)
    texts = [list(token) for token in tokens]
    for _ in range(walks):
        formatter, judge = compiled.formatter(), bytewise.formatter()
        for _ in range(steps):
            wanted = [index for index, text in enumerate(texts) if judge.count_valid(text) == len(text)]
            assert [index for index in formatter.allowed_tokens() if index < len(tokens)] == wanted, judge.bytes
            assert formatter.can_stop == judge.can_stop
            if not wanted:
                break
            token = rng.choice(wanted)
            formatter.accept_token(token)
            judge.accept_tokens(texts[token])


def test_tokens_across_items_are_masked_as_their_bytes_are() -> None:
    tokens = ['["', '","', '"]', "a", "b", 'a"', '","a","b', '","b"]', "aa", '"', ",", "]", "[", '\\u0061","', 'a","a"']
    tokens += ['","b","b"', '",",",","', '"b","b"', ',"ab","ab"']  # equal items in one token
    walk(
        formats.json_schema(STRINGS, spelling="any"),
        [token.encode() for token in tokens],
        random.Random(0),
        steps=12,
        walks=60,
    )


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_documents_are_masked_as_their_bytes_are(seed: int) -> None:
    rng = random.Random(seed)
    schema = compare_unique.random_schema(rng)
    tokens = compare_unique.pieces(schema, rng)
    with suppress(UnsupportedSchema, UnsatisfiableSchema, InvalidGrammar):
        walk(formats.json_schema(schema, key_order="any"), tokens, rng, steps=20, walks=6)


@pytest.mark.parametrize("seed", range(20))
def test_budgets_of_values_that_differ_are_kept_by_tokens_of_several_bytes(seed: int) -> None:
    rng = random.Random(seed)
    schema = compare_unique.random_schema(rng)
    tokens = compare_unique.pieces(schema, rng)
    with suppress(UnsupportedSchema, UnsatisfiableSchema, InvalidGrammar, BudgetTooSmall):
        masks, faults = compare_unique.walk_within(schema, tokens, rng, most=8)
        assert masks, schema
        assert not faults, schema


def test_the_nearest_value_depends_on_the_end_ids_of_a_sequence() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), b"8,", b"9,"]
    end = len(tokens)
    compiled = Compiler(Vocabulary([*tokens, b"</s>"], [end]), engine="native").compile(
        formats.json_schema({"type": "array", "uniqueItems": True, "items": {"type": "integer", "minimum": 8}})
    )
    for end_ids in ([end], [ord("8"), end]):  # without "8" no value of one digit is left after "9,"
        for budget in range(4, 9):
            formatter = compiled.formatter(end_ids=end_ids, max_tokens=budget)
            formatter.accept_token(ord("["))
            allowed = formatter.allowed_tokens()
            assert allowed == [token for token in range(end + 1) if formatter.count_valid([token])], (end_ids, budget)


@pytest.mark.parametrize("seed", range(20, 40))
def test_end_ids_that_are_text_leave_no_dead_end(seed: int) -> None:
    rng = random.Random(seed)
    schema = compare_unique.random_schema(rng)
    with suppress(UnsupportedSchema, UnsatisfiableSchema, InvalidGrammar):
        assert not compare_unique.search_within(schema, rng, most=4, masks=100)[1], schema


NAMES = {"type": "array", "items": {"type": "string", "pattern": "^[ab]+$"}, "minItems": 2, "uniqueItems": True}
THREE_KEYS = {"type": "object", "minProperties": 3, "required": ["a"], "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("several", "one", "text"),
    [
        (NAMES, ["c"], b'["'),
        ({**THREE_KEYS, "properties": {"a": {"type": "integer"}}}, {"c": 1}, b'{"'),
    ],
)
def test_where_a_comma_ends_the_output_no_second_value_comes(several: Any, one: Any, text: bytes) -> None:
    end = 256
    tokens = [bytes([byte]) for byte in range(end)]
    compiled = Compiler(Vocabulary([*tokens, b"</s>"], [end]), engine="native").compile(
        formats.json_schema({"anyOf": [several, {"const": one}]}, key_order="any")
    )
    formatter = compiled.formatter(end_ids=[end, ord(",")], max_tokens=40)
    for byte in text:
        formatter.accept_token(byte)
    assert bytes(formatter.allowed_tokens()) == b"c"


def test_without_a_brace_the_shortest_object_may_be_another_one() -> None:
    schema = {
        "anyOf": [
            {"not": {"patternProperties": {"^[ab]$": {"type": "integer"}}}},
            {"not": {"patternProperties": {"^a": {"type": "string"}}}},
        ]
    }
    tokens = [b'"', b'"}', b":", b"a", b"{", '😀": 1, '.encode()]
    compiled = Compiler(Vocabulary([*tokens, b"</s>"], [6]), engine="native").compile(
        formats.json_schema(schema, key_order="any")
    )
    assert compiled.min_tokens == 8
    formatter = compiled.formatter(max_tokens=8)
    while not formatter.is_finished:
        formatter.accept_token(formatter.allowed_tokens()[0])
    assert formatter.text == '{"a":""}'


def test_without_a_quote_no_value_is_left() -> None:
    tokens = [bytes([byte]) for byte in b'[]" ,'] + [b'"",']
    compiled = Compiler(Vocabulary([*tokens, b"</s>"], [6]), engine="native").compile(
        formats.json_schema({**STRINGS, "items": {"type": "string", "maxLength": 0}})
    )
    formatter = compiled.formatter(end_ids=[6, 2], max_tokens=4)
    formatter.accept_token(0)
    assert formatter.allowed_tokens() == [1, 3]


NOT_INTEGERS: dict[str, Any] = {"type": "object", "not": {"additionalProperties": {"type": "integer"}}}
NOT_AB: dict[str, Any] = {"type": "object", "not": {"patternProperties": {"^[ab]$": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("schema", "text", "forbidden", "allowed"),
    [
        (NOT_INTEGERS, '{"a": 1', "}", ","),
        (NOT_INTEGERS, '{"a": 1, "a', '"', "b"),
        (NOT_INTEGERS, '{"a": 1, "b": "x"', "]", "}"),
        # The last key that can break it must.
        (NOT_AB, '{"a": "x", "b": ', '"', "1"),
        (NOT_AB, '{"a": "x", "c": 2, "b": null', "]", "}"),
        ({**NOT_AB, "maxProperties": 1}, '{"', "c", "a"),
        ({**STRINGS, "contains": {"const": "x"}, "maxItems": 2}, '["a", "', "y", "x"),
        ({**STRINGS, "contains": {"const": "x"}}, '["x", "', "", "y"),
        ({**STRINGS, "contains": {"const": "x"}}, '["a"', "]", ","),
    ],
)
def test_some_value_is_still_wanted(schema: Any, text: str, forbidden: str, allowed: str) -> None:
    compiled = COMPILER.compile(formats.json_schema(schema, key_order="any"))
    formatter = compiled.formatter()
    formatter.accept_bytes(text.encode())
    tokens = formatter.allowed_tokens()
    assert not any(ord(byte) in tokens for byte in forbidden)
    assert ord(allowed) in tokens


def test_too_many_keys_to_name_of_which_one_must_have_a_value() -> None:
    with pytest.raises(LimitExceeded, match="set of keys of which one has a certain value"):
        COMPILER.compile({"type": "object", "not": {"patternProperties": {"^[a-z]{2}$": {"type": "integer"}}}})


@pytest.mark.parametrize("items", [{"type": "object"}, {"type": ["string", "array"]}, {}])
def test_items_that_may_be_arrays_or_objects_are_refused(items: Any) -> None:
    with pytest.raises(UnsupportedSchema, match="arrays or objects"):
        COMPILER.compile({"type": "array", "uniqueItems": True, "items": items})


@pytest.mark.parametrize("key_order", ["schema", "any"])
@pytest.mark.parametrize(
    "schema",
    [
        STRINGS,
        {**STRINGS, "minItems": 3},
        {**STRINGS, "minItems": 70},
        {**STRINGS, "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 20},
        {"type": "object", "minProperties": 3, "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
        NOT_INTEGERS,
        {**NOT_INTEGERS, "minProperties": 2},
        {"type": "object", "properties": {"a": {**STRINGS, "minItems": 2}, "b": {}}, "required": ["a", "b"]},
    ],
)
def test_with_a_budget_it_is_complete(schema: Any, key_order: Any) -> None:
    compiled = COMPILER.compile(formats.json_schema(schema, key_order=key_order))
    for more in range(12):
        rng = random.Random(more)
        formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
        while not formatter.is_finished:
            formatter.accept_token(rng.choice(formatter.allowed_tokens()))
        assert len(formatter.tokens) <= compiled.min_tokens + more
        assert Draft202012Validator(schema).is_valid(json.loads(formatter.text))


ITEMS: list[Any] = [
    {"type": "string"},
    {"type": ["integer", "boolean"]},
    {"type": ["string", "number", "null"]},
    {"type": "string", "pattern": "^[ab]{1,2}$"},
    {"type": "string", "minLength": 2},
]
WANTED: list[Any] = [
    {"const": "long"},
    {"enum": ["a", "", True, 2]},
    {"type": "boolean"},
    {"type": "string", "pattern": "^a"},
    {"type": "integer", "minimum": 3, "maximum": 5},
]


@pytest.mark.parametrize("seed", sampled(range(40), 15))
def test_the_number_of_tokens_given_is_enough_and_one_less_is_refused(seed: int) -> None:
    rng = random.Random(seed)
    wanted = [{"contains": rng.choice(WANTED)} for _ in range(rng.randint(0, 2))]
    schema = {"type": "array", "uniqueItems": True, "items": rng.choice(ITEMS), "minItems": rng.randint(1, 6)}
    if wanted:
        schema["allOf"] = wanted
    try:
        compiled = COMPILER.compile(schema)
    except UnsatisfiableSchema:
        return
    with pytest.raises(BudgetTooSmall) as raised:
        compiled.formatter(max_tokens=compiled.min_bytes)
    assert raised.value.needed == compiled.min_tokens
    for more in range(8):
        formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
        while not formatter.is_finished:
            allowed = formatter.allowed_tokens()
            likely = [token for token in allowed if token in {*b'",]ablong12'}]
            formatter.accept_token(rng.choice(likely or allowed))
        assert len(formatter.tokens) <= compiled.min_tokens + more
        assert Draft202012Validator(schema).is_valid(json.loads(formatter.text))


@pytest.mark.parametrize(
    "schema",
    [
        {**STRINGS, "minItems": 3, "contains": {"const": "long"}},
        {**STRINGS, "minItems": 3, "allOf": [{"contains": {"const": "long"}}, {"contains": {"enum": ["a", "long"]}}]},
        {**STRINGS, "items": {"type": ["integer", "boolean"]}, "minItems": 4, "contains": {"type": "boolean"}},
        {**STRINGS, "items": {"type": "string", "pattern": "^[ab]{2}$"}, "minItems": 4},
        {**STRINGS, "items": {"type": "number"}, "minItems": 200},
        {**STRINGS, "minItems": 300},
        {"type": "object", "minProperties": 100, "propertyNames": {"pattern": "^[a-z]{2,3}$"}},
    ],
)
def test_each_byte_of_the_shortest_output_is_a_token(schema: Any) -> None:
    compiled = COMPILER.compile(schema)
    assert compiled.min_tokens == compiled.min_bytes + 1


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (STRINGS, lambda chosen: [f"x{value}" for value in chosen]),
        ({**STRINGS, "items": {"type": "integer"}}, list),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3},
            lambda chosen: {f"x{value}": 1 for value in chosen},
        ),
    ],
)
def test_what_is_kept_of_values_is_counted_and_bounded(schema: Any, document: Callable[[list[int]], Any]) -> None:
    """With each text there are values that never came before; the automata of other formats do not grow with them."""
    vocabulary = Vocabulary.of_bytes()
    compiler = Compiler(vocabulary, engine="native", limits=Limits(cache_bytes=1 << 20))
    shared = compiler.compile({"type": "string"})
    compiled = compiler.compile(schema)
    grammar: Any = compiled.engine_grammar
    before = shared_bytes(shared)
    rng, sizes = random.Random(0), []
    for _ in range(120):
        formatter = compiled.formatter()
        formatter.accept_bytes(json.dumps(document(rng.sample(range(10**6), 8))).encode())
        assert formatter.can_stop
        formatter.fill_bitmask(ROW)
        sizes.append(sum(grammar.memory().values()))
    assert max(sizes) < 8 << 20
    assert max(sizes) > 2 * sizes[0]
    assert shared_bytes(shared) - before < 1 << 16


def shared_bytes(compiled: Any) -> int:
    """Return the bytes of the automata that the grammars of a vocabulary share."""
    counted = compiled.engine_grammar._vocabulary.memory()
    return int(counted["automata"] + counted["token classes"])
