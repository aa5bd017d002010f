"""A request for a chat completion, read from its body: every field is honoured or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, true_or_false, whole_number
from formatter_core.formats.openai_request import requested_format
from formatter_core.layouts import Layout

__all__ = ["Asked", "read_request"]

#: The fields that become settings of a call, with their names there.
_SETTINGS = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "n": "n",
    "stop": "stop_strings",
}
#: Of what format the answer is, as `requested_format` reads it.
_FORMAT = {
    "response_format",
    "grammar",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "spelling",
    "vllm_xargs",
    "functions",
    "function_call",
}
#: The fields that do not affect the answer.
_ABOUT_THE_CLIENT = {"user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier", "store"}
#: Values that request the default behaviour.
_ALREADY_SO: dict[str, Any] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": {},
    "modalities": ["text"],
}
_OTHERS = {"model", "messages", "stream", "stream_options", "logprobs", "top_logprobs"}


@dataclass(frozen=True)
class Asked:
    """The content of a chat request, read into Python values.

    Attributes:
        model: the model's name in the request.
        messages: the messages of the conversation.
        format: a format that `Compiler.compile` takes; None for free text.
        settings: the settings of the call, with the names of `CallSettings`.
        streams: whether the answer is a stream.
        tells_usage: whether the stream ends with the counts of tokens.
        tells_scores: whether log-probabilities are returned.
        most_scores: the number of best tokens returned with each token.
    """

    model: str
    messages: list[dict[str, Any]]
    format: Any
    settings: dict[str, Any]
    streams: bool
    tells_usage: bool
    tells_scores: bool
    most_scores: int


def read_request(body: bytes, layout: Layout | None) -> Asked:
    """Read the body of a request.

    Args:
        body: JSON.
        layout: how the model writes turns; None if it is not known.

    Raises:
        FormatterError: the format is invalid, or a field is not supported.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise InvalidArgument("the request has no list of messages", argument="messages")
    given = {field: value for field, value in request.items() if value is not None}
    for field, value in given.items():
        if field in _OTHERS or field in _SETTINGS or field in _FORMAT or field in _ABOUT_THE_CLIENT:
            continue
        if field not in _ALREADY_SO or value != _ALREADY_SO[field]:
            raise InvalidArgument(f"{field}={shown(value)} is not supported here; leave it out", argument=field)
    settings = _settings(given)
    scores = true_or_false(given.get("logprobs", False), "logprobs")
    most = whole_number(given.get("top_logprobs", 0), "top_logprobs")
    if scores:
        settings["logprobs"] = most or True
    options = given.get("stream_options", {})
    return Asked(
        str(given.get("model", "")),
        [_message(message) for message in given["messages"]],
        requested_format(given, layout),
        settings,
        true_or_false(given.get("stream", False), "stream"),
        isinstance(options, Mapping) and options.get("include_usage") is True,
        scores,
        most,
    )


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for field, name in _SETTINGS.items():
        if field not in given:
            continue
        value = given[field]
        if isinstance(value, list) and field != "stop":
            raise InvalidArgument(f"{field} is {shown(value)}; give one value", argument=field)
        if settings.setdefault(name, value) != value:
            raise InvalidArgument("max_tokens and max_completion_tokens differ; give one of them", argument=field)
    return settings


def _message(message: Any) -> dict[str, Any]:
    """Return a message with its content joined into one text, or unchanged."""
    if not isinstance(message, Mapping) or "role" not in message:
        raise InvalidArgument(f"{shown(message)} is not a message; it has no role", argument="messages")
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        if len(texts) != len(content) or not all(isinstance(text, str) for text in texts):
            raise InvalidArgument("a message has parts that are not text; give text alone", argument="messages")
        content = "".join(map(str, texts))
    return {**message, "content": "" if content is None else content}
