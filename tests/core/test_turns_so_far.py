"""Chat answers while they are written, in every layout that ships."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from formatter_core import ChatAnswer, Compiler, Layout, Partial, ToolCall, Vocabulary, formats
from formatter_core.errors import UnsupportedLayout
from formatter_core.generation import Snapshot, completion
from tests.core.chat_samples import WEATHER
from tests.core.test_conversations import CALL, MESSAGES, TOOL, ChatModel
from tests.core.test_snapshots import applied, as_json, as_lists

COMPILER = Compiler(Vocabulary.of_bytes())
CALLS = (ToolCall("get_weather", {"city": "São Paulo", "days": 3}), ToolCall("get_time", {"zone": "CET"}))
TURNS = (
    ChatAnswer("Hm, well.", "It is late."),
    ChatAnswer(None, "It is late."),
    ChatAnswer("Hm.", None, CALLS[:1]),
    ChatAnswer(None, None, CALLS),
    ChatAnswer(None, "Let me see.", CALLS[:1]),
)


def grows(before: ChatAnswer, after: ChatAnswer) -> bool:
    """Tell whether nothing shown was taken back; arguments grow as JSON does, which has tests of its own."""
    texts = (("reasoning", before.reasoning, after.reasoning), ("content", before.content, after.content))
    names = [call.name for call in before.tool_calls]
    return all((new or "").startswith(old or "") for _, old, new in texts) and (
        [call.name for call in after.tool_calls][: len(names)] == names
    )


@pytest.mark.parametrize("name", Layout.names())
def test_a_turn_grows_to_its_value(name: str) -> None:
    layout = Layout.named(name)
    tools = [WEATHER, TOOL] if layout.calls is not None else []
    compiled = COMPILER.compile(formats.chat_answer(layout, tools=tools))
    tried = 0
    for turn in TURNS:
        try:
            text = layout.render(turn)
        except UnsupportedLayout:
            continue
        formatter, told = compiled.formatter(), compiled.formatter()
        if not compiled.parse(text).is_complete:
            continue
        tried += 1
        before, value, plain = ChatAnswer(), None, None
        for byte in text.encode():
            formatter.accept_bytes(bytes([byte]))
            shown = formatter.snapshot()
            if shown is not None:
                assert isinstance(shown, ChatAnswer)
                assert grows(before, shown)
                before = shown
            told.accept_bytes(bytes([byte]))
            value = applied(as_json(told.deltas()), value)
            plain = formatter.snapshot(plain=True)
            assert value == as_lists(plain)
        for one in (formatter, told):
            one.accept_token(one.end_ids[0])
        value = applied(as_json(told.deltas()), value)
        final = formatter.snapshot()
        assert final == formatter.result("end").value == compiled.parse(text).value
        assert value == as_lists(formatter.snapshot(plain=True))
        assert [call["arguments"] for call in value.get("tool_calls", [])] == [
            call.arguments for call in final.tool_calls
        ]
    assert tried


@dataclass
class Person:
    name: str
    age: int


def test_the_final_text_is_shown_by_its_type() -> None:
    formatter = COMPILER.compile(formats.chat_answer("qwen3", content=Person)).formatter()
    formatter.accept_bytes(b'<think>\nHm.\n</think>\n\n{"name": "Ivo", "age": 4')
    shown = formatter.snapshot()
    assert shown.reasoning == "Hm."
    assert isinstance(shown.content, Partial)
    assert shown.content.name == "Ivo"
    formatter.accept_bytes(b"1}")
    assert formatter.snapshot().content == Person("Ivo", 41)
    assert formatter.snapshot(plain=True) == {"reasoning": "Hm.", "content": {"name": "Ivo", "age": 41}}


def test_arguments_are_shown_while_they_are_written_where_they_are_json() -> None:
    formatter = COMPILER.compile(formats.chat_answer("hermes", tools=[WEATHER, TOOL])).formatter()
    formatter.accept_bytes(b'<tool_call>\n{"name": "get_w')
    assert formatter.snapshot().tool_calls == ()
    formatter.accept_bytes(b'eather", "arguments": {"city": "Os')
    assert formatter.snapshot().tool_calls == (ToolCall("get_weather", {"city": "Os"}),)


def test_a_stream_shows_the_turn() -> None:
    model = ChatModel("<think>\nHm.\n</think>\n\n" + CALL)
    write: Any = completion(model, formats.chat_answer("qwen3", tools=[TOOL]))
    shown = [event.value for event in write.stream(MESSAGES, snapshots=True) if isinstance(event, Snapshot)]
    assert shown[-1] == ChatAnswer("Hm.", None, (ToolCall("get_time", {"zone": "CET"}),))
    assert ChatAnswer("H") in shown
    assert all(grows(one, other) for one, other in itertools.pairwise(shown))
