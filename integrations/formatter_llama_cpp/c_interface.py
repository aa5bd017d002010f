"""llama.cpp's function table for custom samplers, and the samplers that it owns."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, Protocol

from formatter_llama_cpp import _compat

__all__ = ["NativeHooks", "check_release", "live", "native_sampler"]

_NAME = ctypes.create_string_buffer(b"formatter-core")


class NativeHooks(Protocol):
    """The methods that llama.cpp calls on a sampler."""

    def apply(self, candidates: Any) -> None:
        """Mask the candidates, a pointer to a `llama_token_data_array`."""

    def accept(self, token_id: int) -> None:
        """Follow a token that was sampled."""

    def reset(self) -> None:
        """Begin a new sequence."""

    def fork(self) -> NativeHooks:
        """Return an independent sampler in the same state."""

    def native(self) -> Any:
        """Return this sampler's `llama_sampler` (pointer)."""


def check_release() -> None:
    """Raise `UnsupportedEngineVersion` if this release does not support custom samplers."""
    _interface()


def native_sampler(hooks: NativeHooks) -> Any:
    """Create a `llama_sampler` (pointer) that calls these hooks; they live until llama.cpp frees it."""
    handle = next(_handles)
    live[handle] = hooks
    return _compat.library.llama_sampler_init(_interface(), ctypes.c_void_p(handle))


#: The samplers that llama.cpp holds, by their numbers in C; freeing a sampler removes it.
live: dict[int, NativeHooks] = {}
_handles = itertools.count(1)
_made: list[Any] = []


def _interface() -> Any:
    """Return the function table that llama.cpp calls, one for all samplers; it must outlive them."""
    if not _made:
        _made.append(_make_interface())
    return _made[0]


def _make_interface() -> Any:
    _compat.first_of("llama_sampler_init", needed=">= 0.3.17")
    table = _compat.library.llama_sampler_i()
    pointer = ctypes.c_void_p

    def of(native: int) -> NativeHooks:
        return live[ctypes.cast(native, ctypes.POINTER(_compat.library.llama_sampler)).contents.ctx]

    def apply(native: int, candidates: int) -> None:
        of(native).apply(ctypes.cast(candidates, ctypes.POINTER(_compat.library.llama_token_data_array)))

    def clone(native: int) -> int:
        return int(ctypes.cast(of(native).fork().native(), pointer).value or 0)

    def free(native: int) -> None:
        live.pop(ctypes.cast(native, ctypes.POINTER(_compat.library.llama_sampler)).contents.ctx, None)

    # With void pointers, because a callback cannot return any other kind.
    functions: dict[str, tuple[Callable[..., Any], Any, list[Any]]] = {
        "name": (lambda native: ctypes.addressof(_NAME), pointer, [pointer]),
        "accept": (lambda native, token: of(native).accept(token), None, [pointer, ctypes.c_int32]),
        "apply": (apply, None, [pointer, pointer]),
        "reset": (lambda native: of(native).reset(), None, [pointer]),
        "clone": (clone, pointer, [pointer]),
        "free": (free, None, [pointer]),
    }
    types = dict(table._fields_)
    for name, (function, result, arguments) in functions.items():
        callback = ctypes.CFUNCTYPE(result, *arguments)(function)
        setattr(table, name, ctypes.cast(callback, types[name]))
        _made_callbacks.append(callback)
    return table


_made_callbacks: list[Any] = []
