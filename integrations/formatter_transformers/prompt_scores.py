"""What the model makes of a prompt's own tokens, computed in chunks, so that memory stays bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from formatter_core.errors import PromptTooLong
from formatter_core.generation import ChosenToken, ScoreSettings
from formatter_core.generation.prompts import OnePrompt, beginning
from formatter_transformers.token_scores import score_step

if TYPE_CHECKING:
    from formatter_transformers.model import TransformersModel

__all__ = ["score_prompt"]


def score_prompt(
    model: TransformersModel,
    prompt: OnePrompt,
    settings: ScoreSettings,
    *,
    memory_bytes: int = 64 * 2**20,
) -> list[ChosenToken | None]:
    """What `settings` ask about each token of a prompt, given those before it.

    The prompt is computed in chunks, each of which makes one copy to the host. The logits of a chunk take at most
    `memory_bytes`, and what is computed from them at most 8 MiB, however long the prompt is (one position is computed
    at a time where even that takes more). The keys and values go into the model's prefix cache, so an output that
    follows does not compute the prompt again.

    Args:
        model: made by `transformers_model`.
        prompt: text, token ids, an earlier output, or an output with more text.
        settings: what is wanted.
        memory_bytes: of logits at a time.

    Returns:
        one for each token; None for the first one, which nothing predicts.

    Raises:
        InvalidArgument: an empty prompt, or an id that is no token.
        PromptTooLong: it is longer than the model takes.
    """
    ids = beginning(model, prompt, None).tokens
    if len(ids) > model.max_length:
        raise PromptTooLong(len(ids), model.max_length)
    found: list[ChosenToken | None] = [None]
    if not settings or len(ids) == 1:
        return found + [None] * (len(ids) - 1)
    chunk = max(1, memory_bytes // (len(model.vocabulary) * model.model.dtype.itemsize))
    batch = model.empty_batch()
    for start in range(0, len(ids), chunk):
        part = ids[start : start + chunk]
        following = ids[start + 1 : start + 1 + len(part)]
        logits = batch.forward([part], keep=len(part))[0, : len(following)]
        if following:
            chosen = torch.tensor(following, device=logits.device)
            found.extend(score_step(logits, logits, chosen, settings))
    batch.remember(0)
    return found
