"""Forced text as drafts in transformers' own loop: `model.generate(…, custom_generate=ForcedDrafts(tokenizer))`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from formatter_core.generation.forced import DraftsForForcedText, forced_drafts
from formatter_core.generation.tokenizer_prompts import continuation
from formatter_transformers import _compat_steps
from formatter_transformers._compat_cache import ModelForward
from formatter_transformers._compat_generate import ContextSoFar, check_decoding, output_of, takes_functions
from formatter_transformers.logits_processor import FormatterLogitsProcessor
from formatter_transformers.vocabulary import check_tokenizer

__all__ = ["ForcedDrafts"]


class ForcedDrafts(DraftsForForcedText):
    """A decoding loop for one prompt that proposes the tokenizer's tokens for text that the format forces.

    One forward pass computes them all. Each token is drawn as usual, and drafts are kept up to the first that the model
    spells otherwise; so outputs are those without drafts, greedy or sampled, with any processors and stopping criteria.
    The `FormatterLogitsProcessor` of the call proposes; without one, this is `generate`'s own loop.

    Args:
        tokenizer: that of the model.
        most: how many tokens are proposed at a time, at most.

    Raises:
        InvalidArgument: the tokenizer's name instead of the tokenizer, or `most` is not a whole number from 1.
        UnsupportedEngineVersion: `generate` takes no function as `custom_generate`.

    Attributes:
        proposed: how many tokens were proposed so far.
    """

    def __init__(self, tokenizer: Any, most: int = 16) -> None:
        check_tokenizer(tokenizer)
        takes_functions()
        super().__init__(most)
        self._tokenizer = tokenizer

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        """Decode in the place of `generate`'s loop, which calls this, and return what `generate` returns.

        Raises:
            InvalidArgument: several sequences, beams, a fixed or no cache, or more than text goes into the model.
            UnsupportedEngineVersion: the model keeps something other than keys and values of each token.
        """
        forward = ModelForward(model)
        check_decoding(input_ids, generation_config, model_kwargs)
        context = ContextSoFar(forward, model_kwargs)
        streamer = model_kwargs.get("streamer") or _compat_steps.streamer()
        hook = next((one for one in logits_processor if isinstance(one, FormatterLogitsProcessor)), None)
        wants = generation_config.return_dict_in_generate
        scores: list[torch.Tensor] | None = [] if wants and generation_config.output_scores else None
        logits: list[torch.Tensor] | None = [] if wants and generation_config.output_logits else None
        is_done = False
        while not is_done:
            length = input_ids.shape[1]
            most = int(min(self.most, generation_config.max_length - length - 1, context.room_after(length)))
            drafts = self.propose(hook, input_ids, most) if hook is not None and most > 0 else []
            computed = context.extend(input_ids, drafts)
            for place, draft in enumerate([*drafts, None]):
                raw = computed[:, place].to(copy=True, dtype=torch.float32, device=input_ids.device)
                masked = logits_processor(input_ids, raw.clone() if logits is not None else raw)
                if scores is not None:
                    scores.append(masked)
                if logits is not None:
                    logits.append(raw)
                token = _drawn(masked, generation_config.do_sample)
                input_ids = torch.cat([input_ids, token[:, None]], dim=1)
                if streamer is not None:
                    streamer.put(token.cpu())
                is_done = bool(stopping_criteria(input_ids, None if scores is None else tuple(scores)).all())
                if is_done or draft is None or int(token) != draft:
                    context.forget(len(drafts) - place)
                    break
        if streamer is not None:
            streamer.end()
        return output_of(input_ids, scores, logits, context.cache) if wants else input_ids

    def propose(self, hook: FormatterLogitsProcessor, input_ids: torch.Tensor, most: int) -> list[int]:
        """Return the tokenizer's tokens for text that must follow the only row, int64 (1, length), if there is any."""
        continue_text = partial(continuation, self._tokenizer)
        found = forced_drafts(lambda: hook.formatter_after(input_ids), continue_text, most)
        self.proposed += len(found)
        return found


def _drawn(scores: torch.Tensor, is_sampled: bool) -> torch.Tensor:
    """Return the token of the only row, int64 (1,), drawn as `generate` draws it."""
    return torch.multinomial(scores.softmax(dim=-1), 1)[:, 0] if is_sampled else scores.argmax(dim=-1)
