"""Beam search under a format: forked formatters, and keys and values that follow them."""

from __future__ import annotations

from typing import Any

import torch

from formatter_core.errors import InvalidArgument, PromptTooLong
from formatter_core.generation import BeamSearch, Generated
from formatter_core.generation.prompts import OnePrompt, beginning
from formatter_core.runtime import torch_bitmask
from formatter_transformers.model import TransformersModel

__all__ = ["beam_search"]


def beam_search(
    model: TransformersModel, prompt: OnePrompt, format: Any, *, width: int = 4, max_tokens: int = 128
) -> list[Generated]:
    """The most probable outputs in a format that `width` beams find, the best first, all of them complete.

    The raw sum of log-probabilities among all tokens decides, and `Generated.chosen` has them. The prompt is computed
    once, and each step makes one small copy to the host. There are fewer outputs than beams, or none, where
    `max_tokens` is too few for them to end.

    Args:
        model: made by `transformers_model`.
        prompt: text, token ids, an earlier output, or an output with more text.
        format: whatever `Compiler.compile` takes.
        width: how many beams.
        max_tokens: tokens of each output at most, the end id included.

    Raises:
        InvalidArgument: an empty prompt, numbers below 1.
        PromptTooLong: the prompt with an output is longer than the model takes.
        DeadEnd: the vocabulary cannot spell any output.
        FormatterError: whatever compiling the format raises.
    """
    before = beginning(model, prompt, None).tokens
    if max_tokens < 1:
        raise InvalidArgument(f"max_tokens is {max_tokens}; give a number from 1")
    if len(before) + max_tokens > model.max_length:
        raise PromptTooLong(len(before) + max_tokens, model.max_length)
    search = BeamSearch(model.compiler.compile(format).formatter(), width)
    batch = model.start([before])
    for step in range(max_tokens):
        search.take(_best(batch.logits, search))
        if search.is_over or step == max_tokens - 1:
            break
        batch.select([beam.parent for beam in search.beams])
        batch.forward([beam.tokens[-1:] for beam in search.beams])
    return search.outputs(before)


def _best(logits: torch.Tensor, search: BeamSearch) -> list[list[tuple[int, float]]]:
    """The best allowed tokens of each beam with their log-probabilities among all tokens, in one copy to the host."""
    with torch.inference_mode():
        exact = logits.float()
        allowed = torch_bitmask.apply(exact, search.masks)
        best, ids = allowed.topk(min(search.candidates, allowed.shape[1]), dim=1)
        logprobs = best - torch.logsumexp(exact, dim=1, keepdim=True)
        host = torch.cat([ids.to(torch.int32), logprobs.view(torch.int32)], dim=1).cpu()
        tokens, bits = host.chunk(2, dim=1)
        values = bits.contiguous().view(torch.float32)
    return [list(zip(*pair, strict=True)) for pair in zip(tokens.tolist(), values.tolist(), strict=True)]
