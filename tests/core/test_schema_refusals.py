"""Schemas that few people write: every refusal is a sentence with a place, and nothing is read wrongly."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError, InvalidSchema, LimitExceeded, UnsatisfiableSchema, UnsupportedSchema
from formatter_core.formats.json_schema import SchemaWarning
from formatter_core.limits import Limits

VOCABULARY = Vocabulary.of_bytes()
HALF = "\ud800"


def fits(schema: Any, text: str, limits: Limits | None = None, **options: Any) -> bool:
    """Tell whether a text follows a schema."""
    compiler = Compiler(VOCABULARY, engine="native", cache_bytes=0, **({"limits": limits} if limits else {}))
    formatter = compiler.compile(formats.json_schema(schema, **options)).formatter()
    try:
        formatter.accept_bytes(text.encode())
    except FormatterError:
        return False
    return formatter.can_stop


def nested(levels: int, keyword: str) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {keyword: [schema] if keyword == "allOf" else schema}
    return schema


@pytest.mark.parametrize("source", [True, "true", {}])
def test_true_allows_any_value(source: Any) -> None:
    assert fits(source, '{"a": [1, null]}')
    assert not fits(source, "[")


@pytest.mark.parametrize("source", [False, "false"])
def test_false_allows_nothing(source: Any) -> None:
    with pytest.raises(UnsatisfiableSchema, match="it is `false`, which allows nothing"):
        fits(source, "1")


def test_a_document_of_a_registry_may_be_a_boolean() -> None:
    registry = {"https://example.com/any": True, "https://example.com/none": False}
    assert fits({"$ref": "https://example.com/any"}, "1", registry=registry)
    with pytest.raises(UnsatisfiableSchema):
        fits({"$ref": "https://example.com/none"}, "1", registry=registry)


@pytest.mark.parametrize(
    ("base", "reference", "target"),
    [
        ("https://example.com/a/b", "c;v=1", "https://example.com/a/c;v=1"),
        ("https://example.com/a/b;v=1", "c", "https://example.com/a/c"),
        ("https://example.com/a/b;v=1", "?x", "https://example.com/a/b;v=1?x"),
        ("https://example.com/a/b", ";v=2", "https://example.com/a/;v=2"),
        ("https://example.com/a/b/c", "..;v=3", "https://example.com/a/;v=3"),
        ("https://example.com/a;v/b", "c", "https://example.com/a;v/c"),
        ("file:///a/b", "c;v", "file:///a/c;v"),
    ],
)
def test_parameters_of_uris_are_joined_as_python_joins_them(base: str, reference: str, target: str) -> None:
    schema = {"$id": base, "$ref": reference}
    assert fits(schema, "1", registry={target: {"type": "integer"}})
    with pytest.raises(UnsupportedSchema, match="points outside the schema"):
        fits(schema, "1", registry={target + "x": {"type": "integer"}})


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"const": HALF}, "const"),
        ({"enum": ["a", HALF]}, "enum"),
        ({"const": {HALF: 1}}, "const"),
        ({"const": {"a": [HALF]}}, "enum"),
        ({"properties": {HALF: {}}}, "properties"),
        ({"required": [HALF]}, "required"),
        ({"dependentRequired": {HALF: ["a"]}}, "dependentRequired"),
        ({"dependentRequired": {"a": [HALF]}}, "dependentRequired"),
    ],
)
def test_a_lone_surrogate_is_refused(schema: Any, keyword: str) -> None:
    for source in (schema, json.dumps(schema), json.dumps(schema, ensure_ascii=False)):
        with pytest.raises(
            UnsupportedSchema, match=r"'\\ud800' contains a lone surrogate, which UTF-8 cannot"
        ) as caught:
            fits(source, "1")
        assert caught.value.keyword == keyword


def test_what_a_lone_surrogate_stands_in_is_dropped() -> None:
    with pytest.warns(SchemaWarning, match="`enum` at the root is not enforced: .* lone surrogate"):
        assert fits({"enum": ["a", HALF]}, '"a"', on_unsupported="warn")
    with pytest.warns(SchemaWarning, match="`not` at the root is not enforced: const at /not: .* lone surrogate"):
        assert fits({"not": {"const": HALF}}, "1", on_unsupported="warn")


def test_a_lone_surrogate_in_what_is_not_written_is_read() -> None:
    schema = {"title": HALF, "$ref": f"#/$defs/{HALF}", "$defs": {HALF: {"type": "integer"}}}
    assert fits(schema, "1")
    assert not fits({"pattern": f"^{HALF}$"}, '"\\\\ud800"')
    assert fits({"pattern": f"^[^{HALF}]$"}, '"a"')
    assert fits({"pattern": f"^[{HALF}a]$"}, '"a"')


@pytest.mark.parametrize("levels", [150, 300])
def test_deeply_nested_schemas_are_read(levels: int) -> None:
    for schema in (nested(levels, "items"), json.dumps(nested(levels, "items"))):
        assert fits(schema, "[" * levels + "1" + "]" * levels)
        assert not fits(schema, "[" * levels + '"')


def test_schemas_that_are_too_deep_are_refused() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    for source in (nested(5000, "items"), '{"items":' * 5000 + "{}" + "}" * 5000, schema):
        with pytest.raises(LimitExceeded, match="nesting of the schema"):
            fits(source, "1")


@pytest.mark.parametrize("depth", [20, 150])
def test_the_limit_of_depth_counts_schemas_for_one_value(depth: int) -> None:
    assert fits(nested(depth - 2, "allOf"), "1", Limits(depth=depth))
    with pytest.raises(LimitExceeded, match="the chain of schemas for the value at /allOf/0") as caught:
        fits(nested(depth + 2, "allOf"), "1", Limits(depth=depth))
    assert (caught.value.limit, caught.value.maximum) == ("depth", depth)


def test_more_schemas_for_one_value_than_any_thread_can_take_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="fixed bound") as caught:
        fits(nested(400, "allOf"), "1", Limits(depth=1000))
    assert caught.value.is_fixed


def test_the_limit_of_depth_counts_nodes_of_rules() -> None:
    with pytest.raises(LimitExceeded, match=r"the rule '#' needs more than Limits.depth = 5"):
        fits({"pattern": "((((((((a))))))))b"}, "1", Limits(depth=5))


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"maxLength": 10**25}, "a repeat in the rule '#'"),
        ({"minLength": 3e6}, "a repeat in the rule '#'"),
        ({"maxItems": 10**25}, "a repeat in the rule '#: array 1'"),
        ({"type": "array", "items": {}, "minItems": 2_000_000}, "a repeat in the rule '#'"),
        ({"minProperties": 10**7}, "a list of members in the rule '#: object 1'"),
        ({"uniqueItems": True, "items": {"type": "string"}, "maxItems": 10**7}, "a list of members in the rule"),
    ],
)
def test_counts_past_the_limit_are_refused(schema: Any, what: str) -> None:
    with pytest.raises(LimitExceeded, match=r"needs more than Limits\.repeat = 1000000") as caught:
        fits(schema, "1")
    assert caught.value.what.startswith(what)


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ({"a": 1}, InvalidSchema, "no key is a JSON Schema keyword"),
        ({"type": 2.5}, InvalidSchema, r"Decimal\('2.5'\) is not a JSON type"),
        ({"type": [[]]}, InvalidSchema, r"\[\] is not a JSON type"),
        ({"prefixItems": [1]}, InvalidSchema, r"at /prefixItems/0: expected a schema .* found 1"),
        ({"minItems": {"a": [1, 2]}}, InvalidSchema, r'`minItems` is {"a": \[1, 2\]}; give a whole number from 0'),
        ({"maximum": "x" * 99}, InvalidSchema, r'`maximum` is "x{36}\.\.\.; give a number'),
        ({"$schema": 1}, InvalidSchema, "`\\$schema` is 1; give a URI"),
        ({"$schema": "https://example.com"}, UnsupportedSchema, "unknown dialect 'https://example.com'; use one of"),
        ({"items": [{}], "$ref": "#/items/-1"}, InvalidSchema, "the reference '#/items/-1' points at nothing"),
        ({"$ref": "#x"}, InvalidSchema, "nothing in the schema has the anchor of the reference '#x'"),
        ({"$ref": "#"}, InvalidSchema, "this schema refers to itself for the same value"),
        ({"$defs": {"a": None}, "$ref": "#/$defs/a"}, InvalidSchema, "found null"),
        ({"minimum": None}, InvalidSchema, "`minimum` is null; leave it out"),
    ],
)
def test_faults_are_sentences(schema: Any, error: type[FormatterError], message: str) -> None:
    with pytest.raises(error, match=message):
        fits(schema, "1")


def test_a_keyword_that_is_dropped_in_many_places_is_reported_for_each() -> None:
    schema = {"properties": {name: {"pattern": "("} for name in "abc"}}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert fits(schema, "1", on_unsupported="warn")
    places = sorted(str(each.message).split(" is not enforced")[0] for each in told)
    assert places == [f"`pattern` at /properties/{name}" for name in "abc"]


def test_what_holds_a_schema_in_another_format_is_warned_of_once() -> None:
    inner = formats.json_schema({"type": "string", "pattern": "("}, on_unsupported="warn")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Compiler(VOCABULARY, engine="native", cache_bytes=0).compile(formats.sequence("a ", inner))
    assert len(told) == 1
