"""Hooks of this project's server into the server of llama-cpp-python."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion
from formatter_core.layouts import Layout
from formatter_core.layouts.lookup import known_layout
from formatter_llama_cpp._compat import library
from formatter_llama_cpp._compat_chat import handler_of as chat_handler

__all__ = [
    "chat_handler",
    "check_request",
    "in_thread",
    "keeps_logits",
    "layout_of",
    "loaded_model",
    "request_fields",
    "serve",
]

_T = TypeVar("_T")
_NEEDED = ("LlamaProxy", "create_app")
_layouts: WeakKeyDictionary[Any, Layout | None] = WeakKeyDictionary()


def serve(arguments: Sequence[str], prepare: Callable[[Any], None], around: Callable[[Any], Any]) -> None:
    """Run the library's server.

    Args:
        arguments: its command line.
        prepare: called with every model that it loads.
        around: makes the ASGI application that wraps the library's own.

    Raises:
        UnsupportedEngineVersion: the server lacks a needed interface.
    """
    app: Any = importlib.import_module("llama_cpp.server.app")
    command: Any = importlib.import_module("llama_cpp.server.__main__")
    for name in _NEEDED:
        if not hasattr(app, name):
            found = str(getattr(library, "__version__", "of unknown version"))
            raise UnsupportedEngineVersion("llama-cpp-python", found=found, needed=">= 0.3.0", missing=name)
    load, create = app.LlamaProxy.load_llama_from_model_settings, app.create_app

    def loaded(settings: Any) -> Any:
        llama = load(settings)
        prepare(llama)
        return llama

    def created(server_settings: Any, **settings: Any) -> Any:
        # By default a stream is cut off where another request waits.
        if "interrupt_requests" not in server_settings.model_fields_set:
            server_settings.interrupt_requests = False
        return around(create(server_settings=server_settings, **settings))

    app.LlamaProxy.load_llama_from_model_settings = staticmethod(loaded)
    command.create_app = created
    sys.argv = ["formatter_llama_cpp.server", *arguments]
    command.main()


def loaded_model() -> Any:
    """Return the model that the server has loaded.

    Raises:
        InvalidArgument: it has none.
    """
    proxy = importlib.import_module("llama_cpp.server.app")._llama_proxy
    llama = None if proxy is None else proxy._current_model
    if llama is None:
        raise InvalidArgument("the server has no model loaded")
    return llama


def request_fields(*, is_chat: bool) -> Container[str]:
    """Return the fields of a request that the library's server knows."""
    fields: Container[str] = _request_type(is_chat).model_fields
    return fields


def check_request(request: dict[str, Any], *, is_chat: bool) -> None:
    """Read a request as the library's server does, which would answer with an internal error.

    Raises:
        InvalidArgument: it refuses the request.
    """
    try:
        _request_type(is_chat).model_validate(request)
    except ValueError as error:
        found: list[Any] = getattr(error, "errors", list)()
        where = ".".join(map(str, found[0]["loc"])) if found else "the request"
        reason = found[0]["msg"] if found else str(error)
        raise InvalidArgument(f"{where}: {reason}", argument=where.partition(".")[0]) from error


def _request_type(is_chat: bool) -> Any:
    types = importlib.import_module("llama_cpp.server.types")
    return types.CreateChatCompletionRequest if is_chat else types.CreateCompletionRequest


def keeps_logits(llama: Any) -> bool:
    """Tell whether a model can return the log-probabilities of its tokens."""
    return bool(getattr(llama, "_logits_all", True))


def in_thread(function: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
    """Call a function in a thread of the server's pool."""
    pool: Callable[..., Awaitable[_T]] = importlib.import_module("starlette.concurrency").run_in_threadpool
    return pool(function, *arguments)


def layout_of(llama: Any) -> Layout | None:
    """Return the layout that the chat template in the model's file writes; None if there is none or it is unknown."""
    if llama not in _layouts:
        template = (getattr(llama, "metadata", None) or {}).get("tokenizer.chat_template")
        _layouts[llama] = None if template is None else known_layout(_Template(template))
    return _layouts[llama]


class _Template:
    """A chat template with the method of transformers' tokenizers, for `Layout.from_tokenizer`."""

    def __init__(self, template: str) -> None:
        kind = library.llama_chat_format.Jinja2ChatFormatter
        self._written = {
            prompt: kind(template=template, eos_token="", bos_token="", add_generation_prompt=prompt)
            for prompt in (False, True)
        }

    def apply_chat_template(
        self, messages: Any, *, tools: Any = None, tokenize: bool = False, add_generation_prompt: bool = False
    ) -> str:
        """Return the conversation as text."""
        return str(self._written[add_generation_prompt](messages=messages, tools=tools).prompt)
