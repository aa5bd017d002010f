"""Keys and values of earlier sequences, for those that begin alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from formatter_core.errors import InvalidFormat
from formatter_transformers._compat_cache import segment_of
from formatter_transformers.key_values import Segment

__all__ = ["PrefixCache"]


class _Node:
    """Tokens that follow those of the parent, with their keys and values."""

    def __init__(self, tokens: tuple[int, ...], segment: Segment, parent: _Node | None) -> None:
        self.tokens = tokens
        self.segment = segment
        self.parent = parent
        self.children: dict[int, _Node] = {}
        self.used_at = 0

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for pair in self.segment for t in pair)


class PrefixCache:
    """A trie of token sequences whose nodes keep keys and values; what was not used for longest goes first.

    Safe to share between threads. Keys and values lie on the model's device.

    Attributes:
        limit: bytes of keys and values at most; 0 keeps none. May be changed at any time.
    """

    def __init__(self, limit: int) -> None:
        if not isinstance(limit, int) or limit < 0:
            raise InvalidFormat(f"cache_bytes is {limit!r}; give a whole number of bytes from 0")
        self.limit = limit
        self._root = _Node((), [], None)
        self._bytes = 0
        self._clock = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes of keys and values that are kept."""
        return self._bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._root = _Node((), [], None)
            self._bytes = 0

    def covered(self, tokens: Sequence[int]) -> int:
        """How many tokens at the beginning have their keys and values here."""
        with self._lock:
            return sum(count for _, count in self._walk(tuple(tokens)))

    def find(self, tokens: Sequence[int]) -> list[Segment]:
        """Keys and values of as many tokens at the beginning as there are; they share memory with the cache."""
        with self._lock:
            if not self.limit:
                return []
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
            if not self.limit or not tokens:
                return
            self._clock += 1
            whole, at, node = tuple(tokens), 0, self._root
            for step, count in self._walk(whole):
                at += count
                node = step if count == len(step.tokens) else self._split(step, count)
                node.used_at = self._clock
            if at < len(whole):
                new = _Node(whole[at:], segment(at, len(whole)), node)
                new.used_at = self._clock
                node.children[whole[at]] = new
                self._bytes += new.bytes
            self._evict()

    def add_cache(self, tokens: Sequence[int], past_key_values: Any) -> None:
        """Begin with a cache of your own: what `model(..., use_cache=True).past_key_values` gave for one sequence.

        Args:
            tokens: the ids that were computed.
            past_key_values: their keys and values; only the first row counts.

        Raises:
            InvalidFormat: it holds another number of tokens.
        """
        layers = segment_of(past_key_values)
        if any(keys.shape[-2] != len(tokens) for keys, _ in layers):
            raise InvalidFormat(
                f"the cache holds {layers[0][0].shape[-2]} tokens, but {len(tokens)} were given; "
                "give the ids that it was computed from"
            )
        self.add(tokens, lambda start, stop: _copied(_part(layers, start, stop)))

    def _walk(self, tokens: tuple[int, ...]) -> list[tuple[_Node, int]]:
        """The nodes along a sequence, each with how many of its tokens are shared."""
        path: list[tuple[_Node, int]] = []
        node, at = self._root, 0
        while at < len(tokens) and tokens[at] in node.children:
            node = node.children[tokens[at]]
            own = node.tokens
            rest = tokens[at : at + len(own)]
            shared = len(own) if rest == own else next(i for i, t in enumerate(own) if i >= len(rest) or t != rest[i])
            path.append((node, shared))
            at += shared
            if shared < len(own):
                break
        return path

    def _split(self, node: _Node, count: int) -> _Node:
        """Make the first tokens of a node one of their own, copied, so that either half frees its memory."""
        parent = node.parent or self._root
        head = _Node(node.tokens[:count], _copied(_part(node.segment, 0, count)), parent)
        head.used_at = node.used_at
        node.segment = _copied(_part(node.segment, count, len(node.tokens)))
        node.tokens, node.parent = node.tokens[count:], head
        parent.children[head.tokens[0]] = head
        head.children[node.tokens[0]] = node
        return head

    def _evict(self) -> None:
        while self._bytes > self.limit:
            leaves, pending = [], [self._root]
            while pending:
                node = pending.pop()
                pending.extend(node.children.values())
                if not node.children and node is not self._root:
                    leaves.append(node)
            if not leaves:
                return
            for oldest in sorted(leaves, key=lambda leaf: leaf.used_at):
                if self._bytes <= self.limit:
                    return
                self._bytes -= oldest.bytes
                del (oldest.parent or self._root).children[oldest.tokens[0]]


def _part(segment: Segment, start: int, stop: int) -> Segment:
    return [(keys[:, start:stop], values[:, start:stop]) for keys, values in segment]


def _copied(segment: Segment) -> Segment:
    return [(keys.clone(), values.clone()) for keys, values in segment]
