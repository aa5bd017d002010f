"""Arguments as layouts write them that write no JSON: Python's literals, and text between markers."""

from __future__ import annotations

import ast
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import ChatAnswer, Layout, ToolCall, formats, parse
from formatter_core.errors import InvalidFormat

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "flag": st.booleans() | st.none(),
        "list": st.lists(TEXTS | st.none() | st.booleans(), max_size=3),
        "number": st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda number: round(number, 3) + 0.0),
        "nested": st.fixed_dictionaries({"Text": TEXTS}, optional={"count": st.integers(-9, 9)}),
        "text": TEXTS,
    },
)
PROPERTIES = {
    "flag": {"type": ["boolean", "null"]},
    "list": {"type": "array", "items": {"type": ["string", "null", "boolean"]}},
    "nested": {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "Text": {"type": "string"}},
        "required": ["Text"],
        "additionalProperties": False,
    },
    "number": {"type": "number"},
    "text": {"type": "string"},
}


def tool(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


def in_order(value: Any) -> Any:
    """The value with its keys in the order of the schema, which layouts follow."""
    order = [*PROPERTIES, "count", "Text"]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=order.index)}
    return value


def read(layout: str, written: str, properties: dict[str, Any]) -> Any:
    """The arguments of a text with one call; None where it does not match."""
    result = parse(formats.chat_answer(layout, tools=[tool(properties)]), written)
    return result.value.tool_calls[0].arguments if result.is_complete and result.value.tool_calls else None


@pytest.mark.parametrize(
    "layout", ["llama4-pythonic", "gemma4", "lfm2", "lfm2.5", "olmo-3", "kimi-k3", "deepseek-v4.1"]
)
@settings(max_examples=40)
@given(arguments=VALUES)
def test_what_is_written_is_read(layout: str, arguments: dict[str, Any]) -> None:
    answer = ChatAnswer(tool_calls=(ToolCall("f", in_order(arguments)),))
    text = Layout.named(layout).render(answer)
    assert read(layout, text, PROPERTIES) == arguments, text


BY_THEMSELVES = [
    "gemma4", "glm-4.5", "hy3", "kimi-k3", "lfm2.5", "ling-3", "llama4-pythonic", "minicpm5", "minimax-m2",
    "minimax-m3", "nemotron-3", "olmo-3", "qwen3-coder", "qwen3.5", "seed-oss", "step-3.5",
]  # fmt: skip


@pytest.mark.parametrize("layout", BY_THEMSELVES)
def test_arguments_come_in_any_order(layout: str) -> None:
    names = [f"p{index}" for index in range(40)]
    properties = {name: {"type": "integer"} for name in names}
    random.Random(layout).shuffle(names)
    arguments = {name: index for index, name in enumerate(names)}
    written = Layout.named(layout).render(ChatAnswer(tool_calls=(ToolCall("f", arguments),)))
    format = formats.chat_answer(layout, tools=[tool(properties, "p3", "p30")])
    assert parse(format, written).value.tool_calls[0].arguments == arguments
    for fewer in ({"p3": 1}, {"p30": 1, "p4": 2}):
        written = Layout.named(layout).render(ChatAnswer(tool_calls=(ToolCall("f", fewer),)))
        result = parse(format, written)
        assert not (result.is_complete and result.value.tool_calls)


@given(arguments=VALUES)
def test_python_reads_pythonic_calls_as_we_do(arguments: dict[str, Any]) -> None:
    text = Layout.named("llama4-pythonic").render(ChatAnswer(tool_calls=(ToolCall("f", in_order(arguments)),)))
    (call,) = ast.parse(text, mode="eval").body.elts  # type: ignore[attr-defined]
    assert {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords} == arguments


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("True", True),
        ("None", None),
        ("true", "no match"),
        ('"a\\n\\u00e9"', "a\né"),
        ('"\\\\/"', "\\/"),
        ('"\\/"', "no match"),  # Python keeps the backslash
        ('"\\ud83d\\ude00"', "no match"),  # Python joins no surrogates
        ("'a'", "no match"),
        ("[True, None]", [True, None]),
    ],
)
def test_literals_of_python(written: str, value: Any) -> None:
    schema = {"type": ["string", "boolean", "null", "array"], "items": {"type": ["boolean", "null"]}}
    found = read("llama4-pythonic", f"[f(a={written})]", {"a": schema})
    assert found == (None if value == "no match" else {"a": value})


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('<|"|>it\'s {x:1}, "y"<|"|>', 'it\'s {x:1}, "y"'),
        ('<|"|><|"|>', ""),
        ("5", 5),
        ("[1,2]", [1, 2]),
        ('[<|"|>a<|"|>,1]', "no match"),
        ("[1, 2]", "no match"),
        ("text", "no match"),
        ('<|"|><tool_call|><|"|>', "no match"),
    ],
)
def test_text_between_markers(written: str, value: Any) -> None:
    schema = {"type": ["string", "integer", "array"], "items": {"type": "integer"}}
    found = read("gemma4", f"<|tool_call>call:f{{a:{written}}}<tool_call|>", {"a": schema})
    assert found == (None if value == "no match" else {"a": value})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "uniqueItems"),
        ({"enum": [[1], 2]}, "enum"),
        ({"type": "object", "properties": {"a-b": {"type": "null"}}}, "without quotes"),
    ],
)
def test_what_delimited_values_cannot_say_is_refused_by_name(schema: Any, reason: str) -> None:
    format = formats.chat_answer("gemma4", tools=[tool({"a": schema})])
    with pytest.raises(InvalidFormat) as caught:
        parse(format, "x")
    assert reason in str(caught.value)
    assert "'f'" in str(caught.value)


def test_text_does_not_begin_as_a_pythonic_call_does() -> None:
    format = formats.chat_answer("llama4-pythonic", tools=[tool(PROPERTIES)])
    assert parse(format, "[1, 2] is a list").value == ChatAnswer(None, "[1, 2] is a list")
    assert not parse(format, "[f(x").is_complete


def test_many_optional_arguments_are_not_multiplied() -> None:
    properties = {f"p{index:03}": {"type": "integer"} for index in range(150)}
    written = ", ".join(f"p{index:03}={index}" for index in range(0, 150, 7))
    assert len(read("llama4-pythonic", f"[f({written})]", properties)) == 22
