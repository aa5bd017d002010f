"""A least-recently-used cache that is bounded in bytes and makes each value once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from formatter_core.limits.forking import renew_in_child

__all__ = ["ByteBoundedCache"]

Value = TypeVar("Value")

#: Measuring a value takes some times as long as finding one.
_MEASURED_EVERY = 16


class ByteBoundedCache(Generic[Value]):
    """Values by key, at most `maximum_bytes` of them by their own measure; safe to share between threads.

    Two threads that ask for the same key at once share one making of it; a making that fails is not kept.

    Args:
        maximum_bytes: how many bytes there may be.
        size_of: measures a value.
        grows: whether values grow while they are kept. Then one of them, each in turn, is measured anew with every
            value that is made, and once in some calls of `get`.
    """

    def __init__(self, maximum_bytes: int, size_of: Callable[[Value], int], *, grows: bool = False) -> None:
        self._maximum = maximum_bytes
        self._size_of = size_of
        self._grows = grows
        self._due: list[Hashable] = []
        self._gets = 0
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock]
        self._bytes = 0
        self._renew_locks()
        renew_in_child(self._renew_locks)

    @property
    def bytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Value]:
        """All values held now."""
        with self._lock:
            return [value for value, _ in self._values.values()]

    def get(self, key: Hashable, make: Callable[..., Value], *arguments: object) -> Value:
        """The value of `key`, made by `make` of the arguments where it is not held."""
        self._gets += 1
        if self._grows and self._gets % _MEASURED_EVERY == 0:
            self._measure_one()
        while True:
            with self._lock:
                found = self._values.get(key)
                if found is not None:
                    self._values.move_to_end(key)
                    return found[0]
                turn = self._making.setdefault(key, threading.Lock())
            with turn:
                with self._lock:
                    current = self._making.get(key) is turn
                if not current:
                    continue  # another thread finished while this one waited: look again
                try:
                    value = make(*arguments)
                    if self._grows:
                        self._measure_one()
                    self._keep(key, value)
                    return value
                finally:
                    with self._lock:
                        self._making.pop(key, None)  # gone where `make` forked, and this is the child

    def forget(self, key: Hashable, value: Value) -> None:
        """Forget a value, unless it has been replaced."""
        with self._lock:
            found = self._values.get(key)
            if found is not None and found[0] is value:
                del self._values[key]
                self._bytes -= found[1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _renew_locks(self) -> None:
        """Forget other threads: in a forked child they do not finish their values."""
        self._lock = threading.Lock()
        self._making = {}
        self._bytes = sum(size for _, size in self._values.values())

    def _measure_one(self) -> None:
        """Measure the value anew whose turn it is."""
        with self._lock:
            if not self._due:
                self._due = list(self._values)
            key = self._due.pop() if self._due else None
            found = self._values.get(key)
        if found is None:
            return
        value, before = found
        size = self._size_of(value)
        if size != before:
            with self._lock:
                if self._values.get(key) is not found:
                    return
                self._values[key] = (value, size)  # its place in the order of use stays
                self._bytes += size - before
                dropped = self._dropped()
            dropped.clear()  # freeing them takes long, and nobody waits for the lock

    def _keep(self, key: Hashable, value: Value) -> None:
        size = self._size_of(value)
        with self._lock:
            self._values[key] = (value, size)
            self._bytes += size
            dropped = self._dropped()
        dropped.clear()

    def _dropped(self) -> list[Value]:
        """Take out the values that are too many, those first that were not used for longest."""
        dropped = []
        while self._bytes > self._maximum and self._values:
            _, (value, size) = self._values.popitem(last=False)
            self._bytes -= size
            dropped.append(value)
        return dropped
