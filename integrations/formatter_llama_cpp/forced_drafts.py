"""Forced text as drafts of llama-cpp-python's own speculative decoding: `Llama(…, draft_model=ForcedDrafts())`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.generation.forced import DraftsForForcedText
from formatter_core.runtime.cursor import NotCopied

__all__ = ["ForcedDrafts"]

#: Gives ids that are likely to follow those of a request, the prompt included: so many at most.
Propose = Callable[[NDArray[np.intc], int], list[int]]


class ForcedDrafts(DraftsForForcedText, NotCopied):
    """A draft model that proposes the tokenizer's tokens for text that the format of a request forces.

    One forward pass computes them all. Each is drawn as usual, and those up to the first that the model spells
    otherwise are kept; so outputs are those without drafts, with any sampling.

    Every `FormatterLogitsProcessor` of the `Llama` that it belongs to proposes for its own requests. llama-cpp-python
    keeps the logits of the whole context for a model with drafts.

    Args:
        most: how many tokens are proposed at a time, at most.

    Raises:
        InvalidArgument: `most` is not a whole number from 1.

    Attributes:
        proposed: how many tokens were proposed so far.
    """

    def __init__(self, most: int = 16) -> None:
        super().__init__(most)
        self._propose: Callable[[], Propose | None] = lambda: None

    def ask(self, propose: Propose) -> None:
        """Ask this bound method from now on, since a request of its owner is under way; the owner is not kept alive.

        Raises:
            InvalidArgument: not a bound method.
        """
        try:
            self._propose = weakref.WeakMethod(propose)
        except TypeError as error:
            raise InvalidArgument(f"{shown(propose)} is not a bound method", argument="propose") from error

    def __call__(self, input_ids: NDArray[np.intc], /, **_: Any) -> NDArray[np.intc]:
        """Return the tokens to propose after these ids: int32, empty where no text is forced."""
        propose = self._propose()
        found = propose(input_ids, self.most) if propose is not None else []
        self.proposed += len(found)
        return np.array(found, dtype=np.intc)
