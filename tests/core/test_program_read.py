"""The rules of a schema, read out of its program; `test_schemas_in_formats` compares their masks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import formats
from formatter_core.engine.native_parser import parser_of
from formatter_core.grammar import Grammar, Members, Schema, Terminal, walk
from formatter_core.limits import DEFAULT_LIMITS

#: Each with documents, and texts that are none.
SCHEMAS: list[tuple[Any, list[Any], list[Any]]] = [
    (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", 1, None]}}, "required": ["a"]},
        [{"a": 1}, {"a": -2, "b": "x"}, {"a": 3, "b": None, "more": [{}]}],
        [{}, {"b": 1}, {"a": 1.5}, {"a": 1, "b": "y"}],
    ),
    (
        {"type": "object", "properties": {"é": {}, "n": {"type": "integer", "multipleOf": 25}}, "minProperties": 1},
        [{"é": "é"}, {"n": 75}],
        [{}, {"n": 26}],
    ),
    (
        {"type": "array", "items": {"type": "string", "pattern": "^[a-c]+?$"}, "minItems": 1, "maxItems": 3},
        [["a"], ["ab", "c", "abc"]],
        [[], ["d"], ["a"] * 4],
    ),
    (
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True, "minItems": 2},
        [[1, 2], [3, 1, 2]],
        [[1], [1, -1]],
    ),
    (
        {"type": "array", "items": {"enum": ["a", "b", 1]}, "contains": {"const": 1}, "uniqueItems": True},
        [[1], ["b", 1, "a"]],
        [[], ["a"], [1, 1]],
    ),
    (
        {"anyOf": [{"type": "string", "format": "date"}, {"$ref": "#/$defs/tree"}],
         "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}}},
        ["2024-02-29", {"next": {"next": {}}}],
        ["2023-02-29", {"next": 1}],
    ),
]  # fmt: skip


def grammar_of(schema: Any, **options: Any) -> Grammar:
    grammar = formats.json_schema(schema, **options).to_grammar(DEFAULT_LIMITS).grammar
    assert any(isinstance(body, Schema) for body in grammar.rules.values())
    return grammar


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("spelling", ["canonical", "any"])
@pytest.mark.parametrize(("schema", "valid", "invalid"), SCHEMAS, ids=range(len(SCHEMAS)))
def test_the_rules_have_the_documents_of_the_schema(
    schema: Any, valid: list[Any], invalid: list[Any], spelling: Any, order: Any
) -> None:
    lowered = grammar_of(schema, key_order=order, spelling=spelling).lowered
    assert next(iter(lowered.rules)) == lowered.start
    parser = parser_of(lowered, DEFAULT_LIMITS)
    for document in [*valid, *invalid]:
        text = json.dumps(document, ensure_ascii=False).encode()
        assert (parser.captures([text]) is not None) == (document in valid), document


def test_one_terminal_is_one_object() -> None:
    found = grammar_of({"type": "array", "items": {"type": "object"}}).lowered
    terminals = [node for body in found.rules.values() for node in walk(body) if isinstance(node, Terminal)]
    assert len({id(each) for each in terminals}) == len(set(terminals)) < len(terminals)


def test_schemas_beside_captures_and_tokens() -> None:
    format = formats.sequence(formats.json_schema(SCHEMAS[0][0]), formats.token(7), formats.json_schema(SCHEMAS[1][0]))
    grammar = format.to_grammar(DEFAULT_LIMITS).grammar
    found = grammar.lowered
    assert found.check(DEFAULT_LIMITS).names == grammar.check(DEFAULT_LIMITS).names
    assert found.check(DEFAULT_LIMITS).tokens == (7,)
    assert any(isinstance(node, Members) for body in found.rules.values() for node in walk(body))
    assert found.lowered is found
