"""Hooks into vLLM's server for the admission of requests: the client of a request, and the errors to answer with."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from contextvars import ContextVar
from http import HTTPStatus
from importlib import import_module
from typing import Any

__all__ = ["busy_error", "client_of_request", "invalid_error", "know_clients", "optional_module"]

#: An attribute that only wrapped functions have.
_MARK = "formatter_admits"

_client: ContextVar[Hashable] = ContextVar("formatter_client", default=None)


def client_of_request() -> Hashable:
    """Return the client of this task's HTTP request: its connection and API key; None if it is not known."""
    return _client.get()


def know_clients() -> None:
    """Record the client of each HTTP request from now on; this may be called again."""
    kind = getattr(optional_module("fastapi"), "FastAPI", None)
    if kind is None or hasattr(kind.__call__, _MARK):
        return
    call = kind.__call__

    @functools.wraps(call)
    async def note_client(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("type") == "http":
            keys = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
            _client.set((tuple(scope.get("client") or ()), *keys))
        await call(self, scope, receive, send)

    setattr(note_client, _MARK, True)
    kind.__call__ = note_client


def invalid_error(message: str) -> Exception:
    """Make the error that vLLM answers with HTTP 400."""
    kind: type[Exception] = getattr(optional_module("vllm.exceptions"), "VLLMValidationError", ValueError)
    return kind(message)


def busy_error(message: str) -> Exception:
    """Make the error that vLLM answers with HTTP 503."""
    graceful = getattr(optional_module("vllm.exceptions"), "GracefulHTTPError", None)
    if graceful is not None:
        error: Exception = graceful(message, HTTPStatus.SERVICE_UNAVAILABLE)
        return error
    fastapi = import_module("fastapi")  # before 0.31
    unavailable: Exception = fastapi.HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, message)
    return unavailable


def optional_module(name: str) -> Any:
    """Import a module of vLLM; return None if it is missing or cannot be imported here."""
    try:
        return import_module(name)
    except Exception:  # noqa: BLE001 - vLLM must start despite any error
        return None
