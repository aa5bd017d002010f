"""llama-cpp-python's own OpenAI server with our masks, on loopback."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

for needed in ("llama_cpp", "uvicorn", "openai"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

import httpx2 as httpx  # noqa: E402
import jsonschema  # noqa: E402

from formatter_core import formats  # noqa: E402
from tests.engines_real.llama_cpp_models import write_bpe  # noqa: E402
from tests.engines_real.local_servers import serving  # noqa: E402
from tests.schemas import closed  # noqa: E402

SCHEMA = closed({"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}})
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"to": kind},
     "required": ["to"], "additionalProperties": False}}}
    for name, kind in (("go", {"enum": ["Delhi", "Oslo"]}), ("wait", {"type": "integer", "minimum": 1, "maximum": 9}))
]  # fmt: skip
MESSAGES = [{"role": "user", "content": "Who?"}]
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("server")
    model = write_bpe(folder / "model.gguf")
    with (
        serving("formatter_llama_cpp.server", model, folder / "log", "--layout", "hermes") as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        yield client


def chat(client: Any, **fields: Any) -> Any:
    return client.post("/chat/completions", json={"messages": MESSAGES, "max_tokens": 200, **fields})


def choice_of(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def chunks_of(client: Any, path: str, **fields: Any) -> list[Any]:
    with client.stream("POST", path, json={"stream": True, "max_tokens": 200, **fields}) as answer:
        assert answer.status_code == 200
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line)["choices"][0] for line in lines[:-1]]


@pytest.mark.parametrize("wanted", [JSON_SCHEMA, {"type": "json_object", "schema": SCHEMA}], ids=["schema", "object"])
def test_a_schema_is_kept(client: Any, wanted: Any) -> None:
    for seed in range(3):
        choice = choice_of(chat(client, response_format=wanted, seed=seed, temperature=1.0))
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
        chunks = chunks_of(client, "/chat/completions", messages=MESSAGES, response_format=wanted, seed=seed)
        text = "".join(chunk["delta"].get("content", "") for chunk in chunks)
        jsonschema.validate(json.loads(text), SCHEMA)


def test_a_grammar_is_kept(client: Any) -> None:
    grammar = 'root ::= "n" [0-9] [0-9]? | "zero"'
    for fields in ({"messages": MESSAGES}, {"prompt": "the name"}):
        path = "/chat/completions" if "messages" in fields else "/completions"
        choice = choice_of(client.post(path, json={**fields, "grammar": grammar, "max_tokens": 50}))
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        assert re.fullmatch("n[0-9]{1,2}|zero", text)
        chunks = chunks_of(client, path, grammar=grammar, **fields)
        text = "".join(chunk.get("text") or chunk.get("delta", {}).get("content") or "" for chunk in chunks)
        assert re.fullmatch("n[0-9]{1,2}|zero", text)


def test_any_format_goes_by_one_field_in_chats(client: Any) -> None:
    asked = formats.extra_body(["yes", "no"])
    assert choice_of(chat(client, **asked))["message"]["content"] in ("yes", "no")
    chunks = chunks_of(client, "/chat/completions", messages=MESSAGES, **asked)
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) in ("yes", "no")
    assert client.post("/completions", json={"prompt": "a", **asked}).status_code == 400
    assert chat(client, **asked, response_format=JSON_SCHEMA).status_code == 400


NAMED = {"type": "function", "function": {"name": "go"}}


@pytest.mark.parametrize("tool_choice", ["required", NAMED], ids=["required", "named"])
def test_tools_are_called(client: Any, tool_choice: Any) -> None:
    for seed in range(3):
        fields = {"tools": TOOLS, "tool_choice": tool_choice, "seed": seed, "temperature": 1.0}
        choice = choice_of(chat(client, **fields))
        assert choice["finish_reason"] == "tool_calls"
        check_calls([call["function"] for call in choice["message"]["tool_calls"]], tool_choice)
        streamed: dict[int, dict[str, str]] = {}
        chunks = chunks_of(client, "/chat/completions", messages=MESSAGES, **fields)
        for chunk in chunks:
            for call in chunk["delta"].get("tool_calls", ()):
                known = streamed.setdefault(call["index"], {"name": "", "arguments": ""})
                for field, text in call["function"].items():
                    known[field] += text
        assert chunks[-1]["finish_reason"] == "tool_calls"
        check_calls(list(streamed.values()), tool_choice)


def check_calls(calls: list[dict[str, str]], tool_choice: Any) -> None:
    assert calls
    parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    for call in calls:
        assert tool_choice == "required" or call["name"] == "go"
        jsonschema.validate(json.loads(call["arguments"]), parameters[call["name"]])


def test_without_a_format_the_text_is_free(client: Any) -> None:
    assert choice_of(chat(client, max_tokens=5))["message"]["content"]
    assert choice_of(chat(client, max_tokens=5, tools=TOOLS, tool_choice="none"))["message"]["content"]


HOSTILE: list[dict[str, Any]] = [
    {"response_format": {"type": "json_object", "schema": {"type": "no such type"}}},
    {"response_format": {"type": "json_object", "schema": {"type": "string", "pattern": "(?=a)b"}}},
    {"response_format": {"type": "json_schema"}},
    {"response_format": "json"},
    {"response_format": {"type": "json_object", "schema": {"$ref": "#/nowhere"}}},
    {"response_format": {"type": "json_object", "schema": {"pattern": "(" * 500}}},
    {"grammar": "root ::= ["},
    {"grammar": "root ::= nowhere"},
    {"grammar": 5},
    {"grammar": 'root ::= "a"', "response_format": {"type": "json_object"}},
    {"tools": [{"type": "function"}], "tool_choice": "auto"},
    {"tools": TOOLS, "tool_choice": "fly"},
    {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}},
    {"tools": [], "tool_choice": "required"},
    {"tools": "none"},
    {"functions": [{"name": "go", "parameters": {}}]},
]


@pytest.mark.parametrize("stream", [False, True])
def test_hostile_requests_are_refused_and_the_server_lives(client: Any, stream: bool) -> None:
    for fields in HOSTILE:
        answer = chat(client, stream=stream, **fields)
        assert answer.status_code == 400, (fields, answer.text)
        assert answer.json()["error"]["message"]
    for body in (b"[" * 100_000, b"", b'{"messages": [', b"\xff", b"[]", b"null"):
        answer = client.post("/chat/completions", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, body[:20]
        assert "JSON" in answer.json()["error"]["message"] or "nested" in answer.json()["error"]["message"]
    assert choice_of(chat(client, response_format=JSON_SCHEMA))["finish_reason"] == "stop"


def test_a_stream_of_calls_is_the_answer(client: Any) -> None:
    """Each call comes once, and as it stands in the answer that is not streamed."""
    for seed in range(3):
        fields = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "temperature": 1.0}
        whole = choice_of(chat(client, **fields))["message"]["tool_calls"]
        streamed: dict[int, dict[str, str]] = {}
        for chunk in chunks_of(client, "/chat/completions", messages=MESSAGES, **fields):
            for call in chunk["delta"].get("tool_calls", ()):
                known = streamed.setdefault(call["index"], {"name": "", "arguments": ""})
                for field, text in call["function"].items():
                    known[field] += text
        assert list(streamed.values()) == [call["function"] for call in whole]


def test_calls_have_ids_that_no_other_call_has(client: Any) -> None:
    fields = {"tools": TOOLS, "tool_choice": NAMED}
    ids = [call["id"] for _ in range(3) for call in choice_of(chat(client, **fields))["message"]["tool_calls"]]
    for _ in range(2):
        chunks = chunks_of(client, "/chat/completions", messages=MESSAGES, **fields)
        ids += [call["id"] for chunk in chunks for call in chunk["delta"].get("tool_calls", ()) if "id" in call]
    assert len(set(ids)) == len(ids) >= 5


def test_a_servers_own_answer_is_taken_back(client: Any) -> None:
    """An assistant's message with `content: null`, as this server sends it, and what the tool returned."""
    message = choice_of(chat(client, tools=TOOLS, tool_choice=NAMED))["message"]
    assert message["content"] is None
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]]
    for more in ({}, {"tools": TOOLS}, {"response_format": JSON_SCHEMA}):
        answer = chat(client, messages=[*MESSAGES, message, *results], **more)
        assert choice_of(answer)["message"]["role"] == "assistant"


