"""Check and measure batches of sequences, for any kind of arrays; for adapters."""

from __future__ import annotations

from collections.abc import Sequence

from formatter_core.errors import InvalidArgument
from formatter_core.runtime.history import shared_length

__all__ = ["check_prompts", "common_length", "leaf_paths"]


def check_prompts(prompts: Sequence[Sequence[int]]) -> None:
    """Check that a batch can begin with these prompts.

    Raises:
        InvalidArgument: there are no prompts, or one has no tokens.
    """
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise InvalidArgument("a sequence needs at least one token; give at least the model's first token")


def common_length(prompts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens that all prompts have in common at their beginning."""
    return shared_length(min(map(tuple, prompts)), max(map(tuple, prompts)))


def leaf_paths(rows: int, parents: Sequence[int]) -> list[list[int]]:
    """Return the nodes from the root to each leaf of a tree that `SequenceBatch.forward_tree` takes, in order of the
    leaves.

    Args:
        rows: the number of rows of the batch.
        parents: the index of each node's parent, -1 for a node that follows the row's last token.

    Raises:
        InvalidArgument: the batch has more than one row, or none.
    """
    if rows != 1:
        raise InvalidArgument(f"a tree continues one sequence, but the batch has {rows}; select one row first")
    paths: list[list[int]] = []
    for node, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else ()), node])
    return [paths[leaf] for leaf in sorted({*range(len(parents))} - {*parents})]
