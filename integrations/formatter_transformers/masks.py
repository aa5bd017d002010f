"""The masks of one step of `generate`, put on its scores; and again, after processors that could take them off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from formatter_core import Cursor, bitmask
from formatter_core.errors import MaskOverridden, NoTokenLeft
from formatter_core.runtime import torch_bitmask
from formatter_transformers._compat import LogitsProcessor

__all__ = ["LastWord", "StepMasks"]

#: The score of an end that another rule forbids but that has to come: the only finite one of its row, so it is taken
#: for sure, and so low that a beam which continues is better.
_FORCED_END = -1e4


class StepMasks:
    """One bitmask for each row; a row without a state may have every token.

    Args:
        cursors: the states; rows with the same tokens share one.
        size: how many ids there are, in the scores or in a vocabulary.
        on_failure: called with a row and the reason why it alone cannot continue.

    Attributes:
        cursors: the states; a row that failed has its own.
    """

    def __init__(
        self, cursors: Sequence[Cursor | None], size: int, on_failure: Callable[[int, Exception], None]
    ) -> None:
        self.cursors = list(cursors)
        self._on_failure = on_failure
        self._bits = bitmask.allocate(len(cursors), size, fill="all")
        for cursor, row in zip(cursors, self._bits, strict=True):
            if cursor is not None:
                cursor.fill_bitmask(row)

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """Return new scores, -inf for tokens that no format allows; allow the end ids if no token is left."""
        masked = torch_bitmask.apply(scores, self._bits)
        for row, is_empty in enumerate((masked.amax(dim=-1) == -torch.inf).tolist()):
            if is_empty and (cursor := self.cursors[row]) is not None:
                if not bitmask.get(self._bits[row], cursor.end_ids[0]):
                    self._fail(row, cursor, NoTokenLeft(cursor.bytes))
                masked[row, [token_id for token_id in cursor.end_ids if token_id < masked.shape[1]]] = _FORCED_END
        return masked

    def apply_again(self, scores: torch.Tensor) -> torch.Tensor:
        """Mask what later processors made of the scores; a row in which they let a masked token through is ended."""
        masked = torch_bitmask.apply(scores.where(~scores.isnan(), -torch.inf), self._bits)
        # Some processors write the lowest number instead of -inf.
        opened = masked.isneginf() & (scores > torch.finfo(scores.dtype).min / 2)
        for row in opened.any(dim=-1).nonzero().flatten().tolist():
            if (cursor := self.cursors[row]) is not None:
                failed = self._fail(row, cursor, MaskOverridden(int(opened[row].int().argmax())))
                failed.fill_bitmask(self._bits[row])
        return self.apply(masked)

    def _fail(self, row: int, cursor: Cursor, error: Exception) -> Cursor:
        """End one row; rows with the same tokens, whose state is the same, continue."""
        if cursor.has_failed:
            return cursor
        self.cursors[row] = failed = Cursor.failed(error, cursor.end_ids)
        self._on_failure(row, error)
        return failed


class LastWord(LogitsProcessor):
    """A processor at the end of the list that masks again, for lists whose later processors could unmask a token."""

    def __init__(self) -> None:
        self.check: Callable[[torch.Tensor], torch.Tensor] | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores, masked again if a processor of this project was called in this step."""
        check, self.check = self.check, None
        return scores if check is None else check(scores)
