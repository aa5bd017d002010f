"""HTTP without a network: what the client of the `openai` package sends is answered in this process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from formatter_core.errors import (
    BudgetTooSmall,
    InvalidArgument,
    InvalidFormat,
    PromptTooLong,
    UnsupportedFormat,
    UnsupportedLayout,
)
from formatter_core.formats.openai_request import error_answer
from formatter_openai._compat import http
from formatter_openai.local.service import Service

__all__ = ["AsyncLocalTransport", "LocalTransport"]

_STREAM = {"content-type": "text/event-stream"}
#: Faults of the request, as opposed to those of the model.
_FAULTS = (InvalidArgument, InvalidFormat, UnsupportedFormat, UnsupportedLayout, BudgetTooSmall, PromptTooLong)


class LocalTransport(http.BaseTransport):  # type: ignore[misc]
    """An HTTP transport that answers the requests of a client."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def handle_request(self, request: Any) -> Any:
        """Answer a request, as the client's HTTP library has it."""
        try:
            other = _other_answer(request, self._service)
            if other is not None:
                return other
            asked = self._service.read(request.read())
            if not asked.streams:
                return http.Response(200, json=self._service.answer(asked), request=request)
            chunks = self._service.chunks(asked)
            return http.Response(200, headers=_STREAM, stream=_Lines(next(chunks), chunks), request=request)
        except Exception as error:  # noqa: BLE001 - any error is reported to the client
            return _refusal(error, request)


class AsyncLocalTransport(http.AsyncBaseTransport):  # type: ignore[misc]
    """An HTTP transport that answers the requests of an asynchronous client."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def handle_async_request(self, request: Any) -> Any:
        """Answer a request, as the client's HTTP library has it."""
        try:
            other = _other_answer(request, self._service)
            if other is not None:
                return other
            asked = await asyncio.to_thread(self._service.read, await request.aread())
            if not asked.streams:
                return http.Response(200, json=await self._service.aanswer(asked), request=request)
            chunks = self._service.achunks(asked)
            lines = _AsyncLines(await anext(chunks), chunks)
            return http.Response(200, headers=_STREAM, stream=lines, request=request)
        except Exception as error:  # noqa: BLE001 - any error is reported to the client
            return _refusal(error, request)


class _Lines(http.SyncByteStream):  # type: ignore[misc]
    """Server-sent events of chunks."""

    def __init__(self, first: dict[str, Any], chunks: Iterator[dict[str, Any]]) -> None:
        self._first = first
        self._chunks: Any = chunks

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield _line(self._first)
            for chunk in self._chunks:
                yield _line(chunk)
        except Exception as error:  # noqa: BLE001 - the status is sent already, so the error goes into the stream
            yield _line(_told(error))
        yield b"data: [DONE]\n\n"

    def close(self) -> None:
        """Stop the model at its next token."""
        self._chunks.close()


class _AsyncLines(http.AsyncByteStream):  # type: ignore[misc]
    """A stream of the answer's lines for an asynchronous client."""

    def __init__(self, first: dict[str, Any], chunks: AsyncGenerator[dict[str, Any]]) -> None:
        self._first = first
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield _line(self._first)
            async for chunk in self._chunks:
                yield _line(chunk)
        except Exception as error:  # noqa: BLE001 - the status is sent already, so the error goes into the stream
            yield _line(_told(error))
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        """Stop the model at its next token."""
        await self._chunks.aclose()


def _line(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def _other_answer(request: Any, service: Service) -> Any | None:
    """Answer a request that is not for a chat completion."""
    if request.url.path.endswith("/models") and request.method == "GET":
        models = [{"id": service.name, "object": "model", "created": int(time.time()), "owned_by": "formatter"}]
        return http.Response(200, json={"object": "list", "data": models}, request=request)
    if request.url.path.endswith("/chat/completions") and request.method == "POST":
        return None
    reason = f"{request.url.path} is not answered here; ask for chat completions"
    return http.Response(404, json={"error": {"message": reason, "type": "invalid_request_error"}}, request=request)


def _refusal(error: Exception, request: Any) -> Any:
    return http.Response(400 if isinstance(error, _FAULTS) else 500, json=_told(error), request=request)


def _told(error: Exception) -> dict[str, Any]:
    return error_answer(error, is_fault_of_request=isinstance(error, _FAULTS))
