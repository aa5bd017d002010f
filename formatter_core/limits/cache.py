"""A least-recently-used cache that is bounded in bytes and makes each value once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from formatter_core.limits.forking import renew_in_child

__all__ = ["ByteBoundedCache"]

Value = TypeVar("Value")

#: Measuring a value takes several times as long as finding one.
_MEASURED_EVERY = 16


class ByteBoundedCache(Generic[Value]):
    """A cache of at most `maximum_bytes` as measured by `size_of`; it is safe to share between threads.

    Two threads that ask for the same key at once make its value once; the error of a failed call is not kept.

    Args:
        maximum_bytes: the maximum size in bytes.
        size_of: measures a value.
        grows: whether values grow while they are cached. If so, one of them, in turn, is measured again with every new
            value, and once every few calls of `get`.
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
        """The size in bytes of the values in the cache."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Value]:
        """Return all values in the cache."""
        with self._lock:
            return [value for value, _ in self._values.values()]

    def get(self, key: Hashable, make: Callable[..., Value], *arguments: object) -> Value:
        """Return the value of `key`; call `make` with the arguments if the cache has none."""
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
                    continue  # another thread made the value while this one waited: look again
                try:
                    value = make(*arguments)
                    if self._grows:
                        self._measure_one()
                    self._keep(key, value)
                    return value
                finally:
                    with self._lock:
                        self._making.pop(key, None)  # the entry is gone if `make` forked and this is the child

    def forget(self, key: Hashable, value: Value) -> None:
        """Remove a value, unless it has been replaced."""
        with self._lock:
            found = self._values.get(key)
            if found is not None and found[0] is value:
                del self._values[key]
                self._bytes -= found[1]

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _renew_locks(self) -> None:
        """Replace the locks in a forked child: the other threads do not finish their values there."""
        self._lock = threading.Lock()
        self._making = {}
        self._bytes = sum(size for _, size in self._values.values())

    def _measure_one(self) -> None:
        """Measure the next value in turn again."""
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
                self._values[key] = (value, size)  # keep its place in the order of use
                self._bytes += size - before
                dropped = self._dropped()
            dropped.clear()  # freeing them takes long; do it without the lock

    def _keep(self, key: Hashable, value: Value) -> None:
        size = self._size_of(value)
        with self._lock:
            self._values[key] = (value, size)
            self._bytes += size
            dropped = self._dropped()
        dropped.clear()

    def _dropped(self) -> list[Value]:
        """Remove the values that exceed the bound, the least recently used first."""
        dropped = []
        while self._bytes > self._maximum and self._values:
            _, (value, size) = self._values.popitem(last=False)
            self._bytes -= size
            dropped.append(value)
        return dropped
