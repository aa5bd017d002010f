"""Outputs of vLLM that follow scripts, whatever the model says: every way to mask then writes the same tokens."""

from __future__ import annotations

from typing import Any

__all__ = ["Following"]


class Following:
    """Stands before a logits processor in its subclass: the next token of each row's script gets the highest logit.

    Attributes:
        outputs: of each row the `extra_args` of its request, whose `script` it follows, and its output so far.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.outputs: dict[int, tuple[dict[str, Any], list[int]]] = {}

    def update_state(self, batch_update: Any) -> None:
        super().update_state(batch_update)  # type: ignore[misc]
        for row in batch_update.removed if batch_update else ():
            self.outputs.pop(row, None)
        for row, parameters, _, output in batch_update.added if batch_update else ():
            self.outputs[row] = parameters.extra_args, output
        for first, second, direction in batch_update.moved if batch_update else ():
            self.outputs[second], other = self.outputs.pop(first), self.outputs.pop(second, None)
            if other is not None and direction.name == "SWAP":
                self.outputs[first] = other

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        logits = super().apply(logits, ctx)  # type: ignore[misc]
        rows = [self.outputs[row] for row in range(len(logits))]
        logits[range(len(rows)), [extra["script"][len(output)] for extra, output in rows]] += 1e6
        return logits
