"""Options of JSON Schema, its formats as data, and what is dropped, annotated or left out under them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import (
    InvalidArgument,
    InvalidFormat,
    InvalidSchema,
    UnsupportedSchema,
)
from formatter_core.formats.json_schema import SchemaWarning, from_json, json_schema
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.schema import Whitespace

from .schema_judge import Judge

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

A, B = {"type": "integer"}, {"type": "string"}
AB = {"type": "object", "properties": {"a": A, "b": B}, "required": ["a"], "additionalProperties": False}


@pytest.mark.contract("JSON Schema: on_unsupported")
def test_dropping_instead_of_refusing_gives_a_superset_and_says_so() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": ["integer", "array"]}, "uniqueItems": True}
    schema["not"] = {"pattern": TWICE}
    with pytest.warns(SchemaWarning) as told:
        judge = Judge(schema, on_unsupported="warn")
    assert judge.accepts("[1, 1]")
    assert not judge.accepts('["x"]')
    said = {str(each.message).split(" is not enforced")[0] for each in told}
    assert said == {"`uniqueItems` at the root", "`not` at the root"}


@pytest.mark.contract("JSON Schema: string_formats")
def test_formats_as_annotations() -> None:
    assert Judge({"type": "string", "format": "date"}, string_formats="annotate").accepts('"soon"')


@pytest.mark.contract("JSON Schema: registry")
def test_references_into_a_registry() -> None:
    registry = {"http://x.test/int": {"type": "integer"}}
    judge = Judge({"items": {"$ref": "http://x.test/int"}, "type": "array"}, registry=registry)
    assert judge.accepts("[1]")
    assert not judge.accepts('["x"]')


@pytest.mark.contract("JSON Schema: key_order")
def test_free_key_order() -> None:
    judge = Judge({**AB, "properties": {**AB["properties"], "c": A}}, key_order="any")  # type: ignore[dict-item]
    for text in ('{"b": "x", "a": 1}', '{"c": 1, "a": 1, "b": "x"}', '{"a": 1}'):
        assert judge.accepts(text)
    for text in ("{}", '{"b": "x"}', '{"a": 1, "a": 1}', '{"a": 1, "d": 1}'):
        assert not judge.accepts(text)


@pytest.mark.contract("JSON Schema: key_order")
def test_own_properties_come_first_and_then_what_the_walk_adds() -> None:
    schema = {
        "type": "object",
        "allOf": [{"properties": {"a": {}}}, {"$ref": "#/$defs/b"}],
        "required": ["d"],
        "properties": {"c": {}},
        "$defs": {"b": {"properties": {"b": {}}}},
    }
    judge = Judge(schema)
    assert judge.accepts('{"c": 1, "a": 1, "b": 1, "d": 1, "e": 1}')
    assert not judge.accepts('{"a": 1, "c": 1, "d": 1}')
    assert not judge.accepts('{"e": 1, "d": 1}')


@pytest.mark.parametrize("option", ["spelling", "whitespace", "key_order", "string_formats", "on_unsupported"])
def test_unknown_options(option: str) -> None:
    with pytest.raises(InvalidArgument):
        json_schema({}, **{option: "nonsense"})


@pytest.mark.contract("JSON Schema: whitespace")
def test_whitespace() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    value = {"a": [1, {"b": 2}]}
    pretty, default, tight = json.dumps(value, indent=4), json.dumps(value), json.dumps(value, separators=(",", ":"))
    flexible, compact, exact = (
        Judge(schema, whitespace=choice)
        for choice in ("flexible", "compact", Whitespace(comma=", ", colon=": ", spaces=0, lines=False))
    )
    assert [flexible.accepts(text) for text in (pretty, default, tight)] == [True, True, True]
    assert [compact.accepts(text) for text in (pretty, default, tight)] == [False, False, True]
    assert [exact.accepts(text) for text in (pretty, default, tight)] == [False, True, False]
    for text in (
        " {}",
        "{} ",
        '{"a":\t[]}',
        '{"a":  []}',
        "{\n" + " " * 5 + "}",
        "{\r\n}",
        '{"a" :[]}',
        '{"a":[1 ,2]}',
    ):
        assert not flexible.accepts(text)
    assert flexible.accepts("{\n" + " " * 4 + "}")
    everywhere = Judge(schema, spelling="any")
    for text in ("{\n" + " " * 64 + "}", '{"a"\n :\n[1 , 2]}'):
        assert everywhere.accepts(text)
        assert Judge(schema, whitespace=Whitespace()).accepts(text)
    assert not everywhere.accepts("{\n" + " " * 65 + "}")


def test_coverage_tells_what_became_of_each_keyword() -> None:
    schema = {
        "title": "T",
        "requierd": ["a"],
        "nullable": True,
        "properties": {"a": {"type": "string", "format": "slug"}, "b/c": {"type": "array", "uniqueItems": True}},
    }
    coverage = json_schema(schema).coverage()
    found = {(entry.pointer, entry.keyword): entry for entry in coverage.entries}
    assert {key: entry.status for key, entry in found.items()} == {
        ("", "title"): "annotation",
        ("", "requierd"): "unknown",
        ("", "nullable"): "unknown",
        ("", "properties"): "enforced",
        ("/properties/a", "type"): "enforced",
        ("/properties/a", "format"): "annotation",
        ("/properties/b~1c", "type"): "enforced",
        ("/properties/b~1c", "uniqueItems"): "refused",
    }
    assert "required" in found["", "requierd"].reason
    assert "OpenAPI" in found["", "nullable"].reason
    assert '"null"' in found["", "nullable"].reason
    assert coverage.with_status("refused") == (found["/properties/b~1c", "uniqueItems"],)
    assert len(str(coverage).splitlines()) == 1 + len(coverage.entries)


def test_coverage_of_an_older_draft() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1, "items": {"$ref": "#", "type": "null"}}
    statuses = {(entry.pointer, entry.keyword): entry.status for entry in json_schema(schema).coverage().entries}
    assert statuses["", "const"] == "unknown"
    assert statuses["/items", "type"] == "annotation"
    assert statuses["/items", "$ref"] == "enforced"


def test_dropped_keywords_are_warned_about() -> None:
    made = json_schema({"type": "array", "uniqueItems": True}, on_unsupported="warn")
    with pytest.warns(SchemaWarning, match="uniqueItems"):
        made.to_grammar(DEFAULT_LIMITS).grammar.check(DEFAULT_LIMITS)
    assert [entry.keyword for entry in made.coverage().with_status("refused")] == ["uniqueItems"]


def test_the_format_goes_to_json_and_back() -> None:
    made = json_schema({"type": "number", "minimum": 0.1}, whitespace=Whitespace(comma=", "), registry={"x:y": True})
    assert from_json(json.loads(json.dumps(made.to_json()))) == made
    assert (
        made.key()
        == json_schema(
            '{"type": "number", "minimum": 0.1}', whitespace=Whitespace(comma=", "), registry={"x:y": True}
        ).key()
    )
    for fault in (3, None, [1]):
        with pytest.raises(InvalidFormat):
            json_schema(fault)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ['{"const": 0.0}', '{"enum": [1, true, 1.0, 1E2]}', '{"const": 0.1000000000000000000001}', '{"const": 1e999}'],
)
def test_json_keeps_every_digit(text: str) -> None:
    made = json_schema(text)
    again = from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert hash(again) == hash(made)


def test_a_schema_is_data_in_json() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 0.5}}}
    assert json_schema(schema, registry={"x:y": schema}).to_json()["schema"] == schema
    assert json_schema(True, registry={"x:y": schema}).to_json()["registry"] == {"x:y": schema}


def test_later_changes_of_a_dict_do_not_reach_the_format() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    made = json_schema(schema)
    key = made.key()
    schema["properties"]["a"]["type"] = "string"
    assert made.key() == key != json_schema(schema).key()


def test_order_and_kind_make_another_format() -> None:
    assert json_schema({"const": 1}) != json_schema({"const": True})
    assert json_schema({"properties": {"a": A, "b": A}}) != json_schema({"properties": {"b": A, "a": A}})


def test_data_that_json_does_not_have() -> None:
    for fault in ({"const": {1}}, {"const": float("inf")}, {"const": {2: 1}}, {"const": b"a"}, {"const": 10**4000}):
        with pytest.raises(InvalidSchema):
            json_schema(fault)
    with pytest.raises(InvalidSchema):
        json_schema({"minimum": float("nan")})


TWICE = "(a)\\1"


@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [
        ({"not": {"properties": {"a": {"pattern": TWICE}}}}, ['{"a": "("}', '{"a": 1}', "{}"], []),
        ({"type": "string", "pattern": TWICE, "maxLength": 2}, ['"("'], ['"abc"']),
        ({"oneOf": [{"pattern": TWICE}, {"type": "integer"}], "maximum": 3}, ["3", '"("'], ["4"]),
        ({"properties": {"a": {"$ref": "#/$defs/r"}, "b": {"not": {"$ref": "#/$defs/r"}}}, "type": "object",
          "$defs": {"r": {"pattern": TWICE, "type": "string"}}}, ['{"a": "(", "b": "x"}', '{"b": 1}'], ['{"a": 1}']),
    ],
)  # fmt: skip
def test_dropping_never_narrows(schema: object, kept: list[str], lost: list[str]) -> None:
    judge = Judge(schema, on_unsupported="warn")
    assert [text for text in kept if not judge.accepts(text)] == []
    assert [text for text in lost if judge.accepts(text)] == []


HOST: dict[str, Any] = {"type": "string", "format": "hostname"}


@pytest.mark.parametrize(
    ("schema", "kept", "lost"),
    [
        (HOST, ["a", "a-1.b", "x" * 63, ".".join(["x" * 60] * 4)], ["", "-a", "a-", "a..b", "a_b", "x" * 64, "é"]),
        (HOST, ["xn.a--b.c"], [".".join(["x" * 63] * 4), "xn--a", "a.xn--4gbwdl", "ab--c"]),  # or left out
        ({**HOST, "enum": ["a.b", "_"]}, ["a.b"], ["_"]),
        ({**HOST, "minLength": 3, "pattern": "x$"}, ["a.x"], ["x", "abc"]),
        ({"anyOf": [HOST, {"type": "string", "format": "ipv6"}]}, ["a.b", "::1"], ["::g"]),
        ({"oneOf": [HOST, {"type": "integer"}]}, ["a"], ["_"]),
    ],
)
def test_host_names(schema: object, kept: list[str], lost: list[str]) -> None:
    judge = Judge(schema)
    assert [text for text in kept if not judge.accepts(json.dumps(text))] == []
    assert [text for text in lost if judge.accepts(json.dumps(text))] == []


def test_the_names_of_properties_are_host_names() -> None:
    judge = Judge({"type": "object", "propertyNames": {"format": "hostname"}})
    assert judge.accepts('{"a.b": 1, "c": 2}')
    assert not judge.accepts('{"a.b": 1, "_": 2}')
    assert not judge.accepts('{"a.b": 1, "xn--a": 2}')


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"not": HOST}, "/not"),
        ({"oneOf": [HOST, {"minLength": 2}]}, "/oneOf/0"),
        ({"oneOf": [HOST, {"const": "xn--a"}]}, "/oneOf/0"),
        ({**HOST, "enum": ["a", "xn--a"]}, ""),
        ({"properties": {"a": {"not": {"$ref": "#/$defs/h"}}}, "$defs": {"h": HOST}}, "/$defs/h"),
        ({"type": "object", "if": {"properties": {"a": HOST}, "required": ["a"]}, "then": False}, "/if/properties/a"),
        ({"type": "array", "contains": HOST, "maxContains": 1}, "/contains"),
        ({"propertyNames": {"format": "hostname"}, "properties": {"xn--a": True}}, "/propertyNames"),
    ],
)
def test_where_it_matters_which_host_names_are_left_out_they_are_refused(schema: object, pointer: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        Compiler(Vocabulary.of_bytes()).compile(json_schema(schema))
    assert (caught.value.pointer, caught.value.keyword) == (pointer, "format")


def test_the_coverage_says_which_host_names_are_left_out() -> None:
    (entry,) = (entry for entry in json_schema(HOST).coverage().entries if entry.keyword == "format")
    assert entry.status == "enforced"
    assert "Punycode" in entry.reason


DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


@pytest.mark.parametrize("draft", DIALECTS)
@pytest.mark.parametrize(
    "name",
    [
        *("date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uri-template", "json-pointer"),
        *("date", "time", "idn-email", "iri", "iri-reference", "relative-json-pointer", "duration", "uuid"),
    ],
)
def test_a_format_is_enforced_in_every_draft_whichever_defined_it(draft: int, name: str) -> None:
    wrong = '"{ {"'  # in no format
    schema = {"$schema": DIALECTS[draft], "type": "string", "format": name}
    compiled = Compiler(Vocabulary([b'"', b"</s>"], [1])).compile(json_schema(schema))
    assert not compiled.parse(wrong).is_complete