@pytest.fixture(scope="module")
def without_end(client: Any) -> dict[str, Any]:
    """Return a field that makes the model go on as long as the format allows it."""
    ends = [client.post(client.base_url.copy_with(path="/extras/tokenize"), json={"input": name}).json()["tokens"][-1]
            for name in ("<|end_of_text|>", "<|end_of_turn|>")]  # fmt: skip
    return {"logit_bias": {str(end): -50.0 for end in ends}}


def test_at_most_one_call_where_parallel_calls_are_off(client: Any, without_end: dict[str, Any]) -> None:
    counts: dict[bool, list[int]] = {True: [], False: []}
    for parallel, found in counts.items():
        for seed in range(3):
            fields = {"tools": TOOLS, "tool_choice": "required", "temperature": 1.5, "max_tokens": 200, **without_end}
            choice = choice_of(chat(client, **fields, seed=seed, parallel_tool_calls=parallel))
            found.append(len(choice["message"].get("tool_calls") or ()))
            chunks = chunks_of(
                client, "/chat/completions", messages=MESSAGES, parallel_tool_calls=parallel, seed=seed, **fields
            )
            found.append(len({call["index"] for chunk in chunks for call in chunk["delta"].get("tool_calls", ())}))
    assert set(counts[False]) == {1}
    assert max(counts[True]) > 1, "the test shows nothing"


