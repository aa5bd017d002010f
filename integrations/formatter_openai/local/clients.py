"""Clients of the `openai` package for a local model."""

from __future__ import annotations

from typing import Any

from formatter_core.layouts import Layout
from formatter_openai._compat import AsyncOpenAI, OpenAI, http
from formatter_openai.local.service import Service
from formatter_openai.local.transports import AsyncLocalTransport, LocalTransport

__all__ = ["ADDRESS", "async_openai_client", "clients", "http_clients", "openai_client"]

#: An address that nothing is sent to.
ADDRESS = "http://formatter.invalid/v1"


def openai_client(model: Any, *, layout: Layout | str | None = None) -> OpenAI:
    """Make an `openai.OpenAI` whose requests a model in this process answers, without a server.

    ::

        client = openai_client(transformers_model("Qwen/Qwen2.5-0.5B-Instruct"))
        client.chat.completions.create(model="", messages=messages, response_format=..., tools=...)

    Any library that takes such a client can use this project's models: each answer has the format that the request asks
    for (`response_format`, `tools` and `tool_choice`, `grammar`), enforced by masks if the model gives its logits, and
    checked if a server enforces it. The client supports chat completions, also as streams, and no other endpoint.

    Args:
        model: a model that `completion` takes. A model that gives its logits runs in its own thread, one request after
            the other; the prompt is written by its chat template.
        layout: how the model writes tool calls and reasoning, or its name; by default that of its chat template.

    Raises:
        InvalidArgument: the argument is not a model.
        UnsupportedLayout: there is no layout of that name.
    """
    return clients(model, layout)[0]


def async_openai_client(model: Any, *, layout: Layout | str | None = None) -> AsyncOpenAI:
    """Make an `openai.AsyncOpenAI` that a local model answers. Cancelling a task stops the model at its next token.

    Args:
        model: as in `openai_client`; also one whose outputs are awaited.
        layout: as in `openai_client`.

    Raises:
        FormatterError: as `openai_client`.
    """
    return clients(model, layout)[1]


def http_clients(model: Any, layout: Layout | str | None = None) -> tuple[Any, Any]:
    """Make the HTTP clients that these clients send with, one blocking and one asynchronous.

    They are for frameworks that make their own OpenAI clients. Both are answered by the same model, in the same thread.

    Raises:
        FormatterError: as `openai_client`.
    """
    service = Service(model, layout)
    return (
        http.Client(transport=LocalTransport(service)),
        http.AsyncClient(transport=AsyncLocalTransport(service)),
    )


def clients(model: Any, layout: Layout | str | None = None) -> tuple[OpenAI, AsyncOpenAI]:
    """Make both clients, answered by the same model in the same thread.

    Raises:
        FormatterError: as `openai_client`.
    """
    waiting, awaited = http_clients(model, layout)
    options: Any = {"api_key": "none", "base_url": ADDRESS, "max_retries": 0}  # nothing gets better by trying again
    return OpenAI(http_client=waiting, **options), AsyncOpenAI(http_client=awaited, **options)
