"""Layouts that checkpoints describe by a `response_template`: learnt from it and from the chat template."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from formatter_core import ChatAnswer, Layout, ToolCall, formats, parse
from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.response_template import layout_data

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
ANSWERS = [
    ChatAnswer(None, "Some text."),
    ChatAnswer("Think first.", "Some text."),
    ChatAnswer(None, None, (ToolCall("get_weather", {"city": "Rome", "days": 2}),)),
    ChatAnswer("Think.", None, (ToolCall("get_weather", {"city": "Oslo"}),)),
]
PARALLEL = ChatAnswer(None, None, (ToolCall("get_weather", {"city": "A"}), ToolCall("get_weather", {"days": 7})))

Turn = Callable[[str, str, list[tuple[str, dict[str, Any]]]], str]


class Checkpoint:
    """A tokenizer with a chat template, written as a function of thought, text and calls, and a response template."""

    def __init__(self, start: str, turn: Turn, template: dict[str, Any]) -> None:
        self._start, self._turn = start, turn
        self.response_template = template

    def written(self, message: dict[str, Any]) -> str:
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
        return self._turn(message.get("reasoning_content", ""), message["content"], calls)

    def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        whole = "".join(
            self._start + self.written(each) if each["role"] == "assistant" else f"<|im_start|>user\n{each['content']}"
            for each in messages
        )
        return whole + (self._start if options["add_generation_prompt"] else "")


def json_turn(thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    written = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(given)}}}\n</tool_call>' for name, given in calls
    ]
    gap = "\n" if text and calls else ""
    return f"<think>\n{thought}\n</think>\n\n{text}{gap}" + "\n".join(written) + "<|im_end|>\n"


JSON_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*"},
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*"},
    },
}


def xml_turn(thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    written = ""
    for name, given in calls:
        arguments = "".join(f"<arg name={key}>{value}</arg>\n" for key, value in given.items())
        written += f"\n<call>\n<tool={name}>\n{arguments}</tool>\n</call>"
    return f"{f'<think>{thought}</think>' if thought else ''}{text}{written}"


XML_TEMPLATE: dict[str, Any] = {
    "start_anchor_pattern": r"<\|bot\|>",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"<call>\s*<tool=(?P<name>[^\n>]+)>",
            "close_pattern": r"</call>\s*",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<arg name=(?P<key>[^>]+)>(?P<value>.*?)</arg>"},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"<\|user\|>|$"},
    },
}


def channel_turn(thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    parts = [f"<|channel|>analysis<|message|>{thought}"] if thought else []
    if text:
        parts.append(f"<|channel|>final<|message|>{text}")
    parts += [f" to={name}:{index}<|message|>{json.dumps(given)}" for index, (name, given) in enumerate(calls)]
    return "<|end|><|start|>bot".join(parts) + ("<|call|>" if calls else "<|return|>")


CHANNEL_TEMPLATE: dict[str, Any] = {
    "start_anchor": "<|start|>bot",
    "fields": {
        "thinking": {"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
        "content": {"open": "<|channel|>final<|message|>", "close": "<|return|>"},
        "tool_calls": {
            "open_pattern": r"to=(?P<name>\w+):\d+<\|message\|>",
            "close": "<|call|>",
            "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
    },
}

CHECKPOINTS = {
    "json": Checkpoint("<|im_start|>assistant\n", json_turn, JSON_TEMPLATE),
    "xml": Checkpoint("<|bot|>", xml_turn, XML_TEMPLATE),
    "channels": Checkpoint("<|start|>bot", channel_turn, CHANNEL_TEMPLATE),
}
ENDS = ("<|im_end|>\n", "<|call|>", "<|return|>")


def changed(*path: str, **options: Any) -> dict[str, Any]:
    """The JSON template with some options of one place set."""
    template = copy.deepcopy(JSON_TEMPLATE)
    place: Any = template
    for key in path:
        place = place[key]
    place.update(options)
    return template


def without_empty_block(text: str) -> str:
    return text.removeprefix("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_what_the_chat_template_writes_is_read_as_it_was_meant(name: str) -> None:
    checkpoint = CHECKPOINTS[name]
    layout = Layout.from_tokenizer(checkpoint)
    assert layout.calls is not None
    format = formats.chat_answer(layout, tools=[TOOL])
    for answer in [*ANSWERS, *([PARALLEL] if layout.calls.parallel else [])]:
        calls = [(call.name, dict(call.arguments)) for call in answer.tool_calls]
        text = without_empty_block(checkpoint._turn(answer.reasoning or "", answer.content or "", calls))
        for end in ENDS:
            text = text.removesuffix(end)
        result = parse(format, text)
        assert result.is_complete, text
        assert result.value == answer, text
        assert layout.render(answer) == text


def test_a_learnt_layout_is_data() -> None:
    layout = Layout.from_tokenizer(CHECKPOINTS["xml"])
    assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout
    assert set(layout.markers) >= {"<think>", "</think>", "<call>", "</call>", "<tool=", "</tool>", "</arg>"}


def test_text_with_a_marker_that_readers_look_for_is_not_allowed() -> None:
    format = formats.chat_answer(Layout.from_tokenizer(CHECKPOINTS["json"]), tools=[TOOL])
    assert parse(format, "fine").is_complete
    for text in ("a <tool_call> b", "a <think> b", "a </think> b", "a <|im_end|> b"):
        assert not parse(format, text).is_complete, text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("text", "is not an object with fields"),
        ({"fields": {}}, "has no start_anchor"),
        (changed("fields", content={"close": 5}), "is malformed"),
        (changed("fields", content={"content_args": 5}), "is malformed"),
        (changed(version=2), "version 2"),
        (changed(more=1), "the key 'more'"),
        (changed("fields", citations={"open": "<c>"}), "the field 'citations'"),
        (changed("fields", "tool_calls", content="kv-lines"), "'kv-lines'"),
        (changed("fields", "tool_calls", content_args={"unquoted_keys": True}), "'unquoted_keys'"),
        (changed("fields", "tool_calls", transform_each=True), "'transform_each'"),
        (changed("fields", "tool_calls", colour="red"), "the option 'colour'"),
        (changed("fields", "tool_calls", close_pattern="("), "cannot be read"),
        (changed("fields", "tool_calls", open="<never>"), "as the chat template does not"),
        (changed(start_anchor="<never>"), "does not fit the chat template"),
        (changed("fields", content={"open": "<never>"}), "opens `content`"),
    ],
)
def test_what_a_mask_cannot_keep_is_refused_by_name(template: Any, reason: str) -> None:
    checkpoint = Checkpoint("<|im_start|>assistant\n", json_turn, template)
    with pytest.raises(UnsupportedLayout) as caught:
        layout_data(checkpoint, template)
    assert reason in str(caught.value)
    # The chat template is that of a layout that ships.
    assert Layout.from_tokenizer(checkpoint) == Layout.named("qwen3")


def test_where_no_other_layout_is_found_the_refusal_of_the_template_is_told() -> None:
    template = changed("fields", "tool_calls", content="yaml")
    assert Layout.from_tokenizer(Checkpoint("<|im_start|>assistant\n", xml_turn, template)).name == "derived"
    with pytest.raises(UnsupportedLayout, match="response_template"):
        Layout.from_tokenizer(Checkpoint("<|im_start|>assistant\n", lambda thought, text, calls: text, template))
