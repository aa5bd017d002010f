"""Loading of transformers models, and checks that the generation loops can run them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

import transformers
from transformers import cache_utils
from transformers.models.auto import modeling_auto

from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_transformers._compat import text_config, unsupported

__all__ = [
    "DynamicCache",
    "DynamicLayer",
    "cache_argument",
    "decoder_of",
    "growing_cache",
    "is_name",
    "loaded",
    "window_of",
]

# Nothing about caches is typed alike in all releases.
DynamicCache: Any = cache_utils.DynamicCache
DynamicLayer: Any = getattr(cache_utils, "DynamicLayer", None)  # absent before caches consisted of layers

#: The name of the argument for the weights' dtype; the new name came after caches with layers.
_DTYPE = "dtype" if DynamicLayer is not None and hasattr(transformers.PretrainedConfig(), "dtype") else "torch_dtype"
#: Models that fill in masked tokens: they look ahead, or count positions from another number.
_MASKED_MODELS = {*modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, "bert-generation"}  # which has no class for that
#: Models that take no positions and need none but what they read from the mask.
_POSITIONS_FROM_MASK = {"bloom", "mpt", "opt", "biogpt"}
#: The names in configurations of layers whose past is only keys and values.
_PLAIN_TYPES = {"full_attention", "sliding_attention", "chunked_attention"}


def loaded(name_or_model: Any, dtype: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Return a model and its tokenizer; names are loaded with transformers' own defaults."""
    model, name = name_or_model, name_or_model
    if is_name(name):
        model = transformers.AutoModelForCausalLM.from_pretrained(name, **({} if dtype is None else {_DTYPE: dtype}))
    elif hasattr(model, "config"):
        name = getattr(model, "name_or_path", None) or getattr(model.config, "_name_or_path", "")
    else:
        raise InvalidArgument(
            f"{type(model).__name__} has no configuration of a transformers model; give a name, a folder "
            "or the model itself (of one in DataParallel, its .module)"
        )
    if tokenizer is None:
        if not name:
            raise InvalidVocabulary("the model does not say where it comes from; pass tokenizer=")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    return model, tokenizer


def is_name(name_or_model: Any) -> bool:
    """Tell whether the argument is the name or folder of a model, and not the model itself."""
    return isinstance(name_or_model, (str, os.PathLike))


def decoder_of(model: Any) -> Any:
    """Return the decoder inside its wrappers (`torch.compile`, PEFT); its signature tells what it takes.

    Raises:
        UnsupportedEngineVersion: the positions of tokens would not reach it, or it is no decoder that keeps keys and
            values alone.
    """
    inner, config = model, text_config(model)
    while not isinstance(inner, transformers.PreTrainedModel):
        if getattr(getattr(inner, "active_peft_config", None), "is_prompt_learning", False):
            needed = "with the base model, or an adapter that changes weights (LoRA and the like)"
            missing = "way to pass the positions of tokens"
            raise unsupported(missing, needed, " with a PEFT prompt-learning adapter")
        modules = getattr(inner, "_modules", {})
        get_base_model = getattr(inner, "get_base_model", None)
        wrapped = modules.get("_orig_mod") or (get_base_model and get_base_model())
        if wrapped is None:
            if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(inner.forward).parameters.values()):
                missing = "signature that says whether it takes position_ids"
                raise unsupported(missing, "with the model that it wraps", f" with {type(inner).__name__}")
            break
        inner = wrapped
    parameters, which = inspect.signature(inner.forward).parameters, f" with {type(inner).__name__}"
    if cache_argument(parameters) is None or _keeps_something_else(inner, config):
        needed = "with a decoder all of whose layers are plain attention"
        raise unsupported("cache of keys and values alone", needed, which)
    is_placed = "position_ids" in parameters or config.model_type in _POSITIONS_FROM_MASK
    if not is_placed or config.model_type in _MASKED_MODELS:
        needed = "with a model for writing whose forward takes position_ids"
        raise unsupported("causal attention with positions that count from 0", needed, which)
    return inner


def cache_argument(parameters: Mapping[str, Any]) -> str | None:
    """Return the name of the cache argument of a model's `forward`; None if it takes none."""
    return next((name for name in ("past_key_values", "cache") if name in parameters), None)  # the latter from 5.24 on


def window_of(config: Any) -> int | None:
    """Return the size of the model's smallest window, in columns; None if no layer has one."""
    windows = [getattr(config, "attention_chunk_size", None)]
    if getattr(config, "use_sliding_window", True) is not False:
        windows.append(getattr(config, "sliding_window", None))
    return min((window for window in windows if isinstance(window, int)), default=None)


def _keeps_something_else(model: Any, config: Any) -> bool:
    """Tell whether a layer stores anything but keys and values of each token, or the model takes no such cache."""
    if getattr(model, "_is_stateful", False) or getattr(config, "is_encoder_decoder", False):
        return True
    if not set(getattr(config, "layer_types", None) or ()) <= _PLAIN_TYPES:
        return True
    if DynamicLayer is None:
        return getattr(config, "cache_implementation", None) == "hybrid"
    plain = (DynamicLayer, getattr(cache_utils, "DynamicSlidingWindowLayer", DynamicLayer))
    return any(type(layer) not in plain for layer in growing_cache(config).layers)


def growing_cache(config: Any) -> Any:
    """Make an empty cache, as `generate` or the model makes it.

    In releases whose caches do not know models, it has no layers yet.
    """
    return DynamicCache(config=config) if "config" in inspect.signature(DynamicCache).parameters else DynamicCache()
