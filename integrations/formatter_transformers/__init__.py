"""Constrained decoding for transformers: `model.generate(..., logits_processor=[create_logits_processor(...)])`."""

from formatter_transformers.logits_processor import FormatterLogitsProcessor, create_logits_processor
from formatter_transformers.token_scores import score_step, top_tokens
from formatter_transformers.vocabulary import create_vocabulary

__all__ = [
    "FormatterLogitsProcessor",
    "create_logits_processor",
    "create_vocabulary",
    "score_step",
    "top_tokens",
]
