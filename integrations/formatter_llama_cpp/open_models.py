"""Models that another thread may close: `Llama.close` waits for calls that are going on, and later ones are refused."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from formatter_core.limits.forking import TABLES, renew_in_child
from formatter_llama_cpp import _compat, _compat_context

__all__ = ["close_before_the_model", "in_use"]


class _Closes(Protocol):
    """An object that uses a model until it is closed."""

    def close(self) -> None:
        """Wait for calls in progress, and free the resources."""


class _OpenModel:
    """One loaded model: who calls its functions, and what has to be closed before it."""

    def __init__(self, llama: Any) -> None:
        self.is_closed = False
        self.users: weakref.WeakSet[_Closes] = weakref.WeakSet()
        self._renew()
        renew_in_child(self._renew)
        _compat_context.close_with(llama, self._close)

    def _renew(self) -> None:
        self.lock = threading.RLock()  # one call may be part of another

    def _close(self) -> None:
        with self.lock:
            self.is_closed = True
        # Without the lock: they wait for their own calls, which may use the model.
        for user in list(self.users):
            user.close()


_models: weakref.WeakKeyDictionary[Any, _OpenModel] = weakref.WeakKeyDictionary()


@contextmanager
def in_use(llama: Any) -> Iterator[None]:
    """Keep other threads from closing a model while its functions are called; they crash in a freed model.

    Take it before any other lock. The model is held weakly.

    Raises:
        InvalidArgument: the model is closed.
    """
    model = _of(llama)
    with model.lock:
        # While it is being closed, its pointers still look as if it were open.
        _compat.check_open(None if model.is_closed else llama)
        yield


def close_before_the_model(llama: Any, user: _Closes) -> None:
    """Close an object, which is held weakly, before `Llama.close` frees the model that it uses."""
    _of(llama).users.add(user)


def _of(llama: Any) -> _OpenModel:
    with TABLES:
        if llama not in _models:
            _models[llama] = _OpenModel(llama)
        return _models[llama]
