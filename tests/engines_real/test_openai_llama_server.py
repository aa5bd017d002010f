"""Our client with llama.cpp's own server: `llama-server` on PATH, or where `$LLAMA_SERVER` says it is."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

for needed in ("openai", "gguf", "tokenizers"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)
PROGRAM = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
if PROGRAM is None:
    pytest.skip("needs llama-server, on PATH or named by $LLAMA_SERVER", allow_module_level=True)

import jsonschema  # noqa: E402
import openai  # noqa: E402

from formatter_core import formats  # noqa: E402
from formatter_core.errors import TokenRejected  # noqa: E402
from formatter_core.generation import completion, multinomial  # noqa: E402
from formatter_openai import openai_model  # noqa: E402
from tests.engines_real.llama_cpp_models import write_bpe  # noqa: E402
from tests.engines_real.local_servers import is_answered  # noqa: E402
from tests.schemas import closed  # noqa: E402

SCHEMA = closed(
    {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}, "c": {"type": "string", "maxLength": 4}}, required=["a", "b"]
)
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 3, "minItems": 2}


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("server")
    model = write_bpe(folder / "model.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(PROGRAM), "--model", str(model), "--port", str(port), "--ctx-size", "2048", "--threads", "1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*words, "--parallel", "2"], stdout=log, stderr=subprocess.STDOUT)
        try:
            if not is_answered(f"http://127.0.0.1:{port}/v1/models", process, 120):
                pytest.fail(f"the server did not start:\n{(folder / 'log').read_text()[-4000:]}")
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", timeout=120, max_retries=0)
            yield lambda **options: openai_model("small", client=client, server="llama_server", parallel=2, **options)
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_grammars_are_kept(model_of: Any, endpoint: Any) -> None:
    options = ["a person", 'the "age"', "日本\n"]
    for format in (options, SCHEMA, formats.regex("n[0-9]{1,3}")):
        write = completion(model_of(endpoint=endpoint), format, max_tokens=100, sampling=multinomial(1.0))
        for output in write("the name of", n=3, seed=5):
            assert output.error is None
            assert output.stopped == "end"
            assert output.result.is_complete


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_schema_that_no_grammar_expresses_is_checked(model_of: Any, endpoint: Any) -> None:
    model = model_of(endpoint=endpoint)
    assert model.enforcement(UNIQUE).unenforced == ("#/uniqueItems",)
    for output in completion(model, UNIQUE, max_tokens=100, sampling=multinomial(1.0))("1", n=8, seed=1):
        values = json.loads(output.text)
        assert len(values) in (2, 3)  # what the server enforces
        if len({*values}) == len(values):
            assert output.value == values
        else:
            assert isinstance(output.error, TokenRejected)


def test_a_stream_and_log_probabilities(model_of: Any) -> None:
    write = completion(model_of(), ["blue", "green"], logprobs=2)
    *_, last = write.stream("The sky is")
    assert last.output.value in ("blue", "green")
    assert last.output.chosen
    assert all(one.bytes is not None for one in last.output.chosen)


def random_schema(source: random.Random, depth: int = 2) -> Any:
    """Draw a schema of keywords that are said to be read."""
    kinds = ["string", "date", "integer", "number", "boolean", "null", "enum", "const"]
    kind = source.choice([*kinds, "object", "array", "anyOf"] if depth else kinds)
    low = source.randrange(4)
    if kind == "object":
        properties = {name: random_schema(source, depth - 1) for name in source.sample("abcd", source.randrange(1, 4))}
        required = [name for name in properties if source.random() < 0.5]
        return {"type": kind, "properties": properties, "required": required, "additionalProperties": False}
    if kind == "array":
        return {"type": kind, "items": random_schema(source, depth - 1), "minItems": low, "maxItems": low + 2}
    if kind == "anyOf":
        return {kind: [random_schema(source, depth - 1) for _ in range(2)]}
    return {
        "string": {"type": "string", "minLength": low, "maxLength": low + 3},
        "date": {"type": "string", "format": "date"},
        "integer": {"type": "integer", "minimum": low - 20, "exclusiveMaximum": low + 20},
        "enum": {"enum": [1, "a", None]},
        "const": {"const": {"x": [low]}},
    }.get(kind, {"type": kind})


def test_a_schema_of_which_everything_is_said_to_be_read_is_enforced(model_of: Any) -> None:
    client = model_of()._service.client
    report = openai_model("small", client=client, server="ollama").enforcement
    finished = 0
    for seed in range(40):
        schema = {"type": "array", "items": random_schema(random.Random(seed)), "minItems": 1, "maxItems": 2}
        assert report(schema).unenforced == ()
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        asked: Any = [{"role": "user", "content": "the name"}]
        answer = client.chat.completions.create(
            model="small", messages=asked, response_format=wanted, max_tokens=150, temperature=1.0, seed=seed
        )
        # A random model writes bytes that are no text, each of which is shown as a character.
        if answer.choices[0].finish_reason == "stop" and "\ufffd" not in answer.choices[0].message.content:
            finished += 1
            judge = jsonschema.Draft202012Validator(schema)
            judge.validate(json.loads(answer.choices[0].message.content))
    assert finished > 5
