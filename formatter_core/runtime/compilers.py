"""Keep the compilers of an adapter: one for each tokenizer or model, as long as that object lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.limits.forking import renew_in_child
from formatter_core.runtime.compiler import Compiler
from formatter_core.vocabulary import Vocabulary

__all__ = ["CompilersByOwner"]


class CompilersByOwner:
    """A cache of compilers by the object whose tokens they compile for, so that each vocabulary is read once;
    thread-safe.

    The object is held weakly: its compilers are freed with it.
    """

    def __init__(self) -> None:
        self._compilers: WeakKeyDictionary[Any, dict[Hashable, Compiler]] = WeakKeyDictionary()
        self._renew_lock()
        renew_in_child(self._renew_lock)

    def get(self, owner: Any, key: Hashable, read: Callable[[], Vocabulary]) -> Compiler:
        """Return the compiler of `owner` for this `key`; if there is none, make it from the vocabulary that `read`
        returns.

        Args:
            owner: a tokenizer or a model. The vocabulary must not hold a reference to it, or neither would ever be
                freed.
            key: anything else that the vocabulary depends on, such as the end ids.
            read: reads the vocabulary; its error is raised, and the next call tries again.

        Raises:
            InvalidArgument: `owner` is a plain value, such as a text or a list.
        """
        with self._lock:
            try:
                compilers = self._compilers.setdefault(owner, {})
            except TypeError as error:  # plain values, such as texts and lists
                raise InvalidArgument(
                    f"{shown(owner)} is neither a tokenizer nor a model; pass the loaded object", argument="tokenizer"
                ) from error
            if key not in compilers:
                compilers[key] = Compiler(read())
            return compilers[key]

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
