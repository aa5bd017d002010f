"""The tokenizer of a vLLM engine as a `Vocabulary`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from formatter_core import Vocabulary
from formatter_core.errors.arguments import token_ids_of

__all__ = ["create_vocabulary", "logger"]

logger = logging.getLogger("formatter_vllm")


def create_vocabulary(tokenizer: Any, *, model: Any = None, end_ids: Iterable[int] | None = None) -> Vocabulary:
    """Create the vocabulary of a tokenizer that vLLM uses.

    Args:
        tokenizer: what `LLM.get_tokenizer()` gives, or `AutoTokenizer.from_pretrained`.
        model: an `LLM`, an engine or a `VllmConfig`; it gives the width of the logits and the ids that end its outputs.
            Without it the tokenizer's own end-of-sequence id is the only one.
        end_ids: the ids that end an output, instead of the model's.

    Raises:
        InvalidVocabulary: the tokenizer does not say how its tokens become text, or there is no end id.
    """
    size = None
    ends = None if end_ids is None else token_ids_of(end_ids, "end_ids")
    if model is not None:
        from formatter_vllm import _compat

        size = _compat.logits_width(model)
        ends = _compat.end_ids(model, tokenizer) if ends is None else ends
    mistral = getattr(tokenizer, "mistral", None)
    if mistral is not None:  # vLLM wraps the tokenizer of mistral-common
        return Vocabulary.from_mistral_common(mistral, end_ids=ends)
    return Vocabulary.from_huggingface(tokenizer, end_ids=ends, size=size)
