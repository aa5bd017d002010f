"""Conversations as prompts of `completion`, and chat answers behind them."""

from __future__ import annotations

from typing import Any

import pytest

from formatter_core import ChatAnswer, ChatDeltas, ToolCall, formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import completion
from formatter_core.generation.models import FormatEvent
from tests.core.tiny_logits_model import TinyModel, writes

TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "additionalProperties": False},
    },
}
MESSAGES = [{"role": "user", "content": "Time?"}]
CALL = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "CET"}}\n</tool_call>'


class ChatModel(TinyModel):
    """A model that writes one text behind a conversation; its template ends each prompt with `opening`."""

    def __init__(self, text: str, opening: str = "") -> None:
        self.opening = opening
        self.given: list[dict[str, Any]] = []
        super().__init__(writes(text.encode(), len(self.prompt(MESSAGES))))

    def prompt(self, messages: list[dict[str, Any]]) -> str:
        return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "bot: " + self.opening

    def encode_chat(self, messages: list[dict[str, Any]], **options: Any) -> list[int]:
        self.given.append({"messages": messages, **options})
        return self.encode(self.prompt(messages))


def test_a_conversation_is_one_prompt_and_brings_the_tools() -> None:
    model = ChatModel("<think>\nHm.\n</think>\n\n" + CALL)
    write = completion(model, formats.chat_answer("qwen3", tools=[TOOL]))
    call = ToolCall("get_time", {"zone": "CET"})
    assert write(MESSAGES).value == ChatAnswer("Hm.", None, (call,))  # type: ignore[call-overload]
    function = {**TOOL["function"], "description": ""}  # some templates need one
    assert model.given[0] == {"messages": MESSAGES, "tools": [{**TOOL, "function": function}]}
    both = write([MESSAGES, MESSAGES])
    assert [output.value.tool_calls for output in both] == [(call,)] * 2


def test_without_tools_the_template_gets_none() -> None:
    model = ChatModel("yes")
    assert completion(model, ["yes", "no"])(MESSAGES).value == "yes"
    assert "tools" not in model.given[0]


def test_a_template_that_has_opened_the_reasoning_is_noticed() -> None:
    model = ChatModel("Hm.\n</think>\n\n" + CALL, opening="<think>\n")
    write = completion(model, formats.chat_answer("qwen3", tools=[TOOL]))
    assert write(MESSAGES).value.reasoning == "Hm."  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="opened the reasoning"):
        completion(model, formats.chat_answer("qwen3", reasoning="off"))(MESSAGES)  # type: ignore[call-overload]


def test_answers_are_streamed_as_deltas() -> None:
    model = ChatModel("<think>\nHm.\n</think>\n\nNoon.")
    write = completion(model, formats.chat_answer("qwen3"))
    stream, deltas = ChatDeltas(), []
    for event in write.stream(MESSAGES):
        if isinstance(event, FormatEvent):
            deltas += stream.of([event.event])
    assert "".join(delta.get("content", "") for delta in deltas) == "Noon."


def test_a_model_without_a_chat_template_says_so() -> None:
    with pytest.raises(InvalidArgument, match="no chat template"):
        completion(TinyModel(writes(b"yes", 1)), ["yes", "no"])(MESSAGES)
