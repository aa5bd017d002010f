"""What batches of sequences have in common, whatever arrays they consist of; for adapters."""

from __future__ import annotations

from collections.abc import Sequence

from formatter_core.errors import InvalidArgument
from formatter_core.runtime.history import shared_length

__all__ = ["check_prompts", "common_length", "leaf_paths"]


def check_prompts(prompts: Sequence[Sequence[int]]) -> None:
    """Whether a batch can begin with these prompts.

    Raises:
        InvalidArgument: there are none, or one has no tokens.
    """
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise InvalidArgument("a sequence needs at least one token; give at least the model's first token")


def common_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with."""
    return shared_length(min(map(tuple, prompts)), max(map(tuple, prompts)))


def leaf_paths(rows: int, parents: Sequence[int]) -> list[list[int]]:
    """The nodes from the root to each leaf of a tree, as `SequenceBatch.forward_tree` takes it, in order of the leaves.

    Args:
        rows: of the batch.
        parents: the index of each node's parent, -1 for a node that follows the row's last token.

    Raises:
        InvalidArgument: the batch does not consist of one row.
    """
    if rows != 1:
        raise InvalidArgument(f"a tree continues one sequence, but the batch has {rows}; select one row first")
    paths: list[list[int]] = []
    for node, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else ()), node])
    return [paths[leaf] for leaf in sorted({*range(len(parents))} - {*parents})]
