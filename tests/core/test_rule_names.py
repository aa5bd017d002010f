"""The library knows what the rules of a schema stand for: explanations need no nodes."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import TokenRejected

ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}}},
}


class Point(NamedTuple):
    x: int
    label: str


EXPLAINED: dict[str, tuple[Any, str, str]] = {
    "a schema": ({**ITEM, "required": ["name"]}, '{"name": "a", "sizes": [1', "#/properties/sizes/items"),
    "a type": (Point, '{"x": 1', "#/$defs/Point/properties/x"),
    "a hole": (formats.sequence("It is ", formats.json_schema(ITEM)), 'It is {"sizes": [1', "#/properties/sizes/items"),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explanations_read_no_nodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    format, text, place = EXPLAINED[name]
    compiled = Compiler(Vocabulary.of_bytes(), engine="native", cache_bytes=0).compile(format)

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("the rules of a schema were read")

    monkeypatch.setattr(sys.modules["formatter_core.formats.json_schema"], "rules_of", fail)
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
