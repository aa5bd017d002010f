"""Keys and values of earlier sequences, for those that begin alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from formatter_core.errors import InvalidArgument
from formatter_core.runtime.history import shared_length
from formatter_transformers._compat_cache import segment_of
from formatter_transformers.key_values import Segment

__all__ = ["PrefixCache"]


@dataclass(eq=False)
class _Node:
    """A node of the cache: tokens that follow those of the parent, with their keys and values."""

    tokens: tuple[int, ...]
    segment: Segment
    parent: _Node | None
    used_at: int = 0
    is_pinned: bool = False
    children: dict[int, _Node] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for pair in self.segment for t in pair)

    def all(self) -> Iterator[_Node]:
        """Yield this node and all nodes below it."""
        pending = [self]
        while pending:
            node = pending.pop()
            pending.extend(node.children.values())
            yield node


class PrefixCache:
    """A trie of token sequences whose nodes keep keys and values; what was not used for longest goes first.

    Safe to share between threads. Keys and values lie on the model's device.
    """

    def __init__(self, limit: int) -> None:
        self._clock = 0
        self._lock = threading.Lock()
        self.clear()
        self.limit = limit

    @property
    def limit(self) -> int:
        """The maximum size in bytes, 0 for no cache. Pinned entries count, but stay. It may be changed at any time."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        if not isinstance(limit, int) or limit < 0:
            raise InvalidArgument(f"cache_bytes is {limit!r}; give a whole number of bytes from 0")
        with self._lock:
            self._limit = limit
            self._evict()

    @property
    def bytes(self) -> int:
        """The size in bytes of the cached keys and values."""
        return self._bytes

    def clear(self) -> None:
        """Forget everything, pinned or not."""
        with self._lock:
            self._root = _Node((), [], None)
            self._pinned: set[tuple[int, ...]] = set()
            self._bytes = 0

    def covered(self, tokens: Sequence[int]) -> int:
        """Return how many tokens at the beginning have their keys and values in the cache."""
        with self._lock:
            return sum(count for _, count in self._walk(tuple(tokens)))

    def find(self, tokens: Sequence[int]) -> list[Segment]:
        """Return the cached keys and values of the longest known beginning; they share memory with the cache."""
        with self._lock:
            self._clock += 1
            found: list[Segment] = []
            for node, count in self._walk(tuple(tokens)):
                node.used_at = self._clock
                found.append(_part(node.segment, 0, count))
            return found

    def add(self, tokens: Sequence[int], segment: Callable[[int, int], Segment]) -> None:
        """Keep the keys and values of a sequence.

        Args:
            tokens: its ids.
            segment: gives a copy of those from one place to before another, asked only for what is not here yet.
        """
        with self._lock:
            if self._limit and tokens:
                self._add(tuple(tokens), segment)
                self._evict()

    def add_cache(self, tokens: Sequence[int], past_key_values: Any, *, pin: bool = False) -> None:
        """Add your own cache: the value that `model(..., use_cache=True).past_key_values` returned for one sequence.

        Args:
            tokens: the ids that were computed.
            past_key_values: their keys and values; only the first row counts.
            pin: keep them until `unpin` or `clear`, whatever `limit` says; for keys and values that the model would not
                compute from these ids by itself (of trained prefixes, of another adapter). Entries that were computed
                after the same ids before are dropped at once.

        Raises:
            InvalidArgument: the cache has another number of tokens, or a pinned sequence begins with the same tokens
                but has other keys and values for them.
        """
        layers = segment_of(past_key_values)
        if not tokens or any(keys.shape[-2] != len(tokens) for keys, _ in layers):
            raise InvalidArgument(
                f"the cache holds {layers[0][0].shape[-2]} tokens, but {len(tokens)} were given; "
                "give the ids that it was computed from"
            )

        def segment(start: int, stop: int) -> Segment:
            return _copied(_part(layers, start, stop))

        if not pin:
            self.add(tokens, segment)
            return
        with self._lock:
            whole, at = tuple(tokens), 0
            for node, count in self._walk(whole):
                if not node.is_pinned:  # was computed from other keys and values
                    self._forget(node)
                    break
                if not _are_alike(_part(node.segment, 0, count), _part(layers, at, at + count)):
                    raise InvalidArgument(
                        "a pinned sequence begins with the same tokens but other keys and values; unpin it first"
                    )
                at += count
            self._add(whole, segment).is_pinned = True
            self._pinned.add(whole)
            self._evict()

    def unpin(self, tokens: Sequence[int]) -> None:
        """Unpin a sequence and drop it at once, with everything that was computed after it.

        Raises:
            InvalidArgument: these tokens are not those of a pinned sequence.
        """
        with self._lock:
            whole = tuple(tokens)
            if whole not in self._pinned:
                raise InvalidArgument("no pinned sequence has exactly these tokens; give those of add_cache")
            self._pinned.remove(whole)
            still_pinned = {id(node) for one in self._pinned for node, _ in self._walk(one)}
            for node, _ in self._walk(whole):
                if id(node) not in still_pinned:
                    self._forget(node)
                    break

    def _add(self, whole: tuple[int, ...], segment: Callable[[int, int], Segment]) -> _Node:
        """Keep what is not here yet; the node at the end of the sequence."""
        self._clock += 1
        at, node = 0, self._root
        for step, count in self._walk(whole):
            at += count
            node = step if count == len(step.tokens) else self._split(step, count)
            node.used_at = self._clock
        if at < len(whole):
            new = _Node(whole[at:], segment(at, len(whole)), node, self._clock)
            node.children[whole[at]] = new
            self._bytes += new.bytes
            node = new
        return node

    def _forget(self, node: _Node) -> None:
        """Drop a node and all nodes below it."""
        self._bytes -= sum(one.bytes for one in node.all())
        del (node.parent or self._root).children[node.tokens[0]]

    def _walk(self, tokens: tuple[int, ...]) -> list[tuple[_Node, int]]:
        """Yield the nodes along a sequence, each with the number of its tokens that are shared."""
        path: list[tuple[_Node, int]] = []
        node, at, shared = self._root, 0, 0
        while shared == len(node.tokens) and at < len(tokens) and tokens[at] in node.children:
            node = node.children[tokens[at]]
            shared = shared_length(node.tokens, tokens[at : at + len(node.tokens)])
            path.append((node, shared))
            at += shared
        return path

    def _split(self, node: _Node, count: int) -> _Node:
        """Split the first tokens of a node off as a separate node, copied, so that each half frees its own memory."""
        parent = node.parent or self._root
        head = _Node(node.tokens[:count], _copied(_part(node.segment, 0, count)), parent, node.used_at, node.is_pinned)
        node.segment = _copied(_part(node.segment, count, len(node.tokens)))
        node.tokens, node.parent = node.tokens[count:], head
        parent.children[head.tokens[0]] = head
        head.children[node.tokens[0]] = node
        return head

    def _evict(self) -> None:
        while self._bytes > self._limit:
            leaves = [node for node in self._root.all() if node.parent and not node.children and not node.is_pinned]
            if not leaves:
                return
            for oldest in sorted(leaves, key=lambda leaf: leaf.used_at):
                if self._bytes > self._limit:
                    self._forget(oldest)


def _part(segment: Segment, start: int, stop: int) -> Segment:
    return [(keys[:, start:stop], values[:, start:stop]) for keys, values in segment]


def _are_alike(one: Segment, other: Segment) -> bool:
    """Tell whether keys and values are equal up to rounding."""
    return all(
        torch.allclose(mine, theirs.to(mine), rtol=1e-2, atol=1e-2)
        for pair in zip(one, other, strict=True)
        for mine, theirs in zip(*pair, strict=True)
    )


def _copied(segment: Segment) -> Segment:
    return [(keys.clone(), values.clone()) for keys, values in segment]
