"""The interface between `generate` and a function that decodes in its place."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationMixin
from transformers.generation import utils

from formatter_core.errors import InvalidArgument
from formatter_transformers._compat import text_config, unsupported
from formatter_transformers._compat_cache import ModelForward
from formatter_transformers._compat_model import DynamicCache, growing_cache

__all__ = ["ContextSoFar", "check_decoding", "output_of", "takes_functions"]

#: The names of the cache among the arguments of a model.
_CACHES = ("past_key_values", "cache")
#: Arguments for a model that this module knows, or that change nothing for one sequence of text.
_KNOWN = {
    *_CACHES,
    "attention_mask",
    "cache_position",
    "logits_to_keep",
    "num_logits_to_keep",
    "position_ids",
    "streamer",
    "synced_gpus",
    "use_cache",
}


def takes_functions() -> None:
    """Raise `UnsupportedEngineVersion` where `generate` takes no function that decodes."""
    parameter = inspect.signature(GenerationMixin.generate).parameters.get("custom_generate")
    if parameter is None or "Callable" not in str(parameter.annotation):
        raise unsupported("functions as custom_generate of generate", ">= 4.56")


def check_decoding(input_ids: torch.Tensor, generation_config: Any, model_kwargs: dict[str, Any]) -> None:
    """Raise `InvalidArgument` for a call that is not one sequence of text in a cache that grows."""
    why, cache = None, _cache_in(model_kwargs)
    if len(input_ids) > 1:  # beams are, too
        remedy = 'give one, or write several with formatter_core.generation.completion(..., forced_text="drafts")'
        why = f"{len(input_ids)} sequences", remedy
    elif not model_kwargs.get("use_cache") or type(cache) not in (type(None), DynamicCache):
        why = "without a cache that grows", 'use use_cache=True and cache_implementation=None or "dynamic"'
    elif cache is not None and cache.get_seq_length() >= input_ids.shape[1]:
        why = "from new tokens alone", "give the whole sequence, what is in the cache included"
    elif generation_config.output_attentions or generation_config.output_hidden_states:
        why = "with output_attentions or output_hidden_states", "drop them"
    elif others := [name for name, value in model_kwargs.items() if name not in _KNOWN and value is not None]:
        why = f"with {', '.join(sorted(others))}", "give the model text alone"
    if why is not None:
        raise InvalidArgument(f"ForcedDrafts cannot decode {why[0]}; {why[1]}", argument="custom_generate")


def _cache_in(model_kwargs: dict[str, Any]) -> Any:
    return next((model_kwargs[name] for name in _CACHES if model_kwargs.get(name) is not None), None)


class ContextSoFar:
    """The keys and values that a model has computed of one sequence, in the cache that `generate` prepared.

    Args:
        forward: runs the model.
        model_kwargs: what `generate` gives for it.

    Attributes:
        cache: keys and values of tokens, which may be there already when decoding begins.
    """

    def __init__(self, forward: ModelForward, model_kwargs: dict[str, Any]) -> None:
        self._forward = forward
        self.cache = _cache_in(model_kwargs)
        if self.cache is None:  # some releases leave it to the model
            self.cache = growing_cache(text_config(forward.model))
        self._mask: torch.Tensor | None = model_kwargs.get("attention_mask")
        self._positions: torch.Tensor | None = model_kwargs.get("position_ids")

    def room_after(self, length: int) -> float:
        """Return how many tokens can be removed again after a sequence of this length.

        A window drops keys and values that it has passed.
        """
        window = self._forward.window
        return window - 1 - length if window else math.inf

    def extend(self, input_ids: torch.Tensor, drafts: Sequence[int]) -> torch.Tensor:
        """Compute logits (1, drafts + 1, width) after the sequence, int64 (1, length), and after each draft."""
        after = torch.tensor([drafts], dtype=torch.int64, device=input_ids.device)
        new = torch.cat([input_ids[:, self.cache.get_seq_length() :], after], dim=1)
        length = input_ids.shape[1] + len(drafts)
        mask = self._mask
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(1, length - mask.shape[1])], dim=1)
        keep = len(drafts) + 1
        return self._forward.with_cache(new, self._placed(length, new.shape[1]), mask, self.cache, keep)

    def forget(self, count: int) -> None:
        """Take back the last `count` tokens that were computed."""
        if count:
            self.cache.crop(-count)

    def _placed(self, length: int, count: int) -> torch.Tensor:
        """Return the positions of the last `count` of `length` tokens, int64 (1, count)."""
        known = self._positions
        if known is None:
            counted = torch.arange(length, device=self._forward.model.device)[None]
            known = counted if self._mask is None else (self._mask.long().cumsum(-1) - 1).clamp(min=0)
        more = torch.arange(1, max(0, length - known.shape[1]) + 1, device=known.device)
        return torch.cat([known, known[:, -1:] + more], dim=1)[:, -count:]


def output_of(
    sequences: torch.Tensor, scores: list[torch.Tensor] | None, logits: list[torch.Tensor] | None, cache: Any
) -> Any:
    """Make the output object of `generate`."""
    kind: Any = utils.GenerateDecoderOnlyOutput
    name = next(name for name in _CACHES if name in inspect.signature(kind).parameters)
    parts = {"scores": scores, "logits": logits}
    return kind(sequences, **{part: each and tuple(each) for part, each in parts.items()}, **{name: cache})
