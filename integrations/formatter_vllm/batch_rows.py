"""The requests of the V1 model runner: batch rows, which move, and the live list of each request's output."""

from __future__ import annotations

from functools import partial
from typing import Any

from formatter_core.errors import UnsupportedFormat
from formatter_vllm import _compat
from formatter_vllm.constraints import Constraint, Constraints, asks_for_format

__all__ = ["BatchRows"]


class BatchRows:
    """The constraints of the requests in a batch, by row.

    Args:
        constraints: makes the constraint of a new request.
        unknown_tokens_reason: what to say if the id of an output token is not known.
    """

    def __init__(self, constraints: Constraints, unknown_tokens_reason: str) -> None:
        self._constraints = constraints
        self._unknown_tokens_reason = unknown_tokens_reason
        self._rows: dict[int, tuple[Constraint, list[int]]] = {}

    def update(self, changes: Any) -> None:
        """Apply a change of the batch: a `BatchUpdate`, read as removed, added, moved; None for no change.

        A request that was preempted comes back as an added request with its earlier output; its state is computed
        again.
        """
        if changes is None:
            return
        for row in changes.removed:
            self._rows.pop(row, None)
        for row, parameters, prompt_ids, output_ids in changes.added:
            self._rows.pop(row, None)
            if asks_for_format(parameters):
                constraint = self._constraints.of_request(parameters, partial(tuple, prompt_ids or ()))
                self._rows[row] = (constraint, output_ids)
        for first, second, direction in changes.moved:
            moving, displaced = self._rows.pop(first, None), self._rows.pop(second, None)
            if moving is not None:
                self._rows[second] = moving
            if displaced is not None and _compat.is_swap(direction):
                self._rows[first] = displaced
        self._rows = dict(sorted(self._rows.items()))  # masks are applied to rows that lie together at once

    def follow(self, count: int) -> list[tuple[int, Constraint]]:
        """Return the constrained rows among the first `count`, in order, each after the output so far.

        Outputs are read here and not in `update`, because asynchronous scheduling fills in the latest token in between;
        how often this is called says nothing, because a prompt in chunks is sampled after every chunk.
        """
        rows = []
        for row, (constraint, output_ids) in self._rows.items():
            if row >= count:
                continue
            if output_ids and output_ids[-1] < 0:
                constraint.cursor.fail(UnsupportedFormat(self._unknown_tokens_reason, server="vLLM"))
            constraint.cursor.follow(output_ids)
            rows.append((row, constraint))
        return rows
