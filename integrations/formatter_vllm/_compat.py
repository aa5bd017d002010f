"""The adapter's access to vLLM; no other module inspects vLLM, its configuration or its parameters.

vLLM has two interfaces for custom logits processors: that of the V1 model runner (from 0.10.1 on), which reports the
changes of a batch, and that of Model Runner V2 (from 0.31 on), which numbers request slots.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from formatter_core.errors import UnsupportedEngineVersion

_MODULES = ("vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor")


def _found() -> tuple[type, ...]:
    found = []
    for name in _MODULES:
        try:
            found.append(import_module(name).LogitsProcessor)
        except (ImportError, AttributeError):
            continue
    return tuple(found)


#: The interfaces of this vLLM for classes, none before 0.10.1.
INTERFACES = _found()

#: True if this vLLM calls `validate_params` when a request comes in (0.10.1 to 0.11.0 do not).
CHECKS_REQUESTS = any(hasattr(interface, "validate_params") for interface in INTERFACES)


def interfaces() -> tuple[type, ...]:
    """Return vLLM's logits-processor base classes; any runner accepts a class that derives from all of them.

    Raises:
        UnsupportedEngineVersion: there is none.
    """
    if not INTERFACES:
        raise UnsupportedEngineVersion(
            "vllm",
            found=getattr(import_module("vllm"), "__version__", "of unknown version"),
            needed=">= 0.10.1; for older ones see formatter_vllm.create_logits_processor",
            missing=f"LogitsProcessor in {' or '.join(_MODULES)}",
        )
    return INTERFACES


__all__ = [
    "CHECKS_REQUESTS",
    "INTERFACES",
    "end_ids",
    "interfaces",
    "is_swap",
    "lists_processor",
    "logits_width",
    "tokenizer_of",
    "unknown_tokens_reason",
]


def tokenizer_of(config: Any) -> Any:
    """Return the tokenizer of a `VllmConfig`; None if the engine was started without one."""
    model_config = config.model_config
    if getattr(model_config, "skip_tokenizer_init", False):
        return None
    for name in ("vllm.tokenizers", "vllm.transformers_utils.tokenizer"):
        try:
            return import_module(name).cached_tokenizer_from_config(model_config)
        except (ImportError, AttributeError):
            continue
    return None


def _model_config(model: Any) -> Any:
    """Return the `ModelConfig` of an `LLM`, an engine or a `VllmConfig`; a `ModelConfig` is returned unchanged."""
    for path in (("llm_engine", "model_config"), ("model_config",), ("vllm_config", "model_config")):
        found = model
        for name in path:
            found = getattr(found, name, None)
        if found is not None:
            return found
    return model


def logits_width(model: Any) -> int | None:
    """Return the number of logits at each position, which often exceeds the number of the tokenizer's ids."""
    measure = getattr(_model_config(model), "get_vocab_size", None)
    return None if measure is None else int(measure())


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...] | None:
    """Return the ids at which vLLM stops by itself: the tokenizer's and the generation config's; None if none."""
    read = getattr(_model_config(model), "try_get_generation_config", None)
    named = None if read is None else (read() or {}).get("eos_token_id")
    found = [getattr(tokenizer, "eos_token_id", None), *(named if isinstance(named, (list, tuple)) else [named])]
    return tuple(dict.fromkeys(token_id for token_id in found if token_id is not None)) or None


def lists_processor(config: Any, kind: type) -> bool:
    """Tell whether the user named this class, or a subclass, when starting the engine."""
    named = getattr(config.model_config, "logits_processors", None) or ()
    return any(issubclass(_loaded(one) if isinstance(one, str) else one, kind) for one in named)


def _loaded(name: str) -> type:
    """Return the class that `module:Class` names; vLLM has loaded it, too."""
    module, _, names = name.partition(":")
    found: Any = import_module(module)
    for part in names.split("."):
        found = getattr(found, part)
    return found if isinstance(found, type) else object


def unknown_tokens_reason(config: Any) -> str:
    """Return the advice about output ids of -1: with asynchronous scheduling, only named classes get the real ids."""
    is_async = getattr(getattr(config, "scheduler_config", None), "async_scheduling", False)
    return (
        "the id of the latest token is not known"
        + (", because scheduling is asynchronous" if is_async else "")
        + "; start vLLM with --logits-processors formatter_vllm:FormatterLogitsProcessor "
        "(logits_processors=[FormatterLogitsProcessor]), or with --no-async-scheduling"
    )


def is_swap(direction: Any) -> bool:
    """Tell whether a move of a `BatchUpdate` swaps two rows."""
    return bool(direction.name == "SWAP")
