"""mlx-lm's own OpenAI server with our masks, on loopback."""

from __future__ import annotations

import importlib.util
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

if importlib.util.find_spec("mlx_lm") is None:
    pytest.skip("mlx_lm is not installed", allow_module_level=True)

from formatter_core import formats
from tests.engines_real.local_servers import served
from tests.schemas import closed

TINY = Path(__file__).resolve().parents[2] / "examples" / "tiny_model"
#: Says as much about tool calls as mlx-lm reads of a template to choose its parser.
TEMPLATE = (
    "{% if tools %}Call <tool_call>\n{\"name\": ..., \"arguments\": ...}\n</tool_call>, tool_call.name:{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
)  # fmt: skip
SCHEMA = closed({"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}})
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"to": kind},
     "required": ["to"], "additionalProperties": False}}}
    for name, kind in (("go", {"enum": ["Delhi", "Oslo"]}), ("wait", {"type": "integer", "minimum": 1, "maximum": 9}))
]  # fmt: skip
MESSAGES = [{"role": "user", "content": "Who?"}]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "log"
    words = ("-m", "formatter_mlx.server", "--model", str(TINY), "--layout", "hermes", "--chat-template", TEMPLATE)
    with served(log, *words) as address:
        yield address


def post(address: str, path: str, **fields: Any) -> tuple[int, Any]:
    body = json.dumps({"max_tokens": 120, **fields}).encode()
    request = urllib.request.Request(f"{address}/{path}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def choice(address: str, path: str, **fields: Any) -> Any:
    status, answer = post(address, path, **fields)
    assert status == 200, answer
    return answer["choices"][0]


def test_a_schema_is_kept_beside_other_requests(address: str) -> None:
    def one(number: int) -> Any:
        options: dict[str, Any] = {"temperature": 1.0, "logit_bias": {"5": 1.0}}
        if number % 3 == 0:
            options["seed"] = number  # which is served alone, not in the batch
        if number % 4 == 3:
            return choice(address, "completions", prompt="Ivo is", **options)
        return choice(address, "chat/completions", messages=MESSAGES, response_format=JSON_SCHEMA, **options)

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(one, range(12))):
            if number % 4 != 3:
                jsonschema.validate(json.loads(found["message"]["content"]), SCHEMA)


def test_tools_are_called_as_they_are_declared(address: str) -> None:
    for seed in range(3):
        found = choice(
            address,
            "chat/completions",
            messages=MESSAGES,
            tools=TOOLS,
            tool_choice="required",
            seed=seed,
            temperature=1.0,
        )
        assert found["finish_reason"] == "tool_calls"
        for call in found["message"]["tool_calls"]:
            parameters = next(one["function"] for one in TOOLS if one["function"]["name"] == call["function"]["name"])
            jsonschema.validate(json.loads(call["function"]["arguments"]), parameters["parameters"])
    named = {"type": "function", "function": {"name": "wait"}}
    found = choice(address, "chat/completions", messages=MESSAGES, tools=TOOLS, tool_choice=named)
    assert {call["function"]["name"] for call in found["message"]["tool_calls"]} == {"wait"}


def test_any_format_goes_by_one_field(address: str) -> None:
    asked = formats.extra_body(["yes", "no"])
    assert choice(address, "chat/completions", messages=MESSAGES, **asked)["message"]["content"] in ("yes", "no")


def test_a_grammar_is_kept(address: str) -> None:
    assert choice(address, "completions", prompt="Ivo", grammar='root ::= "no" | "zero"')["text"] in ("no", "zero")


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}},
        {"response_format": {"type": "yaml"}},
        {"response_format": 5},
        {"grammar": "root ="},
        {"response_format": JSON_SCHEMA, "max_tokens": 3},
        {"response_format": JSON_SCHEMA, "model": "another"},
        {"response_format": JSON_SCHEMA, "spelling": "wide"},
        {"tools": 5},
        {"tool_choice": "required"},
    ],
)
def test_a_faulty_request_is_refused_and_the_server_lives(address: str, fields: dict[str, Any]) -> None:
    status, answer = post(address, "chat/completions", messages=MESSAGES, **fields)
    assert status == 400
    assert answer["error"]
    assert post(address, "chat/completions", messages=MESSAGES, max_tokens=2)[0] == 200
