"""Provide lists that grow at their ends and are cheap to copy, because copies share all but the last few items."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["History", "shared_length"]

Item = TypeVar("Item")

_BLOCK = 128  # items; a copy takes at most that many


class _Block(Generic[Item]):
    """A block of items that no longer change, with a link to the block before it."""

    __slots__ = ("before", "items")

    def __init__(self, items: MutableSequence[Item], before: _Block[Item] | None) -> None:
        self.items = items
        self.before = before


class History(Generic[Item]):
    """A list in two parts: blocks that never change, which copies share, and a tail that grows.

    Args:
        tail: the first items, in a list of the wanted type; it is kept, not copied.

    Attributes:
        tail: the last items, always the same object: append to it. It is empty only if the history is.
        shared: the number of items before the tail.
    """

    __slots__ = ("_blocks", "shared", "tail")

    def __init__(self, tail: MutableSequence[Item]) -> None:
        self._blocks: _Block[Item] | None = None
        self.tail = tail
        self.shared = 0

    def __len__(self) -> int:
        return self.shared + len(self.tail)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.to_list())

    def __reversed__(self) -> Iterator[Item]:
        items, before = self.tail, self._blocks
        while True:
            yield from reversed(items)
            if before is None:
                return
            items, before = before.items, before.before

    def to_list(self) -> list[Item]:
        """Return all items as a new list."""
        parts, block = [self.tail], self._blocks
        while block is not None:
            parts.append(block.items)
            block = block.before
        items: list[Item] = []
        for part in reversed(parts):
            items.extend(part)
        return items

    def since(self, start: int) -> MutableSequence[Item]:
        """Return the items from `start` on, as a new list; quick near the end."""
        return self.tail[start - self.shared :] if start >= self.shared else self.to_list()[start:]

    def copy(self) -> History[Item]:
        """Return an independent history of the same items."""
        tail = self.tail
        full = (len(tail) - 1) // _BLOCK * _BLOCK
        if full > 0:
            for start in range(0, full, _BLOCK):
                self._blocks = _Block(tail[start : start + _BLOCK], self._blocks)
            del tail[:full]
            self.shared += full
        other = History(tail[:])
        other._blocks = self._blocks
        other.shared = self.shared
        return other

    def drop(self, count: int) -> None:
        """Remove the last `count` items, which must exist."""
        tail = self.tail
        while count >= len(tail) and self._blocks is not None:
            count -= len(tail)
            tail[:] = self._blocks.items
            self.shared -= len(tail)
            self._blocks = self._blocks.before
        del tail[len(tail) - count :]

    def clear(self) -> None:
        """Remove all items."""
        del self.tail[:]
        self._blocks = None
        self.shared = 0


def shared_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items two sequences have in common at their beginning; quick if one continues the other."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), shorter)
