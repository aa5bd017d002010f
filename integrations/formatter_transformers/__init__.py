"""Constrained decoding for transformers.

`model.generate(..., logits_processor=[create_logits_processor(...)])` keeps transformers' own loop; `ForcedDrafts`
saves forward passes in it.
`transformers_model` gives a model to `formatter_core.generation` (`completion`, `continuation`, `choose` …), where
samples share a prefill.
"""

from formatter_transformers.batch import TransformersBatch
from formatter_transformers.factory import create_logits_processor
from formatter_transformers.forced_drafts import ForcedDrafts
from formatter_transformers.logits_processor import FormatterLogitsProcessor
from formatter_transformers.model import TransformersModel, transformers_model
from formatter_transformers.prefix_cache import PrefixCache
from formatter_transformers.token_scores import score_step, top_tokens
from formatter_transformers.traces import trace_of
from formatter_transformers.vocabulary import create_vocabulary

__all__ = [
    "ForcedDrafts",
    "FormatterLogitsProcessor",
    "PrefixCache",
    "TransformersBatch",
    "TransformersModel",
    "create_logits_processor",
    "create_vocabulary",
    "score_step",
    "top_tokens",
    "trace_of",
    "transformers_model",
]
