"""llama-cpp-python's OpenAI server with the masks of this project.

    python -m formatter_llama_cpp.server --model model.gguf [--layout hermes] [every option of llama_cpp.server]

`response_format`, `grammar`, `tools` and `tool_choice` become formats. A request whose format is faulty, or that is not
supported, is answered with status 400 before anything is generated; everything else is the library's own.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.formats.openai_request import error_answer, has_format, requested_format
from formatter_core.layouts import Layout
from formatter_core.layouts.lookup import layout_option
from formatter_llama_cpp import _compat_server
from formatter_llama_cpp.server_chat import FormatChat, format_completion
from formatter_llama_cpp.server_requests import KEPT, in_library_words, kept_fields
from formatter_llama_cpp.vocabulary import compiled_format

__all__ = ["FormatCheck", "main"]

_CHAT_PATH = "/v1/chat/completions"
_PATHS = (_CHAT_PATH, "/v1/completions", "/v1/engines/copilot-codex/completions")
#: Larger bodies are refused: formats and prompts are far smaller.
_MAX_BODY_BYTES = 32 * 2**20
#: glibc's number of the setting for the maximum number of arenas.
_ARENAS = -8

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve; `arguments` are those of the command line."""
    layout, others = layout_option(arguments)
    _share_memory()
    _compat_server.serve(others, lambda llama: prepare(llama, layout), lambda app: FormatCheck(app, layout))


def _share_memory() -> None:
    """Let all threads take memory from one arena, where the C library is glibc.

    Otherwise each thread of the server's pool has an arena that grows to what the largest request took there, so that
    the process grows for thousands of requests.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_ARENAS, 1)


def prepare(llama: Any, layout: Layout | None) -> None:
    """Make a loaded model keep the formats that are requested of it."""
    found = _compat_server.layout_of(llama) if layout is None else layout
    llama.chat_handler = FormatChat(_compat_server.chat_handler(llama), found)
    llama.create_completion = format_completion(llama, llama.create_completion)


class FormatCheck:
    """A check that refuses requests with invalid formats before the answer begins: a stream cannot change its status
    later.
    """

    def __init__(self, app: Any, layout: Layout | None) -> None:
        self._app = app
        self._layout = layout

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Serve one request, as ASGI has it."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in _PATHS:
            await self._app(scope, receive, send)
            return
        sent = await _read(receive)
        if sent is None:
            return  # the client has disconnected
        try:
            body, kept = await _compat_server.in_thread(self.checked, sent, scope["path"] == _CHAT_PATH)
        except FormatterError as error:
            await _refuse(send, error)
            return
        kept_fields.set(kept)
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        scope["headers"] = [*headers, (b"content-length", str(len(body)).encode())]
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> _Message:
            return next(parts, None) or await receive()

        await self._app(scope, again, send)

    def checked(self, body: bytes, is_chat: bool) -> tuple[bytes, dict[str, Any]]:
        """Return the body of a request in the library's own fields, and the fields that the library does not have.

        Raises:
            FormatterError: the requested format is invalid, or the request asks for something that is not supported.
        """
        if len(body) > _MAX_BODY_BYTES:
            raise InvalidArgument(f"the request has {len(body)} bytes; send at most {_MAX_BODY_BYTES}")
        try:
            request = json.loads(body)
        except RecursionError as error:
            raise InvalidArgument("the request is nested too deeply") from error
        except ValueError as error:  # the library would answer with status 500
            raise InvalidArgument(f"the request is not JSON ({error}); send one JSON object") from error
        if not isinstance(request, dict):
            raise InvalidArgument("the request is JSON, but not an object; send one JSON object")
        llama = _compat_server.loaded_model()
        if has_format(request):
            layout = self._layout or _compat_server.layout_of(llama)
            format = requested_format(request, layout)
            if format is not None:
                compiled_format(llama, format)
        words = in_library_words(request, llama, is_chat=is_chat)
        kept = {field: request[field] for field in KEPT if field in request}
        return json.dumps(words).encode(), kept


async def _read(receive: _Receive) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _refuse(send: _Send, error: FormatterError) -> None:
    body = json.dumps(error_answer(error)).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    main(sys.argv[1:])
