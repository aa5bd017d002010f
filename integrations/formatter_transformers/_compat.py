"""The adapter's access to transformers: its classes, and a model's configuration."""

from __future__ import annotations

from typing import Any

import transformers

from formatter_core.errors import UnsupportedEngineVersion


def unsupported(missing: str, needed: str, model: str = "") -> UnsupportedEngineVersion:
    """Make the error for a release, or a model in it (named by `model`), that lacks a needed interface."""
    return UnsupportedEngineVersion(
        "transformers", found=transformers.__version__ + model, needed=needed, missing=missing
    )


try:
    from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
except ImportError as error:
    raise unsupported("LogitsProcessor or GenerationConfig", ">= 4.46") from error
if not hasattr(GenerationConfig(), "stop_strings"):  # the adapter was never tried on the releases that lack it
    raise unsupported("GenerationConfig.stop_strings", ">= 4.46")

__all__ = [
    "LogitsProcessor",
    "LogitsProcessorList",
    "are_same_model",
    "end_ids",
    "logits_width",
    "text_config",
    "unsupported",
]


def end_ids(model: Any) -> tuple[int, ...] | None:
    """Return the ids at which `model.generate` stops; None if the model names none, and the tokenizer's applies."""
    for config in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        found = getattr(config, "eos_token_id", None)
        if found is not None:
            return (found,) if isinstance(found, int) else tuple(found)
    return None


def text_config(model: Any) -> Any:
    """Return the configuration of the text decoder of a model."""
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def logits_width(model: Any) -> int | None:
    """Return the number of logits at each position, which often exceeds the number of the tokenizer's ids."""
    if model is None:
        return None
    # A quantized layer packs its weight, so its shape would not tell.
    width = getattr(model.get_output_embeddings(), "out_features", None)
    if width is None:
        width = getattr(text_config(model), "vocab_size", None)
    return width if isinstance(width, int) else None


def are_same_model(one: Any, other: Any) -> bool:
    """Tell whether two objects are one model.

    Wrappers (PEFT, `torch.compile`) share the configuration of the wrapped model.
    """
    return one is other or getattr(one, "config", one) is getattr(other, "config", other)
