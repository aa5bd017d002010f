"""How transformers' models take keys and values, and how one is run; with `_compat`, all that inspects transformers."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import transformers
from transformers import cache_utils
from transformers.models.auto import modeling_auto

from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_transformers._compat import text_config, unsupported
from formatter_transformers.key_values import KeyValues, LayerBuffer

__all__ = ["ModelForward", "loaded", "segment_of"]


# Nothing about caches is typed alike in all releases.
_DynamicCache: Any = cache_utils.DynamicCache
_DynamicLayer: Any = getattr(cache_utils, "DynamicLayer", None)  # absent before caches consisted of layers


#: What the argument for the type of the weights is called: the new name came after layers of caches.
_DTYPE = "dtype" if _DynamicLayer is not None and hasattr(transformers.PretrainedConfig(), "dtype") else "torch_dtype"
#: Models that fill in masked tokens: they look ahead, or count positions from another number.
_MASKED_MODELS = {*modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, "bert-generation"}  # which has no class for that
#: Models that take no positions and need none but what they read from the mask.
_POSITIONS_FROM_MASK = {"bloom", "mpt", "opt", "biogpt"}
#: What configurations call layers whose past is keys and values alone.
_PLAIN_TYPES = {"full_attention", "sliding_attention", "chunked_attention"}


class _BufferLayer(_DynamicLayer or object):  # type: ignore[misc]
    """A layer of a cache whose tensors are in a `LayerBuffer`."""

    def __init__(self, buffer: LayerBuffer) -> None:
        super().__init__()
        self.buffer = buffer
        self.is_initialized = True

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = self.buffer.append(keys, values)
        return self.keys, self.values

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return self.buffer.length


class _BufferCache(_DynamicCache):  # type: ignore[misc]
    """A cache from before caches consisted of layers, whose tensors are in `LayerBuffer`s."""

    def __init__(self, buffers: list[LayerBuffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.buffers[layer_idx].append(keys, values)

    def get_seq_length(self, layer_idx: int | None = 0) -> int:
        return self.buffers[layer_idx or 0].length

    def __len__(self) -> int:
        return len(self.buffers)

    def __getitem__(self, layer_idx: int) -> Any:
        return self.buffers[layer_idx].views()


def _cache_of(buffers: list[LayerBuffer]) -> Any:
    if _DynamicLayer is None:
        return _BufferCache(buffers)
    cache = _DynamicCache()
    cache.layers = [_BufferLayer(buffer) for buffer in buffers]
    return cache


class ModelForward:
    """Runs a causal model on new tokens of a batch, whatever its release calls the arguments.

    Raises:
        UnsupportedEngineVersion: the model keeps something else than keys and values of each token, or cannot be told
            where a token stands.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        inner = _unwrapped(model)
        config = text_config(model)
        self.layers = int(config.num_hidden_layers)
        self.max_length = getattr(config, "max_position_embeddings", None)
        parameters = inspect.signature(inner.forward).parameters
        self._keep = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in parameters), None)
        self._takes_positions = "position_ids" in parameters
        # A model that takes no positions may count columns from a token to another, unused ones between them included.
        self.window = _window(config) if self._takes_positions else 0
        self._is_biased = bool(getattr(config, "alibi", False))
        # GPT-2 and others of 4.x know tuples of tensors only, and joins them itself.
        self._takes_tuples = getattr(inner, "_supports_cache_class", True) is False
        if "past_key_values" not in parameters or _keeps_something_else(inner, config):
            needed = "with a decoder all of whose layers are plain attention"
            raise unsupported("cache of keys and values alone", needed, f" with {type(inner).__name__}")
        is_placed = self._takes_positions or config.model_type in _POSITIONS_FROM_MASK
        if not is_placed or config.model_type in _MASKED_MODELS:
            needed = "with a model for writing whose forward takes position_ids"
            raise unsupported(
                "causal attention with positions that count from 0", needed, f" with {type(inner).__name__}"
            )

    def takes_trees(self, length: int) -> bool:
        """Whether a mask may say for each token what it sees, at sequences of this length."""
        how = getattr(self.model.config, "_attn_implementation", None)
        # A model without position ids derives positions from a mask of two dimensions, which a tree's mask is not.
        can = how in ("sdpa", "eager") and self._takes_positions and not self._takes_tuples and not self._is_biased
        return can and not self.counts_columns(length)

    def counts_columns(self, columns: int) -> bool:
        """Whether a layer looks back a number of columns, used or not, that this many exceed."""
        return self.window is not None and columns > self.window

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, key_values: KeyValues, keep: int
    ) -> torch.Tensor:
        """Logits (rows, keep, width) of the last columns; keys and values of all columns are appended.

        `ids` and `positions` are int64 (rows, columns); `mask` is int64 (rows, all columns), or floats (rows, 1,
        columns, all columns) that are added to the scores, or None where every row uses every column.
        """
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": True}
        if self._takes_positions:
            arguments["position_ids"] = positions
        if self._keep is not None:
            arguments[self._keep] = keep
        buffers = key_values.layers
        if self._takes_tuples:
            past = tuple(buffer.views() for buffer in buffers) if key_values.columns else None
            output = self.model(**arguments, past_key_values=past)
            for buffer, (keys, values) in zip(buffers, output.past_key_values, strict=True):
                buffer.append(keys[:, :, key_values.columns :], values[:, :, key_values.columns :])
        else:
            output = self.model(**arguments, past_key_values=_cache_of(buffers))
        logits: torch.Tensor = output.logits
        return logits[:, -keep:]


