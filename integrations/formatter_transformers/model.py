"""A causal model of transformers as a `LogitsModel`: sequences that share prompts, keys and values.

The shape of it, for loops of your own::

    model = transformers_model("some/model")                # model.vocabulary, .compiler, .max_length, .prefix_cache
    ids = model.encode("Once upon a time")                  # list[int]; encode_continuation(b" there") for what follows
    batch = model.start([ids, other_ids])                   # one prefill, a row for each prompt
    batch.logits                                            # tensor (rows, width): what follows the last token
    batch.select([0, 0, 0, 1])                              # fan out, reorder, drop rows: beams, samples, particles
    batch.forward([[5], [6, 7], [8], []])                   # more tokens, any number a row, in one forward pass
    batch.forward(tokens, keep=3)                           # returns logits (rows, 3, width) after the last 3 of them
    batch.forward_tree([5, 6, 7], [-1, 0, 0])               # logits (nodes, width) of a tree behind the only row
    batch.crop([9, 9, 10, 9])                               # keep this many tokens of each row
    batch.tokens, len(batch)                                # all tokens of each row; the number of rows

Logits stay on the model's device; `model.pick` masks, samples and makes one small copy to the host.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidArgument
from formatter_core.generation import (
    NO_SCORES,
    BatchSampler,
    ChosenToken,
    MixedSampling,
    Picked,
    Sampling,
    SamplingRows,
    ScoreSettings,
)
from formatter_core.generation.prompts import continuation_tokens
from formatter_core.runtime import torch_bitmask
from formatter_transformers import torch_sampling
from formatter_transformers._compat_cache import ModelForward, loaded
from formatter_transformers._compat_sampling import configured_sampling, unused_settings
from formatter_transformers.batch import TransformersBatch, logprobs_of
from formatter_transformers.prefix_cache import PrefixCache
from formatter_transformers.prompt_scores import score_prompt
from formatter_transformers.token_scores import score_step
from formatter_transformers.vocabulary import compiler_for

__all__ = ["TransformersModel", "transformers_model"]

logger = logging.getLogger(__name__)

NOT_CHOSEN = ChosenToken(-1, None, None)

#: What a model without a stated length may take.
_LONGEST = 2**20
#: Prompts of one call that share at least this many first tokens have them computed once.
_WORTH_SHARING = 32


def transformers_model(
    name_or_model: Any,
    device: Any = None,
    dtype: Any = None,
    *,
    tokenizer: Any = None,
    cache_bytes: int = 256 * 2**20,
) -> TransformersModel:
    """A causal model of transformers, for `completion`, `continuation`, `choose` and loops of your own.

    Args:
        name_or_model: a name or folder, loaded by `AutoModelForCausalLM.from_pretrained` with its own defaults, or a
            model that is loaded.
        device: where it runs; by default where transformers put it.
        dtype: of its weights; by default what transformers chooses.
        tokenizer: by default that of the model's name.
        cache_bytes: bytes of keys and values kept for prompts that begin alike, on the model's device; 0 for none.

    Raises:
        UnsupportedEngineVersion: the model keeps something else than keys and values for each token.
        InvalidVocabulary: the tokenizer cannot be read.
    """
    model, tokenizer = loaded(name_or_model, dtype, tokenizer)
    if device is not None or (dtype is not None and not isinstance(name_or_model, str)):
        model = model.to(device=device, dtype=dtype)
    return TransformersModel(model.eval(), tokenizer, cache_bytes)


class TransformersModel:
    """A causal model of transformers with its tokenizer; made by `transformers_model`. One thread's at a time.

    Call `prefix_cache.clear()` when the weights have changed (training, another adapter) or were moved.

    Attributes:
        model: the model itself.
        tokenizer: its tokenizer.
        compiler: what formats are compiled with, each once.
        prefix_cache: keys and values of earlier sequences.
    """

    def __init__(self, model: Any, tokenizer: Any, cache_bytes: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.compiler: Compiler = compiler_for(tokenizer, model=model)
        self.prefix_cache = PrefixCache(cache_bytes)
        self.forward = ModelForward(model)
        self.passes = 0
        """Forward passes so far."""
        unused = unused_settings(model)
        if unused:
            asked = ", ".join(f"{name}={value!r}" for name, value in unused.items())
            logger.warning("the model's generation_config asks for %s, which these loops do not apply", asked)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens; as many as there are logits."""
        return self.compiler.vocabulary

    @property
    def sampling(self) -> Sampling:
        """How tokens are chosen where a call does not say: as the model's `generation_config` has it now."""
        return configured_sampling(self.model)

    @property
    def max_length(self) -> int:
        """How many tokens a sequence has at most, prompt included."""
        return self.forward.max_length or _LONGEST

    @property
    def device(self) -> torch.device:
        """Where the logits are."""
        device: torch.device = self.model.device
        return device

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, with what the tokenizer puts before a text."""
        return list(self.tokenizer(text)["input_ids"])

    def encode_chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> list[int]:
        """The ids of a conversation, up to where the model's answer begins, by the tokenizer's chat template.

        Args:
            messages: as `tokenizer.apply_chat_template` takes them.
            options: more of its arguments, for example `tools` or those of the template itself.
        """
        wanted = {"add_generation_prompt": True, **options, "tokenize": True, "return_dict": True}
        return list(self.tokenizer.apply_chat_template(list(messages), **wanted)["input_ids"])

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Ids that spell exactly these bytes; None where there are none, or the bytes are not whole characters."""

        def tokenize(data: bytes) -> list[int]:
            return list(self.tokenizer(data.decode("utf-8"), add_special_tokens=False)["input_ids"])

        try:
            return continuation_tokens(self.vocabulary, tokenize, text)
        except UnicodeDecodeError:
            return None

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> TransformersBatch:
        """Compute prompts, each once, one a row; what the prefix cache has of them is taken from there.

        Args:
            prompts: ids, at least one each.
            room: how many more tokens each of them will probably get, so that the steps to come copy nothing.
        """
        if not prompts or not all(len(prompt) for prompt in prompts):
            raise InvalidArgument("a sequence needs at least one token; give at least the model's first token")
        common = _common([tuple(prompt) for prompt in prompts])
        if len(prompts) > 1 and self.prefix_cache.limit and common >= _WORTH_SHARING:
            head = tuple(prompts[0])[:common]
            if self.prefix_cache.covered(head) + _WORTH_SHARING <= common:
                TransformersBatch(self, 1).begin([head])
        batch = TransformersBatch(self, len(prompts))
        batch.begin(prompts)
        batch.reserve(room)
        return batch

    def empty_batch(self) -> TransformersBatch:
        """One sequence without a token, to compute a prompt in steps of your own."""
        return TransformersBatch(self, 1)

    def score_prompt(self, tokens: Sequence[int], settings: ScoreSettings) -> list[ChosenToken | None]:
        """What `settings` ask about each token of a prompt; see `formatter_transformers.score_prompt`."""
        return score_prompt(self, tokens, settings)

    @staticmethod
    def span(name: str) -> AbstractContextManager[Any]:
        """A context that torch's profiler shows by this name; next to nothing where none runs."""
        context: AbstractContextManager[Any] = torch.profiler.record_function(name)
        return context

    def pick(
        self,
        logits: torch.Tensor,
        allowed: NDArray[np.int32] | None,
        sampler: BatchSampler,
        rows: SamplingRows,
        *,
        scores: ScoreSettings = NO_SCORES,
        scored: torch.Tensor | None = None,
    ) -> Picked:
        """Mask the logits, choose a token for each row, and copy what was chosen to the host, once.

        Lists of best tokens and ranks come in a copy of their own.
        """
        with torch.inference_mode(), self.span("formatter: pick"):
            exact = logits.float()
            masked = exact if allowed is None else torch_bitmask.apply(exact, allowed)
            ids = _drawn(sampler, masked, rows)
            columns = [masked.gather(1, ids[:, None])]
            is_simple = not (scores.top or scores.rank)
            if is_simple and scores.logprob:
                columns.append(columns[0] - masked.logsumexp(dim=-1, keepdim=True))
                if scores.unmasked:
                    columns.append(columns[-1] if masked is exact else logprobs_of(exact, ids[:, None]))
            if scored is not None:
                columns.append(scored)
            packed = torch.cat([ids.to(torch.int32)[:, None], *(column.view(torch.int32) for column in columns)], dim=1)
            host = packed.cpu().numpy()  # the one copy of a step
            numbers = host.view(np.float32)
            is_sound = np.isfinite(numbers[:, 1])
            if is_simple:
                chosen = _chosen(host[:, 0], numbers, scores)
            else:
                before = masked if allowed is None else logits  # the same object is measured once
                if is_sound.all():
                    chosen = score_step(before, masked, ids, scores)
                else:
                    sound = torch.from_numpy(np.flatnonzero(is_sound)).to(logits.device)
                    left = masked[sound]
                    found = iter(score_step(left if before is masked else before[sound], left, ids[sound], scores))
                    chosen = [next(found) if ok else NOT_CHOSEN for ok in is_sound]
        known = numbers[:, numbers.shape[1] - scored.shape[1] :] if scored is not None else None
        return Picked(host[:, 0].astype(np.int64), is_sound, chosen, known)

    @staticmethod
    def best(logits: torch.Tensor, allowed: NDArray[np.int32], count: int) -> list[list[tuple[int, float]]]:
        """See `LogitsModel.best`; one copy to the host."""
        with torch.inference_mode():
            exact = logits.float()
            best, ids = torch_bitmask.apply(exact, allowed).topk(min(count, exact.shape[1]), dim=1)
            logprobs = best - torch.logsumexp(exact, dim=1, keepdim=True)
            host = torch.cat([ids.to(torch.int32), logprobs.view(torch.int32)], dim=1).cpu()
            tokens, bits = host.chunk(2, dim=1)
            values = bits.contiguous().view(torch.float32)
        return [list(zip(*pair, strict=True)) for pair in zip(tokens.tolist(), values.tolist(), strict=True)]

    @staticmethod
    def logprobs(logits: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """See `LogitsModel.logprobs`; one copy to the host."""
        with torch.inference_mode():
            exact = logits.float()
            at, ids = (torch.tensor(list(given), device=exact.device) for given in (rows, tokens))
            found: list[float] = (exact[at, ids] - exact.logsumexp(1)[at]).tolist()
        return found


def _drawn(sampler: BatchSampler, masked: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    """A token for each row, int64 (rows,), on the device of the logits."""
    if isinstance(sampler, Sampling):
        return torch_sampling.draw(sampler, masked, rows.uniforms)
    if isinstance(sampler, MixedSampling):
        ids = torch.zeros(len(masked), dtype=torch.int64, device=masked.device)
        for one, places in sampler.groups:
            index = torch.tensor(places, device=masked.device)
            ids[index] = _drawn(one, masked[index], rows.part(places))
        return ids
    # A row without numbers ends its own sequence; another's sampler must not trip over it.
    best = masked.amax(dim=-1, keepdim=True)
    given = masked.masked_fill(best.isnan() | (best == -torch.inf), 0.0)
    return torch.as_tensor(sampler(given, rows), device=masked.device).to(torch.int64)


def _chosen(ids: NDArray[np.int32], numbers: NDArray[np.float32], scores: ScoreSettings) -> list[ChosenToken]:
    if not scores.logprob:
        return []
    among_allowed = numbers[:, 2].tolist()
    among_all = numbers[:, 3].tolist() if scores.unmasked else [None] * len(ids)
    return list(map(ChosenToken, ids.tolist(), among_allowed, among_all))


def _common(prompts: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with."""
    low, high = min(prompts), max(prompts)
    return next((index for index, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
