"""Learn a model's distribution under a format: a trie of prefixes, and the probability mass that is lost below each.

The *lost mass* of a prefix is the probability, given that prefix, of all continuations that are known to leave the
format. To draw from the model's own distribution without the continuations that are known to be lost, each token is
drawn in proportion to its probability times the mass that is not lost below it. A draft that still leaves the format is
rejected, and what it showed is learnt. This is adaptive rejection sampling (Parys et al. 2025, "Constrained Adaptive
Rejection Sampling"): each draft that is kept is an exact sample, however much is known.

What is known may change while a draft is written. The draft records how much mass was left (`kept`) below a token when
that token was chosen; if less is left when the draft gets there, it survives with the quotient as its probability. Over
a whole draft these quotients cancel out except for the first, so drafts that learn at the same time stay exact.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["LostMass", "Node", "Pick"]

#: A node lists the tokens that are at least this fraction as probable as the best allowed one, up to a maximum number.
_LISTED = 1 / 4096
_MAX_LISTED_TOKENS = 1024
#: The memory of a node without its arrays, in bytes, and of a listed token: its id, its probability, and its weight.
_NODE_BYTES = 600
_TOKEN_BYTES = 20


@dataclass(frozen=True, slots=True)
class Pick:
    """A result of a draw at a node.

    Attributes:
        token: the token id; None if the draw fell on an unlisted token.
        share: its probability.
        kept: the part of the mass below the token that was not known to be lost, from 0 to 1.
        residue: if `token` is None, the position of the draw among the unlisted tokens, from 0 to 1.
        listed: how many tokens the node listed at that time.
    """

    token: int | None
    share: float = 0.0
    kept: float = 1.0
    residue: float = 0.0
    listed: int = 0


@dataclass(eq=False, slots=True)
class Node:
    """A prefix, possibly empty, with the probabilities of the tokens that the format allows next.

    Attributes:
        ids: int32 (n,), the listed tokens.
        shares: float64 (n,), the probability of each listed token.
        weights: float64 (n,), each probability times the mass that is not known to be lost below the token.
        rest: the sum of the probabilities of all unlisted allowed tokens.
        kept: the mass that is not known to be lost below this prefix.
        temperature: the temperature of the sampling; with `scale`, as in `Weighed`, it gives log-probabilities at
            temperature 1.
        allowed_logprob: the logarithm of the allowed mass at temperature 1.
        parent: the prefix that is one token shorter, if this node is part of a trie or is the child of another node.
        place: the index of the last token in the parent's lists.
        is_counted: whether the node is part of a trie, whose memory is bounded.
        children: the nodes for prefixes that are one token longer, by that token.
    """

    ids: NDArray[np.int32]
    shares: NDArray[np.float64]
    rest: float
    temperature: float
    scale: float
    allowed_logprob: float
    weights: NDArray[np.float64] = field(init=False)
    kept: float = field(init=False, default=0.0)
    parent: Node | None = None
    place: int = -1
    is_counted: bool = False
    children: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = self.shares.copy()
        self._sum()

    @classmethod
    def of(cls, row: NDArray[np.float32], temperature: float, scale: float, allowed_logprob: float) -> Node:
        """Make a node from the probabilities of all tokens, float32 (width,), 0 where the format forbids a token."""
        ids = np.flatnonzero(row > row.max() * _LISTED)
        if len(ids) > _MAX_LISTED_TOKENS:
            ids = np.sort(np.argpartition(row, -_MAX_LISTED_TOKENS)[-_MAX_LISTED_TOKENS:])
        return cls(
            ids.astype(np.int32), row[ids].astype(np.float64), _rest(row, ids), temperature, scale, allowed_logprob
        )

    @property
    def bytes(self) -> int:
        """Return the memory of the node in bytes, without its children."""
        return _NODE_BYTES + _TOKEN_BYTES * len(self.ids)

    def pick(self, mass: float) -> Pick:
        """Return the token at this position of the kept mass, from 0 to below `kept`."""
        reached = np.cumsum(self.weights)
        listed = float(reached[-1]) if len(reached) else 0.0
        if mass < listed:
            place = int(np.searchsorted(reached, mass, side="right"))
        elif self.rest > 0:
            return Pick(None, residue=min((mass - listed) / self.rest, 1.0), listed=len(self.ids))
        else:  # rounding went past the last token
            place = int(np.flatnonzero(self.weights)[-1])
        share = float(self.shares[place])
        return Pick(int(self.ids[place]), share, float(self.weights[place]) / share)

    def unlisted(self, row: NDArray[np.float32], pick: Pick) -> int | None:
        """Return the token for a draw that fell on an unlisted token; None if no unlisted token is left.

        Args:
            row: float32 (width,), the probabilities of all tokens that the node was made from. If they were computed
                again, rounding may have removed the last unlisted token.
            pick: the result of the draw.
        """
        others = row.astype(np.float64)
        others[self.ids[: pick.listed]] = 0.0
        reached = np.cumsum(others)
        if not reached[-1] > 0:
            return None
        place = int(np.searchsorted(reached, pick.residue * reached[-1], side="right"))
        return min(place, int(np.flatnonzero(others)[-1]))

    def list_also(self, token: int, row: NDArray[np.float32]) -> None:
        """List one more token, after the others, so that what is learnt below it can be stored."""
        share = float(row[token])
        self.ids = np.append(self.ids, np.int32(token))
        self.shares = np.append(self.shares, share)
        self.weights = np.append(self.weights, share)
        self.rest = _rest(row, self.ids)
        self._sum()

    def lose(self, token: int) -> None:
        """Learn that everything below a token is lost; call `learnt` to update the nodes above."""
        self.weights[self.ids == token] = 0.0
        self._sum()

    def learnt(self) -> None:
        """Update the nodes above this node after it has learnt."""
        node = self
        while node.parent is not None:
            above = node.parent
            above.weights[node.place] = above.shares[node.place] * node.kept
            above._sum()
            node = above

    def _sum(self) -> None:
        self.kept = self.rest + float(self.weights.sum())


class LostMass:
    """The tries of several prompts, with limited memory: once it is used up, nothing more is learnt.

    Drafts then stay exact; they are only rejected more often. A new prompt replaces the tries of the prompts that were
    used longest ago. Call `clear` when the model's weights change.

    Args:
        limit: the maximum number of bytes of all tries together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        """The estimated memory of all nodes, in bytes."""
        self.nodes = 0
        """The number of known prefixes."""
        self._roots: dict[Hashable, Node] = {}
        self._sizes: dict[Hashable, list[int]] = {}

    def root(self, key: Hashable) -> Node | None:
        """Return the root of a prompt's trie, if it is known."""
        root = self._roots.get(key)
        if root is not None:
            self._roots[key] = self._roots.pop(key)  # the most recently used comes last
        return root

    def begin(self, key: Hashable, root: Node, in_use: set[Hashable]) -> Node:
        """Begin the trie of a prompt; if memory is short, drop tries of prompts that are not `in_use`."""
        for old in [old for old in self._roots if old not in in_use]:
            if self.bytes + root.bytes <= self.limit // 2:
                break
            self.drop(old)
        self._sizes[key] = [0, 0]
        self._roots[key] = root
        self._count(key, root)
        return root

    def add(self, key: Hashable, parent: Node, token: int, node: Node) -> Node:
        """Put a node below another one; return the node that is there now, which another draft may have added before.

        If there is no memory for it, the node is not added: the draft can continue with it, and what the draft learns
        is lost with the draft. A child of such a node is put below it, and lost with it.
        """
        known = parent.children.get(token)
        if known is not None:
            return known
        found = np.flatnonzero(parent.ids == token)
        if not len(found) or (parent.is_counted and self.bytes + node.bytes > self.limit):
            return node
        node.parent, node.place = parent, int(found[0])
        parent.children[token] = node
        if parent.is_counted:
            self._count(key, node)
        return node

    def list_also(self, key: Hashable, node: Node, token: int, row: NDArray[np.float32]) -> None:
        """List one more token of a node, if there is memory for it and no other draft has listed it."""
        if token in node.ids:
            return
        if not node.is_counted:
            node.list_also(token, row)
        elif self.bytes + _TOKEN_BYTES <= self.limit:
            node.list_also(token, row)
            self._sizes[key][0] += _TOKEN_BYTES
            self.bytes += _TOKEN_BYTES

    def drop(self, key: Hashable) -> None:
        """Forget what was learnt about a prompt."""
        if self._roots.pop(key, None) is not None:
            size, nodes = self._sizes.pop(key)
            self.bytes -= size
            self.nodes -= nodes

    def clear(self) -> None:
        """Forget everything."""
        for key in [*self._roots]:
            self.drop(key)

    def _count(self, key: Hashable, node: Node) -> None:
        node.is_counted = True
        size = self._sizes[key]
        size[0] += node.bytes
        size[1] += 1
        self.bytes += node.bytes
        self.nodes += 1


def _rest(row: NDArray[np.float32], listed: NDArray[np.integer]) -> float:
    """Return the probability of all unlisted tokens, summed without a difference of large numbers."""
    others = row.copy()
    others[listed] = 0.0
    return float(others.sum(dtype=np.float64))
