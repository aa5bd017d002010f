"""The request arguments that make each kind of server enforce a format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from formatter_core import formats, to_gbnf
from formatter_core.errors import InvalidGrammar, LimitExceeded, UnsupportedFormat
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.formats.protocol import Format
from formatter_openai.chat_answers import tool_arguments

__all__ = ["Endpoint", "Server", "complains_of_format", "enforcing"]

#: The kinds of servers: OpenAI's own service and its imitations; vLLM with its own structured outputs; vLLM started
#: with `formatter_vllm`; the server of llama-cpp-python; llama.cpp's own; Ollama; LM Studio.
Server: TypeAlias = Literal["openai", "vllm", "formatter_vllm", "llama_cpp", "llama_server", "ollama", "lmstudio"]
Endpoint: TypeAlias = Literal["chat", "completions"]

#: The arguments that a format goes by, and what else only a complaint about a format says.
_SPEAKS_OF_FORMATS = re.compile(
    r"response_format|structured_outputs|guided_\w+|vllm_xargs|`formatter\b|json[ _]schema|xgrammar"
    r"|pars\w+ grammar|grammar constraints"
)

#: The name of a kind of format in vLLM's `structured_outputs`, and its key in the format's data.
_VLLM = {"json_schema": ("json", "schema"), "choice": ("choice", "options"), "regex": ("regex", "pattern")}
_BETTER = "start vLLM with formatter_vllm's processor, which enforces every format, and pass server='formatter_vllm'"
_BETTER_LLAMA = "llama.cpp's own server takes grammars: start it with the same model, and pass server='llama_server'"
#: Servers that take a grammar in GBNF.
_TAKE_GBNF = ("llama_cpp", "llama_server")


def enforcing(format: Format, server: Server, endpoint: Endpoint) -> dict[str, Any]:
    """Return the keyword arguments for the client's `create` that make the server enforce the format.

    Raises:
        UnsupportedFormat: the server has nothing that does.
    """
    if server == "formatter_vllm":
        return {"extra_body": formats.extra_body(format)}
    if isinstance(format, ChatAnswerFormat):
        return _chat_answer(format, server, endpoint)
    data = format.to_json()
    if server in _TAKE_GBNF:
        try:
            return {"extra_body": {"grammar": to_gbnf(format)}}
        except (InvalidGrammar, LimitExceeded) as error:
            takes_schema = endpoint == "chat" or server == "llama_server"
            if data["type"] not in ("json_schema", "python_type") or not takes_schema:
                raise UnsupportedFormat(f"its grammars cannot express this format: {error}", server=server) from None
    if data["type"] == "python_type":
        data = {**data["schema"], "schema": _without_look_around(data["schema"]["schema"])}
    kind = data["type"]
    if server == "vllm" and kind in _VLLM:
        value = _schema(data, server) if kind == "json_schema" else data[_VLLM[kind][1]]
        return {"extra_body": {"structured_outputs": {_VLLM[kind][0]: value}}}
    if server == "llama_server" and endpoint == "completions" and kind == "json_schema":
        return {"extra_body": {"json_schema": _schema(data, server)}}
    if server != "vllm" and endpoint == "chat" and kind == "json_schema":
        schema = _schema(data, server)
        if server == "llama_cpp":  # what it makes of a schema by itself is less, and is checked
            return {"response_format": {"type": "json_object", "schema": schema}}
        described = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": described}}
    better = _BETTER_LLAMA if server in ("ollama", "lmstudio") else _BETTER
    raise UnsupportedFormat(f"it has nothing for a {kind} at its {endpoint} endpoint; {better}", server=server)


def _chat_answer(format: ChatAnswerFormat, server: Server, endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments that enforce a chat answer at a chat endpoint.

    At the completions endpoint there are none; the text is only checked.
    """
    if endpoint == "completions":
        return {}
    arguments = {} if format.content is None else enforcing(format.content, server, endpoint)
    tools = tool_arguments(format)
    if server == "llama_server" and tools and "grammar" in arguments.get("extra_body", {}):
        # With tools it takes no grammar, but a schema.
        arguments = enforcing(format.content, "ollama", endpoint) if format.content is not None else {}
    return {**arguments, **tools}


def complains_of_format(error: Any, prompt: str) -> bool:
    """Tell whether a server's 400 refuses the format, and does not merely quote a prompt that mentions formats."""
    param = getattr(error, "param", None)
    if param:
        return _SPEAKS_OF_FORMATS.search(str(param).lower()) is not None
    said = {found.lower() for found in _SPEAKS_OF_FORMATS.findall(str(error).lower())}
    return any(word not in prompt.lower() for word in said)


def _schema(data: Mapping[str, Any], server: Server) -> Any:
    schema = data["schema"]
    schema = json.loads(schema) if isinstance(schema, str) else schema
    if not isinstance(schema, dict):
        raise UnsupportedFormat(f"it takes JSON Schemas that are objects, not {json.dumps(schema)}", server=server)
    if data["registry"]:
        raise UnsupportedFormat("it does not know the schemas of the registry; put them into $defs", server=server)
    # OpenAI wants an object's own keywords at the root, where a Python type has a reference to them.
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    named = schema.get("$defs", {}).get(name)
    if isinstance(named, dict) and schema.keys() <= {"$ref", "$defs", "$schema"}:
        return {**named, "$defs": schema["$defs"]}
    return schema


def _without_look_around(schema: Any) -> Any:
    """Return a Python type's schema without the patterns that servers refuse; answers are checked against all of it."""
    if isinstance(schema, list):
        return [_without_look_around(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    pattern = schema.get("pattern")
    refused = isinstance(pattern, str) and ("(?!" in pattern or "(?=" in pattern)
    return {key: _without_look_around(item) for key, item in schema.items() if not (refused and key == "pattern")}
