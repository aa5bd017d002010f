"""What the admission of requests needs from vLLM's server: two functions wrapped, methods added to its processes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from http import HTTPStatus
from importlib import import_module
from typing import Any

__all__ = [
    "add_method",
    "busy_error",
    "call_schedulers",
    "call_workers",
    "can_report_failures",
    "client_of_request",
    "config_of",
    "engine_class",
    "invalid_error",
    "know_clients",
    "optional_module",
    "report_failures",
    "wrap_add_request",
]

_WORKERS = ("vllm.v1.worker.worker_base", "WorkerBase")
_SCHEDULER = ("vllm.v1.engine.core", "EngineCore")
_SERVER = "vllm.v1.engine.async_llm"
#: An attribute that only wrapped functions have.
_MARK = "formatter_admits"


def wrap_add_request(admit: Callable[[Any, Any], Awaitable[None]]) -> bool:
    """Await `admit(engine, parameters)` before the asynchronous engine takes a request; False if that cannot be done.

    You may call it again. If nothing is wrapped, the logits processor still checks requests.
    """
    engine = engine_class()
    add = getattr(engine, "add_request", None)
    if not inspect.iscoroutinefunction(add):
        return False
    if hasattr(add, _MARK):
        return True
    signature = inspect.signature(add)
    if "params" not in signature.parameters:
        return False

    @functools.wraps(add)
    async def add_request(self: Any, *arguments: Any, **named: Any) -> Any:
        await admit(self, signature.bind(self, *arguments, **named).arguments.get("params"))
        return await add(self, *arguments, **named)

    setattr(add_request, _MARK, True)
    engine.add_request = add_request
    return True


def can_report_failures() -> bool:
    """Whether outputs can be made to end with an error."""
    processor, reasons = _outputs()
    parameters = inspect.signature(getattr(processor, "process_outputs", _outputs)).parameters
    return "engine_core_outputs" in parameters and hasattr(reasons, "ERROR")


def report_failures(failure_ids: set[int]) -> None:
    """Make outputs that stopped at one of these ids end with an error instead of "stop"; may be called again."""
    processor, reasons = _outputs()
    process: Any = getattr(processor, "process_outputs", None)
    if not can_report_failures() or hasattr(process, _MARK):
        return

    @functools.wraps(process)
    def process_outputs(self: Any, engine_core_outputs: Any, *arguments: Any, **named: Any) -> Any:
        for output in engine_core_outputs:
            if output.stop_reason in failure_ids and output.finish_reason == reasons.STOP:
                output.finish_reason, output.stop_reason = reasons.ERROR, None
        return process(self, engine_core_outputs, *arguments, **named)

    setattr(process_outputs, _MARK, True)
    processor.process_outputs = process_outputs


def _outputs() -> tuple[Any, Any]:
    """What makes the outputs of requests, and the reasons for which they end; None where vLLM has none."""
    processor = getattr(optional_module("vllm.v1.engine.output_processor"), "OutputProcessor", None)
    return processor, getattr(optional_module("vllm.v1.engine"), "FinishReason", None)


_client: ContextVar[Hashable] = ContextVar("formatter_client", default=None)


def client_of_request() -> Hashable:
    """Whose HTTP request this task serves: its connection and its API key; None if that is not known."""
    return _client.get()


def know_clients() -> None:
    """From now on, note for each HTTP request whose it is; may be called again."""
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


def add_method(name: str, function: Callable[..., Any]) -> None:
    """Add a method to the workers and to the process of the scheduler, as far as vLLM has these classes."""
    for module, kind in (_WORKERS, _SCHEDULER):
        if (found := getattr(optional_module(module), kind, None)) is not None:
            setattr(found, name, function)


async def call_schedulers(engine: Any, name: str, *arguments: Any) -> list[Any]:
    """What a method that was added says in the process of each scheduler; nothing where vLLM has no way to ask."""
    ask = getattr(getattr(engine, "engine_core", None), "call_utility_all_async", None)
    return [] if ask is None else list(await ask(name, *arguments))


async def call_workers(engine: Any, name: str, *arguments: Any) -> list[list[Any]]:
    """What a method that was added says in the workers of each scheduler, called between two steps."""
    schedulers = await call_schedulers(engine, "collective_rpc", name, None, arguments, None)
    return schedulers or [await engine.collective_rpc(name, args=arguments)]


def engine_class() -> Any:
    """vLLM's asynchronous engine; None where there is none."""
    return getattr(optional_module(_SERVER), "AsyncLLM", None)


def config_of(engine: Any) -> Any:
    """The `VllmConfig` of an asynchronous engine."""
    return engine.vllm_config


def invalid_error(message: str) -> Exception:
    """What vLLM answers with HTTP 400."""
    kind: type[Exception] = getattr(optional_module("vllm.exceptions"), "VLLMValidationError", ValueError)
    return kind(message)


def busy_error(message: str) -> Exception:
    """What vLLM answers with HTTP 503."""
    graceful = getattr(optional_module("vllm.exceptions"), "GracefulHTTPError", None)
    if graceful is not None:
        error: Exception = graceful(message, HTTPStatus.SERVICE_UNAVAILABLE)
        return error
    fastapi = import_module("fastapi")  # before 0.31
    unavailable: Exception = fastapi.HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, message)
    return unavailable


def optional_module(name: str) -> Any:
    """None where vLLM has no such module, or none that can be imported here."""
    try:
        return import_module(name)
    except Exception:  # noqa: BLE001 - whatever it is, vLLM must start
        return None
