"""Runs of a transformers model with keys and values that this package stores."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from formatter_transformers._compat import text_config
from formatter_transformers._compat_model import DynamicCache, DynamicLayer, cache_argument, decoder_of, window_of
from formatter_transformers.key_values import KeyValues, LayerBuffer

__all__ = ["ModelForward", "segment_of"]


class _BufferLayer(DynamicLayer or object):  # type: ignore[misc]
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


class _BufferCache(DynamicCache):  # type: ignore[misc]
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
    if DynamicLayer is None:
        return _BufferCache(buffers)
    cache = DynamicCache()
    cache.layers = [_BufferLayer(buffer) for buffer in buffers]
    return cache


class ModelForward:
    """A function that runs a causal model on new tokens of a batch; it knows the argument names of each release.

    Raises:
        UnsupportedEngineVersion: the model keeps something other than keys and values of each token, or does not take
            the positions of tokens.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        inner, config = decoder_of(model), text_config(model)
        self.layers = int(config.num_hidden_layers)
        self.max_length = getattr(config, "max_position_embeddings", None)
        parameters = inspect.signature(inner.forward).parameters
        self._keep = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in parameters), None)
        self._cache = cache_argument(parameters) or "past_key_values"
        self._takes_positions = "position_ids" in parameters
        # A model that takes no positions may count columns from a token to another, unused ones between them included.
        self.window = window_of(config) if self._takes_positions else 0
        self._is_biased = bool(getattr(config, "alibi", False))
        # GPT-2 and other models of 4.x take only tuples of tensors, and join them themselves.
        self._takes_tuples = getattr(inner, "_supports_cache_class", True) is False

    def takes_trees(self, length: int) -> bool:
        """Tell whether the model accepts a mask that says for each token what it sees, at sequences of this length."""
        how = getattr(self.model.config, "_attn_implementation", None)
        # A model without position ids derives positions from a mask of two dimensions, which a tree's mask is not.
        can = how in ("sdpa", "eager") and self._takes_positions and not self._takes_tuples and not self._is_biased
        return can and not self.counts_columns(length)

    def counts_columns(self, columns: int) -> bool:
        """Tell whether a layer's window, counted in columns whether used or not, is shorter than this many columns."""
        return self.window is not None and columns > self.window

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, key_values: KeyValues, keep: int
    ) -> torch.Tensor:
        """Compute the logits (rows, keep, width) of the last columns; append the keys and values of all columns.

        `ids` and `positions` are int64 (rows, columns); `mask` is int64 (rows, all columns), or floats (rows, 1,
        columns, all columns) that are added to the scores, or None if every row uses every column.
        """
        buffers = key_values.layers
        if not self._takes_tuples:
            return self.with_cache(ids, positions, mask, _cache_of(buffers), keep)
        past = tuple(buffer.views() for buffer in buffers) if key_values.columns else None
        output = self._output(ids, positions, mask, past, keep)
        for buffer, (keys, values) in zip(buffers, getattr(output, self._cache), strict=True):
            buffer.append(keys[:, :, key_values.columns :], values[:, :, key_values.columns :])
        logits: torch.Tensor = output.logits
        return logits[:, -keep:]

    def with_cache(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Any, keep: int
    ) -> torch.Tensor:
        """Compute logits with a cache of transformers, which grows."""
        logits: torch.Tensor = self._output(ids, positions, mask, cache, keep).logits
        return logits[:, -keep:]

    def _output(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Any, keep: int
    ) -> Any:
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": True, self._cache: cache}
        if self._takes_positions:
            arguments["position_ids"] = positions
        if self._keep is not None:
            arguments[self._keep] = keep
        return self.model(**arguments)


def segment_of(past_key_values: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the keys and values of the first row of a transformers cache, layer by layer, (heads, tokens, size)."""
    layers = getattr(past_key_values, "layers", None)
    if layers is not None:
        return [(layer.keys[0], layer.values[0]) for layer in layers]
    return [(keys[0], values[0]) for keys, values in past_key_values]