def loaded(name_or_model: Any, dtype: Any, tokenizer: Any) -> tuple[Any, Any]:
    """A model and its tokenizer; what is a name is loaded, with transformers' own defaults."""
    name = name_or_model
    if not isinstance(name, str):
        if not hasattr(name_or_model, "config"):
            raise InvalidArgument(
                f"{type(name_or_model).__name__} has no configuration of a transformers model; give a name, a folder "
                "or the model itself (of one in DataParallel, its .module)"
            )
        name = getattr(name_or_model, "name_or_path", None) or getattr(name_or_model.config, "_name_or_path", "")
    if tokenizer is None:
        if not name:
            raise InvalidVocabulary("the model does not say where it comes from; pass tokenizer=")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    if not isinstance(name_or_model, str):
        return name_or_model, tokenizer
    chosen = {} if dtype is None else {_DTYPE: dtype}
    return transformers.AutoModelForCausalLM.from_pretrained(name_or_model, **chosen), tokenizer


def segment_of(past_key_values: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of the first row of a cache of transformers, layer by layer, (heads, tokens, size)."""
    layers = getattr(past_key_values, "layers", None)
    if layers is not None:
        return [(layer.keys[0], layer.values[0]) for layer in layers]
    return [(keys[0], values[0]) for keys, values in past_key_values]


def _unwrapped(model: Any) -> Any:
    """The model inside what wraps it (`torch.compile`, PEFT), whose signature tells what it takes.

    Raises:
        UnsupportedEngineVersion: the positions of tokens would not reach the model.
    """
    inner = model
    while not isinstance(inner, transformers.PreTrainedModel):
        if getattr(getattr(inner, "active_peft_config", None), "is_prompt_learning", False):
            needed = "with the base model, or an adapter that changes weights (LoRA and the like)"
            missing = "way to pass the positions of tokens"
            raise unsupported(missing, needed, " with a PEFT prompt-learning adapter")
        modules = getattr(inner, "_modules", {})
        get_base_model = getattr(inner, "get_base_model", None)
        wrapped = modules.get("_orig_mod") or (get_base_model and get_base_model())
        if wrapped is None:
            parameters = inspect.signature(inner.forward).parameters.values()
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                missing = "signature that says whether it takes position_ids"
                raise unsupported(missing, "with the model that it wraps", f" with {type(inner).__name__}")
            break
        inner = wrapped
    return inner


def _keeps_something_else(model: Any, config: Any) -> bool:
    """Whether a layer keeps anything but keys and values of each token, or a model takes no cache of this kind."""
    if getattr(model, "_is_stateful", False) or getattr(config, "is_encoder_decoder", False):
        return True
    if not set(getattr(config, "layer_types", None) or ()) <= _PLAIN_TYPES:
        return True
    if _DynamicLayer is None:
        return getattr(config, "cache_implementation", None) == "hybrid"
    if "config" not in inspect.signature(_DynamicCache).parameters:
        return False
    plain = (_DynamicLayer, getattr(cache_utils, "DynamicSlidingWindowLayer", _DynamicLayer))
    return any(type(layer) not in plain for layer in _DynamicCache(config=config).layers)


def _window(config: Any) -> int | None:
    """How many columns back a layer looks, where one of them has a limit."""
    windows = [getattr(config, "attention_chunk_size", None)]
    if getattr(config, "use_sliding_window", True) is not False:
        windows.append(getattr(config, "sliding_window", None))
    return min((window for window in windows if isinstance(window, int)), default=None)
