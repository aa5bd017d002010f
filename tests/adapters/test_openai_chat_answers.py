"""Chat answers behind an OpenAI-compatible script: tools go there, and what comes back is checked against them."""

from __future__ import annotations

from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import ChatAnswer, ToolCall, formats  # noqa: E402
from formatter_core.errors import FormatterError, IncompleteResult, InvalidArgument, MalformedAnswer  # noqa: E402
from formatter_core.generation import completion  # noqa: E402
from formatter_core.generation.models import Finished, TextDelta  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, StandIn, model_of  # noqa: E402
from tests.schemas import closed  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

SCHEMA = closed({"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}, required=["city"])
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]


def ask(script: StandIn, answer: Answer, *, streams: bool = False, endpoint: Any = "chat", **options: Any) -> Any:
    """Return the output of one conversation, or of a text at the other endpoint."""
    script.answer = lambda body, index: answer
    format = formats.chat_answer("qwen3", tools=[WEATHER, CLOCK], **options)
    write = completion(model_of(script, endpoint=endpoint), format)
    prompt: Any = MESSAGES if endpoint == "chat" else "Weather?"
    if not streams:
        return write(prompt)
    return next(event.output for event in write.stream(prompt) if isinstance(event, Finished))


@pytest.mark.parametrize("streams", [False, True])
def test_calls_come_back_checked_whatever_the_order_of_keys(script: StandIn, streams: bool) -> None:
    calls = [("get_weather", '{"days":2,"city":"Rome"}'), ("get_time", "{}")]
    output = ask(script, Answer("", "tool_calls", calls=calls, reasoning="Hm."), streams=streams)
    assert output.value == ChatAnswer(
        "Hm.", None, (ToolCall("get_weather", {"city": "Rome", "days": 2}), ToolCall("get_time", {}))
    )
    (sent,) = script.requests
    assert sent["messages"] == MESSAGES
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get_weather", "get_time"]
    assert sent["tool_choice"] == "auto"
    assert "parallel_tool_calls" not in sent


def test_text_is_the_content(script: StandIn) -> None:
    assert ask(script, Answer("Sunny.")).value == ChatAnswer(None, "Sunny.")
    assert ask(script, Answer("Sunny."), streams=True).value.content == "Sunny."


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("get_time", {"type": "function", "function": {"name": "get_time"}}),
    ],
)
def test_the_choice_of_tools_goes_to_the_server(script: StandIn, choice: str, sent: Any) -> None:
    answer = Answer("", "tool_calls", calls=[("get_time", "{}")])
    assert ask(script, answer, tool_choice=choice, parallel=False).value.tool_calls == (ToolCall("get_time", {}),)
    assert script.requests[0]["tool_choice"] == sent
    assert script.requests[0]["parallel_tool_calls"] is False


def test_a_custom_tool_is_a_function_there_whose_text_is_checked(script: StandIn) -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
    given = {"type": "custom", "name": "dial", "description": "Calls.", "format": grammar}
    write = completion(model_of(script), formats.chat_answer("qwen3", tools=[given]))
    script.answer = lambda body, index: Answer("", "tool_calls", calls=[("dial", '{"input":"112"}')])
    assert write(MESSAGES).value.tool_calls == (ToolCall("dial", {"input": "112"}),)
    (sent,) = script.requests[0]["tools"]
    assert (sent["type"], sent["function"]["description"]) == ("function", "Calls.")
    assert sent["function"]["parameters"]["required"] == ["input"]
    script.answer = lambda body, index: Answer("", "tool_calls", calls=[("dial", '{"input":"the police"}')])
    assert not write(MESSAGES).result.is_complete


def test_without_tools_none_are_sent(script: StandIn) -> None:
    ask(script, Answer("Sunny."), tool_choice="none")
    assert "tools" not in script.requests[0]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("calls", "options", "error"),
    [
        ([("get_weather", "{}")], {}, FormatterError),  # a required argument is missing
        ([("get_weather", '{"city": "Rome", "days": 0}')], {}, FormatterError),
        ([("get_weather", '{"city": "Rome", "more": 1}')], {}, FormatterError),
        ([("send_money", '{"city": "Rome"}')], {}, FormatterError),
        ([("get_time", "{}")] * 2, {"parallel": False}, FormatterError),
        ([("get_time", "{}")], {"tool_choice": "get_weather"}, FormatterError),
        ([("get_weather", '{"city": ')], {}, MalformedAnswer),
        ([("get_weather", "[1]")], {}, MalformedAnswer),
        ([], {"tool_choice": "required"}, IncompleteResult),
    ],
)
def test_what_no_tool_allows_is_an_error(
    script: StandIn, calls: list[tuple[str, str]], options: dict[str, Any], error: type[Exception], streams: bool
) -> None:
    output = ask(script, Answer("", "tool_calls", calls=calls), streams=streams, **options)
    assert isinstance(output.error, error)
    with pytest.raises(error):
        _ = output.value


def test_a_raw_completion_goes_through_the_layouts_parser(script: StandIn) -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    output = ask(script, Answer(text), endpoint="completions")
    assert output.value.tool_calls == (ToolCall("get_weather", {"city": "Rome"}),)
    assert ask(script, Answer(text[:40]), endpoint="completions").error is not None


def test_messages_are_for_the_chat_endpoint(script: StandIn) -> None:
    with pytest.raises(InvalidArgument, match="takes no messages"):
        completion(model_of(script, endpoint="completions"), None)(MESSAGES)


def test_a_conversation_goes_on_with_an_answer(script: StandIn) -> None:
    script.answer = lambda body, index: Answer("Sunny.")
    write = completion(model_of(script), None)
    first: Any = write(MESSAGES)
    write(first + "And tomorrow?")
    assert script.requests[1]["messages"] == [
        *MESSAGES,
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "And tomorrow?"},
    ]
    deltas = [event.text for event in write.stream(MESSAGES) if isinstance(event, TextDelta)]
    assert "".join(deltas) == "Sunny."
