"""The adapter's access to the openai package; no other module inspects that package."""

from __future__ import annotations

import contextlib
import inspect
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from json import JSONDecodeError
from typing import Any

from formatter_core.errors import FormatterError, MalformedAnswer, UnsupportedEngineVersion

try:
    from openai import APIError, AsyncOpenAI, BadRequestError, DefaultHttpxClient, OpenAI
except ImportError as error:
    raise UnsupportedEngineVersion(
        "openai", found="(too old, or absent)", needed=">= 1.40", missing="OpenAI"
    ) from error

__all__ = [
    "APIError",
    "AsyncOpenAI",
    "BadRequestError",
    "OpenAI",
    "cut_off",
    "each_of",
    "each_of_async",
    "http",
    "is_async",
    "reading",
]

_NOTHING = object()

#: The library that the client sends requests with: `httpx`, or `httpx2` since openai 3.
http: Any = next(
    sys.modules[kind.__module__.split(".")[0]]
    for kind in DefaultHttpxClient.__mro__
    if kind.__module__.startswith("httpx")
)


def is_async(client: Any, create: Any) -> bool:
    """Tell whether a client's answers are awaited; `create` is its method, which may be wrapped."""
    return isinstance(client, AsyncOpenAI) or inspect.iscoroutinefunction(inspect.unwrap(create))


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise a `MalformedAnswer` for any error while the client reads an answer; an `APIError` passes unchanged.

    The client assumes well-formed answers and raises arbitrary errors for anything else: text that is not JSON, JSON of
    another shape, and, in older versions, a connection that breaks within a stream.
    """
    try:
        yield
    except FormatterError:
        raise
    except APIError as error:
        is_told = isinstance(error.body, dict) and error.body.get("message") == error.message
        if type(error) is not APIError or is_told:
            raise
        # An error within a stream, which the client replaces by its own message.
        raise MalformedAnswer("the stream reports an error", text=str(error.body)) from error
    except Exception as error:  # noqa: BLE001 - any other error of the client means a malformed answer
        text = error.doc if isinstance(error, JSONDecodeError) else ""
        raise MalformedAnswer(f"reading it raises {type(error).__name__}: {error}", text=text) from None


def each_of(stream: Any) -> Iterator[Any]:
    """Yield the chunks of a stream; raises like `reading`."""
    response = stream.response
    if kind := _other_kind(response):
        with reading():
            response.read()
            raise MalformedAnswer(f"a stream was expected, not {kind}", text=response.text)
    chunks = iter(stream)
    while True:
        with reading():
            chunk = next(chunks, _NOTHING)
        if chunk is _NOTHING:
            return
        yield chunk


async def each_of_async(stream: Any, turn: Callable[[], Awaitable[None]]) -> AsyncGenerator[Any]:
    """Yield the chunks of an asynchronous client's stream; raises like `reading`.

    Args:
        stream: what the client returned.
        turn: awaited between the arrival of bytes and their decoding, which takes most of the time.
    """
    response = stream.response
    arriving = response.aiter_bytes

    async def in_turn(*given: Any) -> AsyncGenerator[bytes]:
        async for data in arriving(*given):
            await turn()
            yield data

    response.aiter_bytes = in_turn
    if kind := _other_kind(response):
        with reading():
            await response.aread()
            raise MalformedAnswer(f"a stream was expected, not {kind}", text=response.text)
    chunks = aiter(stream)
    while True:
        with reading():
            chunk = await anext(chunks, _NOTHING)
        if chunk is _NOTHING:
            return
        yield chunk


def _other_kind(response: Any) -> str:
    """Return the kind of a response that the client would take for a stream without chunks; else an empty text."""
    kind: str = response.headers.get("content-type", "")
    return kind if kind.startswith(("text/html", "application/json")) else ""


def cut_off(stream: Any) -> None:
    """End a stream that another thread reads, even while it waits for the server.

    Closing the connection would not wake a thread that is reading from it; its socket, which the client's HTTP library
    shows as an extension, can be shut down. Without that the thread waits for the client's time-out.
    """
    network = getattr(getattr(stream, "response", None), "extensions", {}).get("network_stream")
    found = None if network is None else network.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):  # it is closed already
            found.shutdown(socket.SHUT_RDWR)
