"""Hooks into vLLM's engine for the admission of requests: one wrapped function, and methods added to its processes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from formatter_vllm._compat_server import optional_module

__all__ = [
    "add_method",
    "call_schedulers",
    "call_workers",
    "config_of",
    "engine_class",
    "wrap_add_request",
]

_WORKERS = ("vllm.v1.worker.worker_base", "WorkerBase")
_SCHEDULER = ("vllm.v1.engine.core", "EngineCore")
_ENGINE = "vllm.v1.engine.async_llm"
#: An attribute that only wrapped functions have.
_MARK = "formatter_admits"


def wrap_add_request(admit: Callable[[Any, str, Any], Awaitable[None]]) -> bool:
    """Await `admit(engine, id, parameters)` before the engine takes a request; False if that cannot be done.

    You may call it again. If nothing is wrapped, the logits processor still checks requests.
    """
    engine = engine_class()
    add = getattr(engine, "add_request", None)
    if not inspect.iscoroutinefunction(add):
        return False
    if hasattr(add, _MARK):
        return True
    signature = inspect.signature(add)
    if not {"request_id", "params"} <= {*signature.parameters}:
        return False

    @functools.wraps(add)
    async def add_request(self: Any, *arguments: Any, **named: Any) -> Any:
        given = signature.bind(self, *arguments, **named).arguments
        await admit(self, given["request_id"], given.get("params"))
        return await add(self, *arguments, **named)

    setattr(add_request, _MARK, True)
    engine.add_request = add_request
    return True


def add_method(name: str, function: Callable[..., Any]) -> None:
    """Add a method to the workers and to the process of the scheduler, as far as vLLM has these classes."""
    for module, kind in (_WORKERS, _SCHEDULER):
        if (found := getattr(optional_module(module), kind, None)) is not None:
            setattr(found, name, function)


async def call_schedulers(engine: Any, name: str, *arguments: Any) -> list[Any]:
    """Call an added method in the process of each scheduler; return no answers if vLLM has no such call."""
    ask = getattr(getattr(engine, "engine_core", None), "call_utility_all_async", None)
    return [] if ask is None else list(await ask(name, *arguments))


async def call_workers(engine: Any, name: str, *arguments: Any) -> list[list[Any]]:
    """Call an added method in the workers of each scheduler, between two steps."""
    schedulers = await call_schedulers(engine, "collective_rpc", name, None, arguments, None)
    return schedulers or [await engine.collective_rpc(name, args=arguments)]


def engine_class() -> Any:
    """Return vLLM's asynchronous engine; None if there is none."""
    return getattr(optional_module(_ENGINE), "AsyncLLM", None)


def config_of(engine: Any) -> Any:
    """Return the `VllmConfig` of an asynchronous engine."""
    return engine.vllm_config
