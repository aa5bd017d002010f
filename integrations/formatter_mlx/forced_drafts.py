"""Forced text as drafts of mlx-lm's speculative decoding: `generate(…, draft_model=ForcedDrafts(model, tokenizer))`."""

from __future__ import annotations

from functools import partial
from typing import Any

import mlx.core as mx

from formatter_core.errors import InvalidArgument
from formatter_core.generation.forced import DraftsForForcedText, forced_drafts
from formatter_core.generation.tokenizer_prompts import continuation
from formatter_mlx._compat import logits_width
from formatter_mlx._compat_drafts import stepping_model
from formatter_mlx.sequences import Sequence, only_ids
from formatter_mlx.vocabulary import checked_tokenizer

__all__ = ["ForcedDrafts", "asking_drafts"]


class ForcedDrafts(DraftsForForcedText):
    """A draft model that proposes the tokenizer's tokens for text that the format forces.

    It takes the place of a draft model, and the `FormatterLogitsProcessor` of the call proposes through it. One forward
    pass computes all drafts. Each token is drawn as usual, and drafts are kept up to the first that the model spells
    differently: greedy outputs are those without drafts, and samples have the same distribution.

    mlx-lm verifies `num_draft_tokens` drafts in each pass. Where no text is forced, they are the first allowed tokens,
    which the model rarely writes.

    Args:
        model: the first value that `mlx_lm.load` returns.
        tokenizer: the second.

    Raises:
        InvalidArgument: not a model.
        InvalidVocabulary: the tokenizer cannot be read.

    Attributes:
        proposed: the number of tokens proposed for forced text so far.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(1)
        width = logits_width(model)
        if width is None:
            raise InvalidArgument("model is missing; pass the first value that mlx_lm.load returns", argument="model")
        checked_tokenizer(tokenizer)
        self._width, self._tokenizer = width, tokenizer
        self._dtype = model(mx.array([[0]])).dtype  # known before anything is computed

    def make_cache(self) -> list[Any]:
        """Return the caches that mlx-lm keeps for a draft model: none, for this one computes nothing."""
        return []

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return equal logits (1, length, width) for ids (1, length); the processor writes the proposal into them."""
        return mx.zeros((*inputs.shape, self._width), self._dtype)

    def propose(self, sequence: Sequence, logits: mx.array) -> mx.array:
        """Leave one token of a draft's logits (1, width): the next one of certain text; else all that may follow."""
        cursor = sequence.cursor
        found = forced_drafts(
            lambda: None if cursor.has_failed else cursor.formatter, partial(continuation, self._tokenizer), self.most
        )
        if found:
            self.proposed += len(found)
            return only_ids(logits, found)
        return sequence.masked(logits)


def asking_drafts() -> ForcedDrafts | None:
    """Return the `ForcedDrafts` whose step calls a processor; None if another model's step does."""
    model = stepping_model()
    return model if isinstance(model, ForcedDrafts) else None
