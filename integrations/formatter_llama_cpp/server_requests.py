"""Requests to the server in the library's own words, which drops fields that it does not know.

Here each field is honoured or refused, unless it says nothing about the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, true_or_false, whole_number
from formatter_core.formats.openai_request import schema_of
from formatter_llama_cpp import _compat_server

__all__ = ["KEPT", "in_library_words", "kept_fields"]

#: Fields that make a format, and that the library does not know.
KEPT = ("parallel_tool_calls", "spelling", "vllm_xargs")
#: The fields of the request that is being served.
kept_fields: ContextVar[Mapping[str, Any]] = ContextVar("kept_fields", default={})  # noqa: B039 (never changed)

#: Fields that identify the client and do not affect the answer.
_ABOUT_THE_CLIENT = {"user", "metadata", "safety_identifier", "prompt_cache_key"}
#: Values that request the default behaviour.
_ALREADY_SO: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "stream_options": ({}, {"include_usage": False}),
}
_OTHER_FORMATS = {"structured_outputs", "json_schema", "regex", "ebnf", "structural_tag", "choice"}


def in_library_words(request: Mapping[str, Any], llama: Any, *, is_chat: bool) -> dict[str, Any]:
    """Translate a request into fields that the library's server knows; the fields in `KEPT` are left out.

    Args:
        request: the body of the request.
        llama: the model that will answer.
        is_chat: whether it asks for a chat completion.

    Raises:
        InvalidArgument: a field that cannot be honoured, or that has the wrong type or value.
    """
    asked = {field: value for field, value in request.items() if value is not None and not _is_met(field, value)}
    true_or_false(asked.pop("parallel_tool_calls", True), "parallel_tool_calls")
    if "spelling" in asked:
        spelling = asked.pop("spelling")
        if "response_format" not in asked and "tools" not in asked:
            raise InvalidArgument(
                f"spelling={shown(spelling)} goes with response_format or tools; leave it out", argument="spelling"
            )
    if is_chat:
        asked.pop("vllm_xargs", None)
    if is_chat and "max_completion_tokens" in asked:
        most = asked.pop("max_completion_tokens")
        if asked.setdefault("max_tokens", most) != most:
            raise InvalidArgument(
                "max_tokens and max_completion_tokens differ; give one of them", argument="max_completion_tokens"
            )
    known = _compat_server.request_fields(is_chat=is_chat)
    for field in asked:
        if field in _ALREADY_SO or field not in known:
            raise InvalidArgument(_refusal(field, asked[field], is_chat), argument=field)
    if is_chat:
        schema = schema_of(asked.get("response_format"))
        if schema is not None:  # llama-cpp-python knows no "json_schema"
            asked["response_format"] = {"type": "json_object", "schema": schema}
        if isinstance(asked.get("messages"), list):
            asked["messages"] = [_message(message) for message in asked["messages"]]
    _check_values(asked, llama, is_chat=is_chat)
    _compat_server.check_request(asked, is_chat=is_chat)
    return asked


def _is_met(field: str, value: Any) -> bool:
    # True is not the number 1.
    return field in _ABOUT_THE_CLIENT or any(
        value == one and type(value) is type(one) for one in _ALREADY_SO.get(field, ())
    )


def _refusal(field: str, value: Any, is_chat: bool) -> str:
    if field in ("n", "best_of"):
        return f"{field} is {shown(value)}, but this server writes one answer for a request; send the request again"
    if field.startswith("guided_") or field in _OTHER_FORMATS:
        instead = "response_format with a JSON Schema, or grammar with a text in GBNF" if is_chat else "grammar (GBNF)"
        return f"this server does not know {field}; give {instead}"
    if not is_chat and field in ("response_format", "tools", "tool_choice"):
        return f"completions have no {field}; ask for a chat completion, or give grammar (GBNF)"
    return f"this server cannot do what {field}={shown(value)} asks for; leave it out"


def _message(message: Any) -> Any:
    """Return a message; an assistant's message gets a text, because templates concatenate its content."""
    if isinstance(message, Mapping) and message.get("role") == "assistant" and message.get("content") is None:
        return {**message, "content": ""}
    return message


def _check_values(asked: dict[str, Any], llama: Any, *, is_chat: bool) -> None:
    """Refuse what the library would answer with an internal error, and say in full what it would drop."""
    if asked.get("top_logprobs") is not None and asked.get("logprobs") is not True:
        raise InvalidArgument("top_logprobs needs logprobs: true", argument="top_logprobs")
    if asked.get("logprobs") not in (None, False) and not _compat_server.keeps_logits(llama):
        raise InvalidArgument(
            "logprobs need a server that was started with --logits_all true; leave them out", argument="logprobs"
        )
    if is_chat and asked.get("logprobs") is True:
        asked.setdefault("top_logprobs", 0)  # without which the library computes none
    prompt = asked.get("prompt")
    if not is_chat and isinstance(prompt, list) and len(prompt) > 1:
        raise InvalidArgument(f"prompt is a list of {len(prompt)}; send one prompt a request", argument="prompt")
    bias = asked.get("logit_bias")
    if isinstance(bias, Mapping) and asked.get("logit_bias_type") != "tokens":
        for token in bias:
            if not token.isdecimal() or int(token) >= llama.n_vocab():
                raise InvalidArgument(
                    f"logit_bias names the token {shown(token)}, but the model has the tokens 0 to "
                    f"{llama.n_vocab() - 1}",
                    argument="logit_bias",
                )
    for field in ("max_tokens", "min_tokens"):
        if field in asked:
            whole_number(asked[field], field)
