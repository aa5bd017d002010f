"""Read the format that a request to an OpenAI server asks for, and report errors to its client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from formatter_core.errors import FormatterError, InvalidArgument, UnsupportedLayout
from formatter_core.errors.arguments import one_of, shown
from formatter_core.formats.chat_answer import chat_answer
from formatter_core.formats.coercion import as_format
from formatter_core.formats.json_schema import json_schema
from formatter_core.formats.notations import gbnf
from formatter_core.formats.serialization import from_json
from formatter_core.layouts import Layout
from formatter_core.schema import Spelling

__all__ = ["error_answer", "extra_body", "has_format", "requested_format", "schema_of"]

#: The request field that may contain any format, with its content: vLLM passes on no other field.
_ANY_FORMAT = "vllm_xargs"
_KEY = "formatter"
_FIELDS = (
    _ANY_FORMAT,
    "response_format",
    "grammar",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
)


def extra_body(format: Any) -> dict[str, Any]:
    """Return request fields that make each server of this package enforce a format.

    ::

        client.chat.completions.create(model=name, messages=messages, extra_body=formats.extra_body(Person))

    These understand the fields: vLLM with `formatter_vllm`, `formatter_llama_cpp.server` and `formatter_mlx.server`
    (chat completions), and the clients that `formatter_openai.openai_client` makes.

    Args:
        format: a format that `Compiler.compile` accepts; for a Python type the server uses its JSON Schema.

    Raises:
        InvalidFormat: the object is not a format.
    """
    return {_ANY_FORMAT: {_KEY: json.dumps({"format": as_format(format).to_json()})}}


def error_answer(error: Exception, *, is_fault_of_request: bool = True) -> dict[str, Any]:
    """Return the body that reports an error to an OpenAI client."""
    message = str(error) if isinstance(error, FormatterError) else f"{type(error).__name__}: {error}"
    answer = {
        "message": message,
        "type": "invalid_request_error" if is_fault_of_request else "server_error",
        "param": getattr(error, "argument", None),
        "code": type(error).__name__,
    }
    return {"error": answer}


def has_format(request: Mapping[str, Any]) -> bool:
    """Return whether a request has a field that formats are made from."""
    return any(request.get(field) is not None for field in _FIELDS)


def requested_format(request: Mapping[str, Any], layout: Layout | None, *, prompt: str = "") -> Any | None:
    """Return the format of a request, not compiled; None if its text is free.

    Args:
        request: the fields of the request's body. Besides those of OpenAI's API, `grammar` is a text in GBNF, and
            `spelling` is the spelling of JSON, as for `json_schema`.
        layout: how the model writes turns; None if it is not known.
        prompt: the text before the answer; it may have opened or ended the model's reasoning.

    Raises:
        InvalidArgument: fields exclude each other, or have values that OpenAI's API does not allow.
        UnsupportedLayout: there are tools, but the model's layout is not known.
        FormatterError: any error of making the format.
    """
    if request.get("functions") is not None or request.get("function_call") is not None:
        raise InvalidArgument("functions and function_call are not supported; give tools and tool_choice")
    grammar, tools = request.get("grammar"), request.get("tools")
    spelling: Any = "canonical" if request.get("spelling") is None else request["spelling"]
    one_of(spelling, "spelling", get_args(Spelling))
    content = _content_format(request.get("response_format"), spelling)
    if grammar is not None and content is not None:
        raise InvalidArgument("response_format and grammar exclude each other; give one of them")
    if grammar is not None:
        if not isinstance(grammar, str):
            raise InvalidArgument(
                f"grammar is {shown(grammar)}; give the text of a grammar in GBNF", argument="grammar"
            )
        content = gbnf(grammar)
    any_format = _any_format(request.get(_ANY_FORMAT))
    if any_format is not None:
        if content is not None or request.get("tools"):
            reason = f"{_ANY_FORMAT}.{_KEY} excludes response_format, grammar and tools; give one of them"
            raise InvalidArgument(reason, argument=_ANY_FORMAT)
        return any_format
    choice = _tool_choice(request.get("tool_choice"))
    if not tools or choice == "none":
        if choice not in ("auto", "none"):
            raise InvalidArgument(f"tool_choice is {shown(choice)}, and there are no tools", argument="tool_choice")
        return content
    if not isinstance(tools, list):
        raise InvalidArgument(f"tools is {shown(tools)}; give a list", argument="tools")
    if layout is None:
        raise UnsupportedLayout("it is not known how this model writes tool calls; start the server with --layout NAME")
    return chat_answer(
        layout,
        tools=tools,
        tool_choice=choice,
        parallel=request.get("parallel_tool_calls") is not False,
        content=content,
        spelling=spelling,
    ).after(prompt)


def _any_format(arguments: Any) -> Any | None:
    """Return the format that `extra_body` has put into a request."""
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping) or arguments.keys() != {_KEY}:
        reason = f"{_ANY_FORMAT} is {shown(arguments)}; give what formats.extra_body returns"
        raise InvalidArgument(reason, argument=_ANY_FORMAT)
    wanted = arguments[_KEY]
    try:
        data = json.loads(wanted) if isinstance(wanted, str) else wanted
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{_ANY_FORMAT}.{_KEY} is not JSON: {error}", argument=_ANY_FORMAT) from None
    if not isinstance(data, Mapping) or data.keys() != {"format"}:
        reason = f"{_ANY_FORMAT}.{_KEY} is {shown(wanted)}; give what formats.extra_body returns"
        raise InvalidArgument(reason, argument=_ANY_FORMAT)
    return from_json(data["format"], type=Any)


def _content_format(wanted: Any, spelling: Spelling) -> Any | None:
    schema = schema_of(wanted)
    return None if schema is None else json_schema(schema, spelling=spelling)


def schema_of(wanted: Any) -> Any | None:
    """Return the schema in a `response_format`; None for free text."""
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        schema = wanted.get("schema")
        return {"type": "object"} if schema is None else schema
    if kind == "json_schema":
        named = wanted.get("json_schema")
        if isinstance(named, Mapping) and "schema" in named:
            return named["schema"]
    raise InvalidArgument(
        f'response_format is {shown(wanted)}; give {{"type": "text"}}, {{"type": "json_object", "schema": ...}} or '
        '{"type": "json_schema", "json_schema": {"schema": ...}}',
        argument="response_format",
    )


def _tool_choice(choice: Any) -> str | Mapping[str, Any]:
    if choice is None:
        return "auto"
    if isinstance(choice, Mapping):
        return "none" if choice.get("type") == "none" else choice
    if not isinstance(choice, str):
        raise InvalidArgument(
            'tool_choice is not "auto", "none", "required" or {"type": "function", "function": {"name": ...}}',
            argument="tool_choice",
        )
    return choice
