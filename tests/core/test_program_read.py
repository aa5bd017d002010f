"""A program read back is the grammar that it was written of."""

from __future__ import annotations

from typing import Any

import pytest

from formatter_core import formats
from formatter_core.grammar import Grammar, JsonText, Members, Node, Schema, Terminal, map_children, walk
from formatter_core.grammar.nodes import Bytes, listed_spelling
from formatter_core.grammar.read import without_schemas
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.schema import lower_schema

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", 1, None]}}, "required": ["a"]},
    {"type": "object", "properties": {"é": {}, "n": {"type": "integer", "multipleOf": 25}}, "minProperties": 1},
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]+$"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True, "minItems": 2},
    {"anyOf": [{"type": "string", "format": "date"}, {"$ref": "#/$defs/tree"}],
     "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}}},
]  # fmt: skip


def spelled(node: Node) -> Node:
    """The node with listed texts as the bytes that a program has for them."""
    if isinstance(node, JsonText) and node.spelling == "listed":
        return Bytes(listed_spelling(node.text))
    return map_children(node, spelled)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_a_schema_is_read_as_it_is_lowered(schema: Any, order: Any) -> None:
    grammar = formats.json_schema(schema, key_order=order).to_grammar(DEFAULT_LIMITS).grammar
    assert any(isinstance(body, Schema) for body in grammar.rules.values())
    found = without_schemas(grammar, DEFAULT_LIMITS)
    lowered = lower_schema(schema, spelling="canonical", key_order=order)
    expected = Grammar({name: spelled(body) for name, body in lowered.rules.items()}, lowered.start)
    assert found.rules == expected.rules
    assert next(iter(found.rules)) == found.start == expected.start


def test_one_terminal_is_one_object() -> None:
    found = without_schemas(
        formats.json_schema({"type": "array", "items": {"type": "object"}}).to_grammar(DEFAULT_LIMITS).grammar,
        DEFAULT_LIMITS,
    )
    terminals = [node for body in found.rules.values() for node in walk(body) if isinstance(node, Terminal)]
    assert len({id(each) for each in terminals}) == len(set(terminals)) < len(terminals)


def test_schemas_beside_captures_and_tokens() -> None:
    format = formats.sequence(formats.json_schema(SCHEMAS[0]), formats.token(7), formats.json_schema(SCHEMAS[1]))
    grammar = format.to_grammar(DEFAULT_LIMITS).grammar
    found = without_schemas(grammar, DEFAULT_LIMITS)
    assert found.check(DEFAULT_LIMITS).names == grammar.check(DEFAULT_LIMITS).names
    assert found.check(DEFAULT_LIMITS).tokens == (7,)
    assert any(isinstance(node, Members) for body in found.rules.values() for node in walk(body))
    assert without_schemas(found, DEFAULT_LIMITS) is found
