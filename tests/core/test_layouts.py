"""Single layouts differ from the rest in regions, ids, types, elements, and ends of turns."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatter_core import ChatAnswer, ChatDeltas, Compiler, Layout, ToolCall, Vocabulary, formats, parse
from formatter_core.errors import InvalidFormat
from formatter_core.formats.openai_request import requested_format

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": CITY}}
CALL = ToolCall("f", {"city": "Rome"})
COMPILER = Compiler(Vocabulary.of_bytes())
OPEN, CLOSE, SEP, NS = "<|open|>", "<|close|>", "<|sep|>", "]<]minimax[>["


def read(layout: str, text: str, prompt: str = "", **options: Any) -> Any:
    """The answer of a text after a prompt; None if it does not match."""
    result = parse(formats.chat_answer(layout, tools=[TOOL], **options).after(prompt), text)
    return result.value if result.is_complete else None


def arguments(layout: str, schema: Any, written: str) -> Any:
    """The argument `a` of a schema in a call that is written so; "no match" if it does not match."""
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    result = parse(formats.chat_answer(layout, tools=[tool]), written)
    return result.value.tool_calls[0].arguments["a"] if result.is_complete and result.value.tool_calls else "no match"


HARMONY_CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"city": "Rome"}'
THINKS, SAYS = "<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"
NEXT = "<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"{SAYS}I look.{NEXT}{HARMONY_CALL}", ChatAnswer(None, "I look.", (CALL,))),
        (f"{THINKS}Hm.{NEXT}{SAYS}I look.{NEXT}{HARMONY_CALL}", ChatAnswer("Hm.", "I look.", (CALL,))),
        (f"{THINKS}Hm.{NEXT}{THINKS}So.{NEXT}{HARMONY_CALL}", ChatAnswer("Hm.\nSo.", None, (CALL,))),
        (f"{THINKS}Hm.{NEXT}{THINKS}So.{NEXT}<|channel|>final<|message|>Yes.", ChatAnswer("Hm.\nSo.", "Yes.")),
        (f"{SAYS}I look.", None),
        (f"{SAYS}I look.{NEXT}<|channel|>final<|message|>Yes.", None),
    ],
)
def test_preambles_and_several_thoughts_of_harmony(text: str, answer: ChatAnswer | None) -> None:
    assert read("harmony", text) == answer
    if answer is not None:
        formatter, stream, thoughts = (
            COMPILER.compile(formats.chat_answer("harmony", tools=[TOOL])).formatter(),
            ChatDeltas(),
            "",
        )
        for token in [*text.encode(), 256]:
            formatter.accept_token(token)
            thoughts += "".join(delta.get("reasoning_content", "") for delta in stream.of(formatter.events()))
        assert thoughts == (answer.reasoning or "")


@pytest.mark.parametrize(
    ("layout", "prompt", "text", "answer"),
    [
        ("qwen3.5", "<think>\n", "Hm.\n</think>\n\nYes.", ChatAnswer("Hm.", "Yes.")),
        ("qwen3.5", "<think>\n", "</think>\n\nYes.", ChatAnswer(None, "Yes.")),
        ("qwen3.5", "<think>\n", "\n</think>\n\nYes.", ChatAnswer(None, "Yes.")),
        ("qwen3.5", "<think>\n\n</think>\n\n", "Yes.", ChatAnswer(None, "Yes.")),
        ("qwen3.5", "<think>\n\n</think>", "\n\nYes.", ChatAnswer(None, "Yes.")),
        ("qwen3.5", "", "</think>\n\nYes.", None),
        ("glm-4.7", "<|assistant|></think>", "Yes.", ChatAnswer(None, "Yes.")),
        ("glm-4.7", "<|assistant|></think>", "<think>Hm.</think>Yes.", None),
        ("glm-4.7", "<|assistant|>", "</think>Yes.", ChatAnswer(None, "Yes.")),
        ("glm-4.7", "<|assistant|><think>", "</think>Yes.", ChatAnswer(None, "Yes.")),
        ("gemma4", "", "<|channel>thought\n<channel|>Yes.", ChatAnswer(None, "Yes.")),
        ("gemma4", "", "<|channel>thought\nHm.\n<channel|>Yes.", ChatAnswer("Hm.", "Yes.")),
        ("step-3.5", "<think>\n", "Hm.\n</think>\nYes.", ChatAnswer("Hm.", "Yes.")),
        ("granite-3.3", "", "<think>Hm.</think><response>Yes.</response>", ChatAnswer("Hm.", "Yes.")),
        ("granite-3.3", "", "Yes.", ChatAnswer(None, "Yes.")),
        ("reka-edge", "assistant:", " Yes.", ChatAnswer(None, "Yes.")),
        ("reka-edge", "assistant:", "Yes.", None),
        ("reka-edge", "assistant: ", "Yes.", ChatAnswer(None, "Yes.")),
        ("reka-edge", "assistant: <think>\n", "Hm.\n</think>\n\nYes.", ChatAnswer("Hm.", "Yes.")),
    ],
)
def test_where_reasoning_ends(layout: str, prompt: str, text: str, answer: ChatAnswer | None) -> None:
    assert read(layout, text, prompt) == answer


@pytest.mark.parametrize(
    ("prompt", "text", "fits"),
    [
        ("<think>\n", "Hm.\n</think>\n\nYes.", True),
        ("<think>\n\n</think>\n\n", "Yes.", True),
        ("<think>\n\n</think>\n\n", "<think>\nHm.\n</think>\n\nYes.", False),
        ("<think>\n\n</think>", "\n\nYes.", True),
    ],
)
def test_requests_to_servers_know_what_the_prompt_says_of_reasoning(prompt: str, text: str, fits: bool) -> None:
    request = {"tools": [TOOL]}
    format = requested_format(request, Layout.named("qwen3"), prompt=f"<|im_start|>assistant\n{prompt}")
    assert parse(format, text).is_complete == fits


def test_calls_that_some_turns_leave_open() -> None:
    whole = Layout.named("deepseek-r1").render(ChatAnswer(tool_calls=(CALL,)))
    assert read("deepseek-r1", whole).tool_calls == (CALL,)
    assert read("deepseek-r1", whole.removesuffix("<｜tool▁calls▁end｜>")).tool_calls == (CALL,)
    assert read("deepseek-v3", whole.removesuffix("<｜tool▁calls▁end｜>")) is None


@pytest.mark.parametrize(
    ("layout", "call_id", "fits"),
    [
        ("mistral-small-3.2", "a1B2c3D4e", True),
        ("mistral-small-3.2", "a1B2c3D4", False),
        ("mistral-small-3.2", "a1B2c3D4e5", False),
        ("mistral-small-3.2", "a1B2c3D4-", False),
        ("mistral-nemo", "123456789", True),
        ("mistral-nemo", "", False),
        ("solar-open", "call_1-x", True),
        ("solar-open", "", False),
        ("solar-open", "a b", False),
    ],
)
def test_ids(layout: str, call_id: str, fits: bool) -> None:
    text = Layout.named(layout).render(ChatAnswer(tool_calls=(CALL,)))
    assert "call00001" in text
    assert (read(layout, text.replace("call00001", call_id)) is not None) == fits


def test_numbers_of_calls_begin_where_the_model_begins() -> None:
    two = ChatAnswer(tool_calls=(CALL, CALL))
    assert [f'index="{number}"' in Layout.named("kimi-k3").render(two) for number in (0, 1, 2)] == [False, True, True]
    assert '"tool_call_id": "0"' in Layout.named("command-r7b").render(two)


@pytest.mark.parametrize(
    ("kind", "value", "read_as"),
    [
        ("string", "5", "5"),
        ("number", "5", 5),
        ("string", "null", "null"),
        ("null", "null", None),
        ("boolean", "true", True),
        ("array", "[1]", "no match"),
        ("number", "true", "no match"),
        ("integer", "5", "no match"),
    ],
)
def test_a_type_tells_text_from_other_values(kind: str, value: str, read_as: Any) -> None:
    schema = {"type": ["string", "integer", "null", "boolean"]}
    argument = f'{OPEN}argument key="a" type="{kind}"{SEP}{value}{CLOSE}argument{SEP}'
    call = f'{OPEN}call tool="f" index="1"{SEP}{argument}{CLOSE}call{SEP}'
    text = f"{OPEN}response{SEP}{CLOSE}response{SEP}{OPEN}tools{SEP}{call}{CLOSE}tools{SEP}"
    assert arguments("kimi-k3", schema, text) == read_as
    assert arguments("kimi-k3", schema, f"{text}{CLOSE}message{SEP}") == read_as


ORDER = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}},
            "maxItems": 2,
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["items"],
}


def element(name: str, *inside: str) -> str:
    return f"{NS}<{name}>{''.join(inside)}{NS}</{name}>"


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        (ORDER, element("items"), {"items": []}),
        (ORDER, element("items", element("item", element("n", "5"), element("sku", "5"))),
         {"items": [{"n": 5, "sku": "5"}]}),
        (ORDER, element("note", "null") + element("items", element("item")), {"note": None, "items": [{}]}),
        (ORDER, element("note", " a\n") + element("items"), {"note": " a\n", "items": []}),
        (ORDER, element("note", "x"), "no match"),
        (ORDER, element("items", element("sku", "x")), "no match"),
        (ORDER, element("items", element("item"), element("item"), element("item")), "no match"),
        (ORDER, element("items", element("item", element("n", "x"))), "no match"),
        ({"type": "object"}, '{"any": [1, "two"]}', {"any": [1, "two"]}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"any": 1}', {"any": 1}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"any": "1"}', "no match"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 1]", "no match"),
        ({}, "5", 5),
        ({}, "five", "five"),
        ({"type": "object", "properties": {"content": {"type": "string"}}}, element("content", "x"), {"content": "x"}),
    ],
)  # fmt: skip
def test_elements_inside_elements(schema: Any, written: str, value: Any) -> None:
    call = f'{NS}<tool_call>\n{NS}<invoke name="f">{element("a", written)}{NS}</invoke>\n{NS}</tool_call>'
    assert arguments("minimax-m3", schema, call) == value


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_quoted_text_is_what_python_reads(text: str) -> None:
    rendered = Layout.named("lfm2.5").render(ChatAnswer(tool_calls=(ToolCall("f", {"city": text}),)))
    assert read("lfm2.5", rendered).tool_calls[0].arguments == {"city": text}
    source = rendered.removeprefix("<|tool_call_start|>").removesuffix("<|tool_call_end|>")
    (call,) = ast.parse(source, mode="eval").body.elts  # type: ignore[attr-defined]
    assert ast.literal_eval(call.keywords[0].value) == text


@pytest.mark.parametrize(
    ("pattern", "written", "fits"),
    [
        ("^[a-z']+$", r"it\'s", True),
        ("^[a-z]+$", r"it\'s", False),
        ("^[^x]*$", r"a\\b", True),
        ("^[^\\\\]*$", r"a\\b", False),
        ("^[^x]*$", r"a\nb", True),
        ("^[^x]*$", "a\nb", False),
        ("^[^x]*$", r"\x41", False),
    ],
)
def test_patterns_hold_of_what_the_quotes_mean(pattern: str, written: str, fits: bool) -> None:
    text = f"<|tool_call_start|>[f(a='{written}')]<|tool_call_end|>"
    found = arguments("lfm2.5", {"type": "string", "pattern": pattern}, text)
    assert (found != "no match") == fits
    assert not fits or found == ast.literal_eval(f"'{written}'")


def test_calls_of_one_line_where_readers_split_at_lines() -> None:
    schema = {"type": ["object", "boolean", "null"]}
    for value, fits in (('{"k": 1}', True), ('{\n"k": 1}', False), ("true", True), ("True", False), ("null", True)):
        text = f"<function_calls>f(a={value})</function_calls>"
        assert (arguments("olmo-3", schema, text) != "no match") == fits


@pytest.mark.parametrize(
    ("layout", "field", "value"),
    [
        ("hermes", "calls", {"templates": [[{"slot": "json"}]]}),
        ("hermes", "calls", {"templates": [[{"slot": "name"}, {"slot": "parameters"}]]}),
        ("hermes", "calls", {"templates": [[{"slot": "name"}, {"slot": "json"}]], "more": 1}),
        ("hermes", "calls", {"templates": [[{"slot": "name"}, {"slot": "json"}]], "values": "yaml"}),
        ("hermes", "calls", {"templates": [[{"slot": "name"}, {"slot": "json"}]], "preamble": 5}),
        ("qwen3", "reasoning", {"open": 5}),
        ("qwen3", "end", 5),
    ],
)
def test_data_that_is_no_layout(layout: str, field: str, value: Any) -> None:
    data = {**Layout.named(layout).to_json(), field: value}
    with pytest.raises(InvalidFormat):
        Layout.from_json(json.loads(json.dumps(data)))
