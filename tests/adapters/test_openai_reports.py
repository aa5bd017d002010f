"""Models report what a server enforces and counts, and lists end early; stand-ins answer as documented APIs do."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import formats  # noqa: E402
from formatter_core.errors import TokenRejected, UnsupportedFormat  # noqa: E402
from formatter_core.generation import Usage, completion  # noqa: E402
from formatter_openai import Enforcement  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, StandIn, Verbatim, model_of, serving  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {
        "a/b": {"type": "number", "minimum": 0},
        "c": {"type": "array", "items": {"type": "string", "format": "email"}, "uniqueItems": True},
        "d": {"type": "string", "pattern": "^a", "maxLength": 5},
        "e": {"$ref": "#/$defs/e", "description": "e"},
    },
    "required": ["a/b"],
    "$defs": {"e": {"anyOf": [{"type": "integer", "minimum": 3}, {"not": {}}], "minProperties": 1}},
}
UNREAD = {
    "#/properties/a~1b/minimum",
    "#/properties/c/uniqueItems",
    "#/properties/c/items/format",
    "#/properties/d/maxLength",
    "#/$defs/e/minProperties",
    "#/$defs/e/anyOf/1/not",
}
PLAIN = {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": 1}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {}}}}


NOBODY = StandIn(lambda body, index: Answer(""), address="http://127.0.0.1:9/v1")


def test_each_keyword_that_is_not_enforced_is_named() -> None:
    for server in ("ollama", "lmstudio"):
        found = model_of(NOBODY, server=server).enforcement(SCHEMA)
        assert (found.sent, found.is_exact, {*found.unenforced}) == ("json_schema", False, UNREAD)
        assert all(pointer in str(found) for pointer in UNREAD)
    assert model_of(NOBODY, server="ollama").enforcement(PLAIN).unenforced == ()


@pytest.mark.parametrize(
    ("server", "format", "sent", "is_exact", "by"),
    [
        ("llama_server", PLAIN, "grammar", True, "llama-server"),
        ("llama_cpp", formats.regex("a+"), "grammar", True, "llama-cpp-python"),
        ("formatter_vllm", formats.until("."), "format", True, "formatter-core, in vLLM"),
        ("vllm", formats.choice(["a"]), "choice", None, "vLLM"),
        ("vllm", SCHEMA, "json_schema", None, "vLLM"),
        ("openai", SCHEMA, "json_schema", None, "the service"),
        ("ollama", formats.chat_answer("hermes", tools=[TOOL]), "tools", None, "Ollama"),
        ("ollama", formats.chat_answer("hermes"), "nothing", False, "Ollama"),
        ("llama_server", formats.chat_answer("hermes", content=PLAIN), "grammar", True, "llama-server"),
        ("llama_server", formats.chat_answer("hermes", tools=[TOOL], content=SCHEMA), "json_schema", False, "llama"),
    ],
)
def test_who_enforces_what(server: Any, format: Any, sent: str, is_exact: Any, by: str) -> None:
    found = model_of(NOBODY, server=server).enforcement(format)
    assert isinstance(found, Enforcement)
    assert (found.sent, found.is_exact) == (sent, is_exact)
    assert by in found.by
    assert "formatter-core" in str(found)


def test_what_has_no_way_is_refused_with_a_better_server() -> None:
    better = {"ollama": "llama_server", "lmstudio": "llama_server", "vllm": "formatter_vllm"}
    for server, other in better.items():
        with pytest.raises(UnsupportedFormat, match=other):
            model_of(NOBODY, server=server).enforcement(formats.until("."))


def test_answers_are_read_in_any_spelling_and_order_and_checked() -> None:
    """As a stand-in of Ollama answers, which writes required keys first and knows no `minimum` of numbers."""
    answers = {"good": '{ "c" : [ "a\\u0040b.de" ], "a/b" : 1.50 }', "bad": '{"a/b": -1}'}
    with serving(StandIn(lambda request, sample: Answer(answers[request["messages"][-1]["content"]]))) as server:
        write = completion(model_of(server, server="ollama"), SCHEMA)
        assert write("good").value == {"a/b": 1.5, "c": ["a@b.de"]}
        assert isinstance(write("bad").error, TokenRejected)
        assert server.requests[0]["response_format"]["type"] == "json_schema"


def test_tools_go_beside_a_schema_and_not_beside_a_grammar() -> None:
    said = Answer('{"a/b": 1}')
    with serving(StandIn(lambda request, sample: said)) as server:
        format = formats.chat_answer("hermes", tools=[TOOL], content=SCHEMA)
        output = completion(model_of(server, server="llama_server"), format)("x")
        assert output.value.content == {"a/b": 1}
        (body,) = server.requests
        assert {"tools", "tool_choice", "response_format"} <= body.keys()
        assert "grammar" not in body


# --- lists that end early, and counts ----------------------------------------------------------------------------


def test_a_list_ends_when_its_time_is_up_with_what_has_come() -> None:
    gate = threading.Event()

    def answer(request: Any, sample: int) -> Answer:
        if "slow" in request["messages"][-1]["content"]:
            gate.wait(60)
        return Answer("yes")

    with serving(StandIn(answer)) as server:
        try:
            prompts, stops = ["quick", "slow"], {"timeout": 1.0}
            fast, late = completion(model_of(server))(prompts, **stops)
            assert (fast.value, late.stopped, late.text, late.error) == ("yes", "cancelled", "", None)
            awaited = completion(model_of(server, is_async=True))

            async def ask() -> Any:
                return await awaited(prompts, **stops)

            fast, late = asyncio.run(ask())
            assert (fast.value, late.stopped) == ("yes", "cancelled")
            (only,) = completion(model_of(server)).stream("slow", cancelled=lambda: True)
            assert only.output.stopped == "cancelled"
        finally:
            gate.set()


def test_the_servers_own_counts_are_told() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}

    def send(choices: int, counts: Any) -> Any:
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": counts}
        made = [{**choice, "index": index} for index in range(choices)]

        def answer(request: Any, sample: int) -> Answer:
            raise Verbatim(json.dumps({**body, "choices": made}).encode())

        with serving(StandIn(answer)) as server:
            return completion(model_of(server))("x", n=choices)

    assert send(1, usage).usage == Usage(7, 3, 4)
    assert [output.usage for output in send(2, usage)] == [None, None]
    for wrong in (None, {}, {"prompt_tokens": "7"}, {"prompt_tokens": -1, "completion_tokens": 2}):
        assert send(1, wrong).usage is None
