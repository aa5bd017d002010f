"""TabbyAPI calls the adapter for the formats of a request; ExLlamaV3 is a stand-in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="the adapter needs torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core.errors import InvalidSchema
from tests.adapters.exllamav3_stand_ins import Tokenizer, exllamav3_of
from tests.adapters.vllm_engines import ENDS, make_tokenizer

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture
def grammar() -> Iterator[Any]:
    with exllamav3_of("1.4.1"):
        yield import_module("formatter_exllamav3.tabbyapi").ExLlamaV3Grammar()


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("json_schema", SCHEMA, b'{"a":1}'),
        ("json_schema", {"name": "one", "schema": SCHEMA}, b'{"a":1}'),
        ("regex", "[ab]{2}", b"ab"),
        ("grammar", 'root ::= "x" root | "y"', b"xxy"),
        ("grammar", 'start: "x" start | "y"', b"xxy"),
        ("kbnf", 'start ::= "x" start | "y";', b"xxy"),
    ],
)
def test_what_requests_ask_for(grammar: Any, kind: str, spec: Any, text: bytes) -> None:
    getattr(grammar, f"add_{kind}_filter")(spec, Tokenizer(make_tokenizer(), ENDS))
    (made,) = grammar.filters
    formatter = made.formatter.fork()
    formatter.accept_bytes(text)
    assert formatter.can_stop


def test_a_faulty_format_is_refused_in_tabbyapis_own_words(grammar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSchema):
        grammar.add_json_schema_filter({"type": "nothing"}, Tokenizer(make_tokenizer(), ENDS))
    errors = ModuleType("common.errors")
    errors.__dict__["GrammarParseError"] = LookupError
    monkeypatch.setitem(sys.modules, "common", ModuleType("common"))
    monkeypatch.setitem(sys.modules, "common.errors", errors)
    with pytest.raises(LookupError, match="nothing"):
        grammar.add_json_schema_filter({"type": "nothing"}, Tokenizer(make_tokenizer(), ENDS))
    assert not grammar.filters
