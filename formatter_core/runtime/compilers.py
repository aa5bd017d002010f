"""The compilers of an adapter: one for each tokenizer or model that it meets, kept as long as that lives."""

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
    """Compilers by the object whose tokens they compile for, so that a vocabulary is read once; safe to share.

    The object is held weakly: its compilers go when it goes.
    """

    def __init__(self) -> None:
        self._compilers: WeakKeyDictionary[Any, dict[Hashable, Compiler]] = WeakKeyDictionary()
        self._renew_lock()
        renew_in_child(self._renew_lock)

    def get(self, owner: Any, key: Hashable, read: Callable[[], Vocabulary]) -> Compiler:
        """The compiler of `owner` for this `key`, made from the vocabulary that `read` gives where there is none.

        Args:
            owner: a tokenizer or a model. The vocabulary must not hold it, or neither would ever go.
            key: whatever else the vocabulary depends on, such as the end ids.
            read: reads the vocabulary; what it raises is raised, and asked for again the next time.

        Raises:
            InvalidArgument: `owner` is a plain value.
        """
        with self._lock:
            try:
                compilers = self._compilers.setdefault(owner, {})
            except TypeError as error:  # values such as texts and lists
                raise InvalidArgument(
                    f"{shown(owner)} is neither a tokenizer nor a model; pass the loaded object", argument="tokenizer"
                ) from error
            if key not in compilers:
                compilers[key] = Compiler(read())
            return compilers[key]

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