def test_calls_that_were_complete_when_the_tokens_ran_out_are_kept(client: Any, without_end: dict[str, Any]) -> None:
    for seed in range(2):
        fields = {"tools": TOOLS, "tool_choice": "required", "temperature": 1.5, "seed": seed, **without_end}
        whole = choice_of(chat(client, max_tokens=240, **fields))
        assert whole["finish_reason"] == "length"
        functions = [call["function"] for call in whole["message"]["tool_calls"]]
        assert len(functions) > 1
        counts = []
        for most in range(20, 240, 40):
            choice = choice_of(chat(client, max_tokens=most, **fields))
            assert choice["finish_reason"] == "length"
            calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
            assert calls == functions[: len(calls)]
            counts.append(len(calls))
        assert counts == sorted(counts)
        assert counts[-1] > 0


#: A value of each kind for every field of OpenAI's chat API and of other servers, and whether it can be honoured.
FIELDS: list[tuple[dict[str, Any], int]] = [
    ({"n": 1}, 200), ({"n": 2}, 400), ({"n": True}, 400), ({"best_of": 2}, 400), ({"user": "me"}, 200),
    ({"metadata": {"a": "b"}}, 200), ({"store": False}, 200), ({"store": True}, 400), ({"seed": 1}, 200),
    ({"temperature": None, "top_p": None, "stop": None, "n": None}, 200), ({"temperature": "hot"}, 400),
    ({"max_completion_tokens": 3, "max_tokens": None}, 200), ({"max_completion_tokens": 3}, 400),
    ({"max_tokens": -1}, 400), ({"logprobs": True}, 200), ({"top_logprobs": 2}, 400), ({"logprobs": False}, 200),
    ({"stream_options": {"include_usage": True}}, 400), ({"stream_options": {"include_usage": False}}, 200),
    ({"structured_outputs": {"regex": "a"}}, 400), ({"guided_json": SCHEMA}, 400), ({"guided_regex": "a"}, 400),
    ({"guided_choice": ["a"]}, 400), ({"guided_grammar": "a"}, 400), ({"json_schema": SCHEMA}, 400),
    ({"regex": "a"}, 400), ({"reasoning_effort": "low"}, 400), ({"chat_template_kwargs": {}}, 400),
    ({"logit_bias": {"5": 1.0}}, 200), ({"logit_bias": {"x": 1.0}}, 400), ({"logit_bias": {"99999999": 1.0}}, 400),
    ({"parallel_tool_calls": True}, 200), ({"parallel_tool_calls": "no"}, 400), ({"fromat": 1}, 400),
    ({"spelling": "any"}, 400), ({"response_format": JSON_SCHEMA, "spelling": "wide"}, 400),
    ({"response_format": JSON_SCHEMA, "spelling": "any", "max_tokens": 60}, 200),
    ({"messages": [{"role": "nobody", "content": "?"}]}, 400), ({"min_tokens": 1}, 200), ({"top_k": 5}, 200),
    ({"presence_penalty": 0.5, "frequency_penalty": 0.5, "repeat_penalty": 1.2, "mirostat_mode": 1}, 200),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_each_field_is_honoured_or_refused(client: Any, stream: bool) -> None:
    for fields, status in FIELDS:
        answer = client.post(
            "/chat/completions", json={"messages": MESSAGES, "max_tokens": 4, "stream": stream, **fields}
        )
        assert answer.status_code == status, (fields, answer.text)
        if "logprobs" in fields and not stream:
            assert bool(answer.json()["choices"][0]["logprobs"]) is fields["logprobs"]
        if status == 400:
            error = answer.json()["error"]
            assert error["param"] in {*fields, "max_completion_tokens"}, error


def test_completions_refuse_what_only_chats_have(client: Any) -> None:
    for fields in (
        {"response_format": JSON_SCHEMA},
        {"tools": TOOLS},
        {"guided_json": SCHEMA},
        {"n": 3},
        {"prompt": ["a", "b"]},
    ):
        answer = client.post("/completions", json={"prompt": "the name", "max_tokens": 4, **fields})
        assert answer.status_code == 400, (fields, answer.text)
    for fields in ({}, {"best_of": 1}, {"prompt": ["the"]}, {"echo": True}):
        answer = client.post("/completions", json={"prompt": "the name", "max_tokens": 4, **fields})
        assert answer.status_code == 200, (fields, answer.text)


def test_many_requests_at_a_time_some_of_them_aborted(client: Any) -> None:
    def one(number: int) -> str:
        fields = {"messages": MESSAGES, "response_format": JSON_SCHEMA, "seed": number, "temperature": 1.0}
        if number % 6 == 0:
            with client.stream("POST", "/chat/completions", json={"stream": True, **fields}) as answer:
                next(answer.iter_lines())
            return "aborted"
        choice = choice_of(client.post("/chat/completions", json=fields))
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
        return "right"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, range(24)))
    assert outcomes.count("right") == 20


TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}{{
    "\n" if message.content or not loop.first else "" }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_the_layout_is_that_of_the_models_chat_template() -> None:
    from formatter_llama_cpp._compat_server import layout_of

    class Model:
        def __init__(self, metadata: dict[str, str]) -> None:
            self.metadata = metadata

    found = layout_of(Model({"tokenizer.chat_template": TEMPLATE}))
    assert found is not None
    assert found.name == "hermes"
    assert layout_of(Model({})) is None
    assert layout_of(Model({"tokenizer.chat_template": "{{ messages[0].content }}"})) is None


def test_the_command_names_its_option() -> None:
    command = [sys.executable, "-m", "formatter_llama_cpp.server", "--layout", "no such layout"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "hermes" in done.stderr
