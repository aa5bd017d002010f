"""The library knows what the rules of a schema stand for: explanations need no grammar made in Python."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine.native_schema import NativeProgram
from formatter_core.errors import TokenRejected
from formatter_core.limits import DEFAULT_LIMITS

ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}}},
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "an object": {**ITEM, "additionalProperties": False},
    "any values": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    "several kinds": {"type": ["array", "object", "null"], "items": ITEM},
    "kinds of objects": {
        "anyOf": [
            {"type": "object", "properties": {"k": {"const": kind}, "v": {"items": {}}}, "required": ["k"]}
            for kind in ("a", "b")
        ]
    },
    "references": {
        "$ref": "#/$defs/tree~1of~0",
        "$defs": {
            "tree/of~": {"properties": {"é%20": {"$ref": "#/$defs/list"}}},
            "list": {"type": "array", "items": {"$ref": "#"}},
        },
    },
    "a pair": {
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}]}},
        "$defs": {"b": {"properties": {"x": {"type": "object"}}}, "c": {"properties": {"x": {"required": ["y"]}}}},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("key_order", ["schema", "any"])
def test_the_names_are_those_of_the_rules_in_python(name: str, key_order: Any) -> None:
    grammar = formats.json_schema(SCHEMAS[name], key_order=key_order).to_grammar(DEFAULT_LIMITS).grammar
    assert isinstance(grammar.check(DEFAULT_LIMITS), NativeProgram)
    named = grammar.rule_names(DEFAULT_LIMITS)
    assert named is not None
    names, start = named
    assert start == grammar.lowered.start
    assert names[: len(grammar.lowered.rules)] == tuple(grammar.lowered.rules)


class Point(NamedTuple):
    x: int
    label: str


EXPLAINED: dict[str, tuple[Any, str, str]] = {
    "a schema": ({**ITEM, "required": ["name"]}, '{"name": "a", "sizes": [1', "#/properties/sizes/items"),
    "a type": (Point, '{"x": 1', "#/$defs/Point/properties/x"),
    "a hole": (formats.sequence("It is ", formats.json_schema(ITEM)), 'It is {"sizes": [1', "#/properties/sizes/items"),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explanations_lower_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    format, text, place = EXPLAINED[name]
    compiled = Compiler(Vocabulary.of_bytes(), engine="native", cache_bytes=0).compile(format)

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("a schema was lowered in Python")

    monkeypatch.setattr(sys.modules["formatter_core.formats.json_schema"], "lower_schema", fail)
    formatter = compiled.formatter()
    formatter.accept_bytes(text.encode())
    assert place in formatter.explain(ord("x"))
    with pytest.raises(TokenRejected, match=re.escape(place)):
        formatter.accept_token(ord("x"))


def test_documents_of_a_registry_keep_their_names() -> None:
    format = formats.json_schema(
        {"type": "array", "items": {"$ref": "https://example.com/item"}},
        registry={
            "https://example.com/item": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        },
    )
    formatter = Compiler(Vocabulary.of_bytes(), engine="native").compile(format).formatter()
    formatter.accept_bytes(b'[{"n": 1')
    assert "https://example.com/item#/properties/n" in formatter.explain(ord("x"))
