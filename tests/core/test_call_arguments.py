"""Arguments of every kind in every layout: what is allowed is valid, what is valid can be written, and is read back."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from formatter_core import ChatAnswer, Layout, ToolCall, check, formats, parse
from formatter_core.errors import InvalidFormat

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: Schemas of one argument, `x`.
SCHEMAS: dict[str, Any] = {
    "text or a number": {"type": ["string", "integer"]},
    "text, a list or null": {
        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": "null"}]
    },
    "anything": {},
    "true": True,
    "a mixed enum": {"enum": ["a", "5", 5, True, None]},
    "any object": {"type": "object"},
    "an open object": {"type": "object", "additionalProperties": True},
    "a map of texts": {"type": "object", "additionalProperties": {"type": "string"}},
    "a list of anything": {"type": "array"},
    "one of two types": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "boolean"}]},
    "a reference": {"$ref": "#/$defs/either"},
    "all of": {"allOf": [{"type": "string"}, {"minLength": 2}, {"$ref": "#/$defs/either"}]},
    "text but": {"type": "string", "not": {"enum": ["a", "b"]}},
    "a condition": {"type": "string", "if": {"pattern": "^a"}, "then": {"minLength": 2}},
    "annotations": {
        "type": ["string", "null"],
        "deprecated": True,
        "readOnly": False,
        "example": "a",
        "x-order": 3,
        "_format": "uri",
        "contentEncoding": "base64",
    },
    "objects": {
        "type": "array",
        "items": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
            ]
        },
    },
}
VALUES: list[Any] = [
    "a",
    "ab",
    "abcd",
    "",
    "5",
    " 5",
    "-1.5",
    "1e5",
    "2024-01-02",
    "null",
    "None",
    "true",
    "[1]",
    '{"k": 1}',
    '"q"',
    "x y",
    "b",
    5,
    -1.5,
    0,
    True,
    False,
    None,
    [],
    ["a"],
    ["a", "5"],
    [1, None],
    [[]],
    {},
    {"k": "v"},
    {"k": 5},
    {"k": {"m": []}},
    [{"id": "a"}],
    [{"n": 5}],
    [{"id": "a", "n": 5}],
    [{}],
]
#: Texts that a reader may take for a value of another type.
LOOKS_LIKE = re.compile(
    r"""\s*([+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?|true|false|null|none|[\[{"].*)\s*""", re.I | re.S
)
DEFINITIONS = {"either": {"type": ["string", "null"]}}


def tool(parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@cache
def validator_of(name: str) -> tuple[Draft202012Validator, list[bool]]:
    """Return the validator of a schema, and whether each value is valid."""
    validator = Draft202012Validator({"allOf": [SCHEMAS[name]], "$defs": DEFINITIONS})
    return validator, [validator.is_valid(value) for value in VALUES]


def is_exact(layout: Layout) -> bool:
    """Tell whether the layout writes texts differently from other values."""
    assert layout.calls is not None
    return (
        any(getattr(piece, "kind", None) == "json" for piece in layout.calls.templates[0])
        or layout.calls.values not in ("plain", "xml")
        or layout.calls.text_parameter != layout.calls.json_parameter
    )


@pytest.mark.parametrize("layout", Layout.names())
def test_what_is_valid_is_read_back_and_nothing_else_is_allowed(layout: str) -> None:
    for name in SCHEMAS:
        check_values(Layout.named(layout), name)


def check_values(known: Layout, name: str) -> None:
    """Check that each value that follows a schema is read back from its call, and that no other value fits."""
    parameters = {"type": "object", "properties": {"x": SCHEMAS[name]}, "required": ["x"], "$defs": DEFINITIONS}
    format = formats.chat_answer(known, tools=[tool(parameters)], tool_choice="required")
    validator, are_valid = validator_of(name)
    assert known.calls is not None
    for value, is_valid in zip(VALUES, are_valid, strict=True):
        if known.calls.strips and isinstance(value, str) and value != value.strip():
            continue
        if known.calls.values == "xml" and value in ([], {}, [[]], [{}]):
            continue  # they are written as the text "" is
        text = known.render(ChatAnswer(tool_calls=(ToolCall("f", {"x": value}),)))
        result = parse(format, text)
        if known.calls.values == "xml" and isinstance(value, dict | list):  # what the schema does not name is JSON
            inside = [json.dumps(each) if isinstance(each, dict) else each for each in value]
            for written in (json.dumps(value), inside if isinstance(value, list) else value):
                if not result.is_complete:
                    text = known.render(ChatAnswer(tool_calls=(ToolCall("f", {"x": written}),)))
                    result = parse(format, text)
        if result.is_complete:
            (call,) = result.value.tool_calls
            assert validator.is_valid(call.arguments["x"]), text
            texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
            looks_like_other = any(map(LOOKS_LIKE.fullmatch, texts))
            if is_exact(known) or (is_valid and not looks_like_other):
                assert same(call.arguments, {"x": value}), text
        elif is_valid:
            assert isinstance(value, str), text
            assert not is_exact(known), text
            assert LOOKS_LIKE.fullmatch(value), text


def same(one: Any, two: Any) -> bool:
    """Tell whether two values are the same JSON: 1 is not True."""
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


#: Roots, arguments that they allow, arguments that they do not.
A, B = {"type": "string"}, {"type": "integer"}
ROOTS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    (
        {"allOf": [{"properties": {"a": A}}, {"properties": {"b": B}, "required": ["b"]}]},
        [{"b": 1}, {"a": "x", "b": 1}],
        [{"a": "x"}],
    ),
    (
        {"properties": {"a": A, "b": B}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": "x"}, {"b": 1}, {"a": "x", "b": 1}],
        [{}],
    ),
    (
        {"properties": {"a": A, "b": B}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": "x"}, {"b": 1}],
        [{}, {"a": "x", "b": 1}],
    ),
    (
        {"properties": {"a": A, "b": B}, "dependentRequired": {"a": ["b"]}},
        [{}, {"b": 1}, {"a": "x", "b": 1}],
        [{"a": "x"}],
    ),
    ({"$ref": "#/$defs/o", "$defs": {"o": {"properties": {"a": A}, "required": ["a"]}}}, [{"a": "x"}], [{}]),
    ({"properties": {"a": {}}, "patternProperties": {"^a": A}}, [{"a": "x"}, {}], [{"a": [1]}]),
    ({"properties": {"a": A, "b": B}, "propertyNames": {"enum": ["b"]}}, [{"b": 1}, {}], [{"a": "x"}]),
    ({"properties": {"a": A}, "maxProperties": 3, "minProperties": 1, "required": ["a"]}, [{"a": "x"}], [{}]),
    (
        {"properties": {"a": A}, "id": "x", "x-kind": 1, "components": {}, "example": {}, "nullable": True},
        [{}, {"a": "x"}],
        [{"a": 1.5}],
    ),
    ({"properties": {"a": A, "b": B}, "minProperties": 1}, [{"a": "x"}, {"b": 1}, {"a": "x", "b": 1}], [{}]),
    ({"properties": {"a": A, "b": B}, "maxProperties": 1}, [{"a": "x"}, {"b": 1}, {}], [{"a": "x", "b": 1}]),
    ({"required": ["c"], "additionalProperties": B}, [{"c": 5}], [{}, {"c": "x"}]),
]


@pytest.mark.parametrize(("root", "good", "bad"), ROOTS, ids=[json.dumps(root)[:60] for root, _, _ in ROOTS])
@pytest.mark.parametrize("layout", ["hermes", "qwen3-coder", "glm-4.5", "deepseek-v3.2", "gemma4", "llama4-pythonic"])
def test_arguments_that_depend_on_one_another(layout: str, root: Any, good: list[Any], bad: list[Any]) -> None:
    format = formats.chat_answer(layout, tools=[tool({"type": "object", **root})], tool_choice="required")
    validator = Draft202012Validator(root)
    for arguments in [*good, *bad]:
        text = Layout.named(layout).render(ChatAnswer(tool_calls=(ToolCall("f", arguments),)))
        result = parse(format, text)
        assert validator.is_valid(arguments) == (arguments in good)
        if arguments in good:
            assert result.value.tool_calls == (ToolCall("f", arguments),)
        elif result.is_complete:  # a number that is written as text is
            assert validator.is_valid(result.value.tool_calls[0].arguments), text
            assert not is_exact(Layout.named(layout))


@pytest.mark.parametrize(
    ("root", "keyword"),
    [
        ({"properties": {"a": A}, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, "if"),
        ({"properties": {"a": A, "b": B}, "minProperties": 2}, "minProperties"),
        ({"properties": {"a": A, "b": B, "c": A}, "maxProperties": 2}, "maxProperties"),
        ({"properties": {"a": A}, "not": {"required": ["a"]}}, "not"),
    ],
)
def test_what_cannot_be_said_of_separate_arguments_is_refused(root: Any, keyword: str) -> None:
    with pytest.raises(InvalidFormat, match=rf"'f'.*`{keyword}`"):
        check(formats.chat_answer("qwen3-coder", tools=[tool({"type": "object", **root})]))
