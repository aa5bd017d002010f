"""Holding a logits processor to one call of `generate`."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from formatter_core.runtime.hook import reused
from formatter_transformers import _compat_steps
from formatter_transformers.generations import Generation
from formatter_transformers.masks import LastWord

__all__ = ["OneCall"]


class OneCall:
    """A guard that admits one call of `generate`, in one thread, and refuses all other calls.

    Calls are distinguished by the list of processors that `generate` makes for each of them, so calls with equal
    prompts are not confused. The draft models of the call that was admitted are admitted, too.

    Attributes:
        generation: its prompts and the states of its rows, once it has begun.
        last_word: the processor at the end of the list that checks the ones between, if that is needed.
    """

    def __init__(self, closed: Sequence[weakref.ref[Any]] = ()) -> None:
        self.generation: Generation | None = None
        self.last_word: LastWord | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._processors: weakref.ref[Any] | None = None
        self._closed = closed
        self._is_closed = False

    def admit(self, step: _compat_steps.Step | None) -> bool:
        """Let in a step of the first call that comes; returns whether it is one of a draft model.

        Raises:
            HookReused: another call, which must not disturb the first one.
            FormatterError: any error of `_compat_steps.is_draft`.
        """
        thread, processors = threading.current_thread(), _compat_steps.processors_of(step)
        with self._lock:
            if self._is_closed or self._thread not in (None, thread):
                raise reused()
            if self._processors is not None and self._processors() is processors:
                return False
            is_draft = _compat_steps.is_draft(step)
            if not is_draft:
                if self._processors is not None or any(ref() is processors for ref in self._closed):
                    raise reused()
                self._processors = weakref.ref(processors)
            self._thread = thread
            return is_draft

    def runs_elsewhere(self) -> bool:
        """Tell whether another thread is inside its call of `generate`."""
        if self._thread in (None, threading.current_thread()) or self._processors is None:
            return False
        if self._processors() is not None:
            gc.collect()  # it may be over and wait in a cycle of references
        return self._processors() is not None

    def close(self) -> OneCall:
        """Refuse everything from now on; what this gives admits another call, but not this one if it still runs."""
        with self._lock:
            self._is_closed = True
            closed = [*self._closed, *([] if self._processors is None else [self._processors])]
            return OneCall([ref for ref in closed if ref() is not None])
