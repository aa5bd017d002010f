"""Clients of the openai package whose requests our models answer: formats, tools, streams, faults, threads."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs openai")

from formatter_core import formats  # noqa: E402
from formatter_core.errors import InvalidArgument, UnsupportedLayout  # noqa: E402
from formatter_openai import async_openai_client, http_clients, openai_client, openai_model  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, StandIn, client_of, model_of, serving  # noqa: E402
from tests.core.test_conversations import CALL, MESSAGES, TOOL, ChatModel  # noqa: E402

ASK: dict[str, Any] = {"model": "m", "messages": MESSAGES}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
JSON = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def create(model: Any, layout: str | None = "qwen3", **request: Any) -> Any:
    return openai_client(model, layout=layout).chat.completions.create(**ASK, **request)


def parts(stream: Any) -> dict[str, Any]:
    """Put the chunks of a stream together."""
    found: dict[str, Any] = {"content": "", "reasoning": "", "names": [], "arguments": "", "reason": None, "roles": []}
    for chunk in stream:
        for choice in chunk.choices:
            delta = choice.delta
            found["content"] += delta.content or ""
            found["reasoning"] += getattr(delta, "reasoning_content", None) or ""
            found["reason"] = choice.finish_reason or found["reason"]
            found["roles"] += [delta.role] if delta.role else []
            for call in delta.tool_calls or ():
                found["names"] += [call.function.name] if call.function.name else []
                found["arguments"] += call.function.arguments or ""
    return found


def test_an_answer_is_in_the_format_that_the_request_asks_for() -> None:
    answer = create(ChatModel('{"b": 1}'), response_format=JSON)
    assert json.loads(answer.choices[0].message.content).keys() == {"a"}
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    assert create(ChatModel("no"), extra_body=formats.extra_body(["yes", "no"])).choices[0].message.content == "no"
    assert create(ChatModel("ab"), extra_body={"grammar": 'root ::= "a" [c-d]'}).choices[0].message.content[0] == "a"


def test_calls_and_reasoning_come_apart() -> None:
    text = "<think>\nHm.\n</think>\n\n" + CALL
    model = ChatModel(text)
    answer = create(model, tools=[TOOL], tool_choice="required")
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_time", {"zone": "CET"})
    assert answer.choices[0].message.reasoning_content == "Hm."
    assert answer.choices[0].finish_reason == "tool_calls"
    assert [tool["function"]["name"] for tool in model.given[0]["tools"]] == ["get_time"]
    streamed = parts(create(ChatModel(text), tools=[TOOL], stream=True))
    assert streamed == {
        "content": "",
        "reasoning": "Hm.",
        "names": ["get_time"],
        "arguments": '{"zone": "CET"}',
        "reason": "tool_calls",
        "roles": ["assistant"],
    }


def test_a_model_may_think_before_an_answer_in_a_format() -> None:
    text = '<think>\nHm.\n</think>\n\n{"a": 12}'
    answer = create(ChatModel(text), response_format=JSON).choices[0]
    assert (answer.message.reasoning_content, answer.message.content) == ("Hm.", '{"a": 12}')
    streamed = parts(create(ChatModel(text), response_format=JSON, stream=True))
    assert (streamed["reasoning"], streamed["content"], streamed["reason"]) == ("Hm.", '{"a": 12}', "stop")
    opened = create(ChatModel('Hm.\n</think>\n\n{"a": 12}', opening="<think>\n"), response_format=JSON).choices[0]
    assert (opened.message.reasoning_content, opened.message.content) == ("Hm.", '{"a": 12}')


def test_a_cut_turn_shows_what_is_certain() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone": "CET"}'}}
    before = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]}]
    model = ChatModel("")
    client = openai_client(model, layout="qwen3")
    client.chat.completions.create(model="m", messages=before, max_tokens=2)
    assert model.given[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"zone": "CET"}
    assert model.given[0]["messages"][1]["content"] == ""
    cut = create(ChatModel("yes, of course"), max_tokens=3)
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("yes", "length")
    turn = create(ChatModel("yes, of course"), tools=[TOOL], max_tokens=6)
    assert turn.choices[0].finish_reason == "length"
    assert "yes, of course".startswith(turn.choices[0].message.content)


def test_a_stream_ends_with_the_counts_if_they_are_asked_for() -> None:
    chunks = list(create(ChatModel("yes"), stream=True, max_tokens=3, stream_options={"include_usage": True}))
    assert chunks[-1].usage.completion_tokens == 3
    assert parts(chunks)["content"] == "yes"


def scores_of(chunks: Any, sample: int) -> list[Any]:
    """Return the log-probabilities of each chunk that has any."""
    own = [choice for chunk in chunks for choice in chunk.choices if choice.index == sample]
    return [choice.logprobs.content for choice in own if choice.logprobs is not None]


@pytest.mark.parametrize("text", ["yes, of course", "<think>\nHm.\n</think>\n\n" + CALL])
def test_chunks_have_the_scores_of_their_own_tokens(text: str) -> None:
    asked: dict[str, Any] = {"n": 2, "max_tokens": 120, "logprobs": True, "top_logprobs": 2}
    if CALL in text:
        asked |= {"tools": [TOOL], "tool_choice": "required"}
    whole = create(ChatModel(text), **asked)
    chunks = list(create(ChatModel(text), stream=True, **asked))
    for sample in range(2):
        told = scores_of(chunks, sample)
        assert len(told) > 3
        assert [one for part in told for one in part] == whole.choices[sample].logprobs.content
    if CALL not in text:
        # Beside a token that a format forces there are no others, and text that is not held back comes with its tokens.
        assert all(len(one.top_logprobs) == 2 for part in told for one in part)
        for chunk in chunks:
            for choice in chunk.choices:
                if choice.logprobs is not None and choice.delta.content:
                    assert "".join(one.token for one in choice.logprobs.content) == choice.delta.content


def test_scores_of_a_server_behind_it_are_streamed() -> None:
    with serving(StandIn(lambda request, sample: Answer("yes"))) as server:
        chunks = list(create(model_of(server), stream=True, logprobs=True, top_logprobs=1))
        assert [[one.token for one in part] for part in scores_of(chunks, 0)] == [["y"], ["e"], ["s"]]


def test_several_samples_scores_and_stops() -> None:
    answer = create(ChatModel("yes"), n=2, max_tokens=3, logprobs=True, top_logprobs=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    first = answer.choices[0].logprobs.content[0]
    assert (first.token, bytes(first.bytes), len(first.top_logprobs)) == ("y", b"y", 2)
    assert create(ChatModel("yes, no"), stop=[","], max_tokens=9).choices[0].message.content == "yes"


@pytest.mark.parametrize(
    ("request_fields", "told"),
    [
        ({"frequency_penalty": 1}, "frequency_penalty=1"),
        ({"extra_body": {"best_of": 3}}, "best_of"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": {"type": "strange"}}}, "strange"),
        ({"tools": [TOOL], "tool_choice": "nobody"}, "nobody"),
        ({"max_tokens": 3, "extra_body": {"max_completion_tokens": 4}}, "differ"),
        ({"extra_body": {"vllm_xargs": {"formatter": "{"}}}, "not JSON"),
        ({"extra_body": {"vllm_xargs": {"format": {}}}}, "extra_body"),
        ({"extra_body": {"vllm_xargs": {"formatter": {"regex": "a"}}}}, "extra_body"),
        ({"response_format": JSON, "extra_body": formats.extra_body(["a"])}, "excludes"),
        ({"response_format": JSON, "max_tokens": 2}, "tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"logprobs": 3}, "logprobs"),
        ({"seed": [1]}, "seed"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_faulty_request_is_refused_with_its_reason(request_fields: Any, told: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=told):
        create(ChatModel("yes"), stream=stream, **request_fields)


def test_parts_of_a_message_are_texts() -> None:
    client = openai_client(ChatModel("yes"))
    texts = [{"type": "text", "text": "Ti"}, {"type": "text", "text": "me?"}]
    asked: Any = [{"role": "user", "content": texts}]
    assert client.chat.completions.create(model="m", messages=asked, max_tokens=3).choices[0].message.content == "yes"
    image: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    for faulty in (image, [{"content": "?"}]):
        with pytest.raises(openai.BadRequestError, match=r"not text|role"):
            client.chat.completions.create(model="m", messages=faulty)


def test_only_chat_completions_are_answered() -> None:
    client = openai_client(ChatModel("yes"))
    assert [model.id for model in client.models.list().data] == ["ChatModel"]
    with pytest.raises(openai.NotFoundError, match="chat completions"):
        client.completions.create(model="m", prompt="Time?")


def test_what_is_no_model_and_no_layout_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not a model"):
        openai_client("gpt")
    with pytest.raises(UnsupportedLayout):
        openai_client(ChatModel(""), layout="nobody's")
    with pytest.raises(openai.BadRequestError, match="layout"):
        create(ChatModel(CALL), layout=None, tools=[TOOL])


def test_a_failure_of_the_model_is_an_error_of_the_answer() -> None:
    class Broken(ChatModel):
        def start(self, *given: Any, **options: Any) -> Any:
            raise RuntimeError("out of memory")

    for stream in (False, True):
        with pytest.raises(openai.InternalServerError, match="out of memory"):
            create(Broken("yes"), stream=stream)


def test_threads_share_a_model_and_a_stream_that_nobody_reads_blocks_none() -> None:
    client = openai_client(ChatModel("yes"))
    begun = client.chat.completions.create(**ASK, stream=True, max_tokens=3)
    next(iter(begun))
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(client.chat.completions.create, **ASK, max_tokens=3) for _ in range(8)]
        assert {one.result(60).choices[0].message.content for one in asked} == {"yes"}
    begun.close()


def test_an_asynchronous_client_answers_and_streams_and_is_cancelled() -> None:
    async def main() -> None:
        client = async_openai_client(ChatModel("yes"))
        answer = await client.chat.completions.create(**ASK, max_tokens=3)
        assert answer.choices[0].message.content == "yes"
        stream = await client.chat.completions.create(**ASK, max_tokens=3, stream=True)
        assert parts([chunk async for chunk in stream])["content"] == "yes"
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(**ASK, frequency_penalty=1)
        long = asyncio.create_task(client.chat.completions.create(**ASK, max_tokens=50))
        await asyncio.sleep(0)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        again = await asyncio.wait_for(client.chat.completions.create(**ASK, max_tokens=3), 60)
        assert again.choices[0].message.content == "yes"

    asyncio.run(main())


def test_both_http_clients_are_answered_by_one_model() -> None:
    waiting, awaited = http_clients(ChatModel("yes"))
    body = {**ASK, "max_tokens": 3}
    address = "http://formatter.invalid/v1/chat/completions"
    assert waiting.post(address, json=body).json()["choices"][0]["message"]["content"] == "yes"

    async def ask() -> Any:
        return (await awaited.post(address, json=body)).json()

    assert asyncio.run(ask())["choices"][0]["message"]["content"] == "yes"
    assert waiting.post(address, content=b"{").status_code == 400
    assert waiting.post(address, content=b'{"messages": 5}').status_code == 400


def test_a_server_behind_it_is_checked() -> None:
    answers = {"good": '{"a": 5}', "bad": '{"a": "five"}'}
    with serving(StandIn(lambda request, sample: Answer(answers[request["model"]]))) as server:
        for is_async in (False, True):

            async def ask(name: str, is_async: bool = is_async) -> Any:
                client = async_openai_client(openai_model(name, client=client_of(server, is_async=is_async)))
                return await client.chat.completions.create(**ASK, response_format=JSON)

            assert asyncio.run(ask("good")).choices[0].message.content == '{"a": 5}'
            with pytest.raises(openai.InternalServerError, match="continues with"):
                asyncio.run(ask("bad"))
        waiting = openai_client(openai_model("good", client=client_of(server)))
        assert parts(waiting.chat.completions.create(**ASK, response_format=JSON, stream=True))["content"] == '{"a": 5}'
        with pytest.raises(openai.BadRequestError, match="awaited"):
            create(openai_model("good", client=client_of(server, is_async=True)))


def test_calls_of_a_server_behind_it_are_checked_and_streamed() -> None:
    said = Answer("", reason="tool_calls", calls=[("get_time", '{"zone": "CET"}')])
    with serving(StandIn(lambda request, sample: said)) as server:
        client = openai_client(model_of(server))
        asked: dict[str, Any] = {**ASK, "tools": [TOOL]}
        answer = client.chat.completions.create(**asked).choices[0]
        assert (answer.finish_reason, answer.message.tool_calls[0].function.name) == ("tool_calls", "get_time")
        streamed = parts(client.chat.completions.create(**asked, stream=True))
        assert (streamed["names"], streamed["arguments"]) == (["get_time"], '{"zone": "CET"}')
