"""Schemas that refer to documents of a registry: the library lowers them as one document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine.native_schema import NativeProgram
from formatter_core.errors import FormatterError, TokenRejected, UnsupportedSchema
from formatter_core.grammar import Program
from formatter_core.limits import DEFAULT_LIMITS

BASE = "https://example.com/"
ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}, "required": ["name"]}
#: A schema with all its definitions; the same with some of them elsewhere, by URI.
SPLIT: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a document": (
        {"type": "array", "items": {"$ref": "#/$defs/item"}, "$defs": {"item": ITEM}},
        {"type": "array", "items": {"$ref": BASE + "item.json"}},
        {BASE + "item.json": ITEM},
    ),
    "a part of one": (
        {"properties": {"a": {"$ref": "#/$defs/b/properties/size"}}, "$defs": {"b": ITEM}},
        {"properties": {"a": {"$ref": BASE + "item.json#/properties/size"}}},
        {BASE + "item.json#": ITEM},
    ),
    "relative to the root's own URI": (
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": ITEM}},
        {"$id": BASE + "root.json", "properties": {"a": {"$ref": "item.json"}}},
        {BASE + "item.json": {"$id": "item.json", **ITEM}},
    ),
    "documents that refer to each other and to themselves": (
        {
            "$ref": "#/$defs/list",
            "$defs": {
                "list": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                "tree": {
                    "type": "object",
                    "properties": {"left": {"$ref": "#/$defs/tree"}, "all": {"$ref": "#/$defs/list"}},
                },
            },
        },
        {"$ref": BASE + "list"},
        {
            BASE + "list": {"type": "array", "items": {"$ref": "tree"}},
            BASE + "tree": {"type": "object", "properties": {"left": {"$ref": "#"}, "all": {"$ref": "list"}}},
        },
    ),
    "back to the root": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/list"}}, "$defs": {"list": {"items": {"$ref": "#"}}}},
        {"$id": BASE, "type": "object", "properties": {"a": {"$ref": "list"}}},
        {BASE + "list": {"items": {"$ref": BASE}}},
    ),
    "with a part that needs the algebra": (
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"properties": {"c": {"not": {"type": "null"}}}}}},
        {"properties": {"a": {"$ref": BASE}}},
        {BASE: {"properties": {"c": {"not": {"type": "null"}}}}},
    ),
    "in an old draft": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/b"}},
            "definitions": {"b": ITEM},
        },
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": BASE}}},
        {BASE: {"$schema": "http://json-schema.org/draft-07/schema#", **ITEM}},
    ),
}


def program(format: formats.JsonSchemaFormat) -> Program:
    return format.to_grammar(DEFAULT_LIMITS).grammar.check(DEFAULT_LIMITS)


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("key_order", ["schema", "any"])
def test_the_program_is_that_of_one_document(name: str, key_order: Any) -> None:
    whole, root, registry = SPLIT[name]
    split = program(formats.json_schema(root, registry=registry, key_order=key_order))
    assert split == program(formats.json_schema(whole, key_order=key_order))
    assert isinstance(split, NativeProgram)


UNUSUAL: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "an anchor": (
        {"$ref": BASE + "#a"}, {BASE: {"$defs": {"b": {"$anchor": "a", "type": "integer"}}}}, "1", "null"
    ),
    "a URI inside": (
        {"$ref": BASE + "inner"},
        {BASE + "inner": {"$defs": {"b": {"$id": "c/", "$ref": "d"}}, "$ref": "#/$defs/b"},
         BASE + "c/d": {"type": "null"}},
        "null",
        "1",
    ),
    "another draft": (
        {"$ref": BASE},
        {BASE: {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True}},
        "2",
        "3",
    ),
    "a name that is escaped": (
        {"$ref": BASE + "#/$defs/a%2525b"}, {BASE: {"$defs": {"a%25b": {"type": "integer"}}}}, "1", "null"
    ),
    "a dynamic reference": (
        {"$ref": BASE},
        {BASE: {"$dynamicRef": "#x", "$defs": {"own": {"$dynamicAnchor": "x", "type": "integer"}}}},
        "1",
        "{}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_documents_refer_to_each_other(name: str) -> None:
    root, registry, valid, invalid = UNUSUAL[name]
    format = formats.json_schema(root, registry=registry)
    assert isinstance(program(format), NativeProgram)
    compiled = Compiler(Vocabulary.of_bytes(), engine="native").compile(formats.json_schema(root, registry=registry))
    assert accepts(compiled, valid)
    assert not accepts(compiled, invalid)


def accepts(compiled: Any, text: str) -> bool:
    formatter = compiled.formatter()
    try:
        formatter.accept_bytes(text.encode())
    except TokenRejected:
        return False
    return bool(formatter.can_stop)


def test_errors_name_the_references_as_they_are_written() -> None:
    schema = formats.json_schema({"properties": {"a": {"$ref": "https://example.com/b"}}}, registry={})
    with pytest.raises(UnsupportedSchema, match=r"https://example\.com/b") as refusal:
        program(schema)
    assert refusal.value.pointer == "/properties/a"


@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_the_official_suite_with_its_remote_documents(draft: str, shared: Path) -> None:
    suite = shared / "json-schema-test-suite"
    remotes = suite / "remotes"
    registry = {
        f"http://localhost:1234/{path.relative_to(remotes).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in remotes.rglob("*.json")
    }
    dialects = {
        "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
        "draft7": "http://json-schema.org/draft-07/schema#",
    }
    compiler, wrong, compiled = Compiler(Vocabulary.of_bytes(), engine="native"), [], 0
    for file in sorted((suite / "tests" / draft).glob("*ef*.json")):
        for group in json.loads(file.read_text("utf-8")):
            schema = group["schema"]
            schema = {"$schema": dialects[draft], **schema} if isinstance(schema, dict) else schema
            options: dict[str, Any] = {"registry": registry, "spelling": "any", "key_order": "any"}
            try:
                made = compiler.compile(formats.json_schema(schema, string_formats="annotate", **options))
            except FormatterError:
                continue
            compiled += 1
            for test in group["tests"]:
                if accepts(made, json.dumps(test["data"])) != test["valid"]:
                    wrong.append((file.name, group["description"], test["description"]))
    assert wrong == []
    assert compiled > 20
