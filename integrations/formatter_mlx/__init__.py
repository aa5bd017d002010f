"""Constrained decoding for mlx-lm: `generate(…, logits_processors=[create_logits_processor(tokenizer, format)])`."""

from formatter_mlx.factory import create_logits_processor
from formatter_mlx.forced_drafts import ForcedDrafts
from formatter_mlx.logits_processor import FormatterLogitsProcessor
from formatter_mlx.model import MlxModel, mlx_model
from formatter_mlx.vocabulary import create_vocabulary

__all__ = [
    "ForcedDrafts",
    "FormatterLogitsProcessor",
    "MlxModel",
    "create_logits_processor",
    "create_vocabulary",
    "mlx_model",
]
