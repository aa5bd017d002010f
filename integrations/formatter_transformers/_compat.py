"""What the adapter needs of transformers; no other module looks at transformers or at a model's configuration."""

from __future__ import annotations

from typing import Any

import transformers

from formatter_core.errors import UnsupportedEngineVersion

try:
    from transformers import GenerationConfig, LogitsProcessor
except ImportError as error:
    raise UnsupportedEngineVersion(
        "transformers", found=transformers.__version__, needed=">= 4.46", missing="LogitsProcessor or GenerationConfig"
    ) from error

# A feature that the oldest releases lack on which the adapter was never tried.
if not hasattr(GenerationConfig(), "stop_strings"):  # type: ignore[no-untyped-call]
    raise UnsupportedEngineVersion(
        "transformers", found=transformers.__version__, needed=">= 4.46", missing="GenerationConfig.stop_strings"
    )

__all__ = ["LogitsProcessor", "end_ids", "logits_width"]


def end_ids(model: Any) -> tuple[int, ...] | None:
    """The ids at which `model.generate` stops; None where the model names none, so that the tokenizer's counts."""
    for config in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        found = getattr(config, "eos_token_id", None)
        if found is not None:
            return (found,) if isinstance(found, int) else tuple(found)
    return None


def logits_width(model: Any) -> int | None:
    """How many logits the model gives at each position; often more than its tokenizer has ids."""
    if model is None:
        return None
    # A quantized layer packs its weight, so its shape would not tell.
    width = getattr(model.get_output_embeddings(), "out_features", None)
    if width is None:
        config = model.config
        text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
        width = getattr(text_config, "vocab_size", None)
    return width if isinstance(width, int) else None
