"""A causal model of transformers as a `LogitsModel`: sequences that share prompts, keys and values.

Logits stay on the model's device; `pick` masks, samples and makes one small copy to the host.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument, PromptTooLong
from formatter_core.errors.arguments import shown
from formatter_core.generation import (
    NO_SCORES,
    BatchSampler,
    ChosenToken,
    MixedSampling,
    Picked,
    Sampling,
    SamplingRows,
    ScoreSettings,
    Weighed,
)
from formatter_core.generation.batches import check_prompts, common_length
from formatter_core.generation.prompts import OnePrompt, beginning
from formatter_core.generation.tokenizer_prompts import TokenizerPrompts
from formatter_core.runtime import torch_bitmask
from formatter_transformers import torch_sampling
from formatter_transformers._compat_cache import ModelForward
from formatter_transformers._compat_model import is_name, loaded
from formatter_transformers._compat_sampling import configured_sampling, unused_settings
from formatter_transformers.batch import TransformersBatch, logprobs_of
from formatter_transformers.prefix_cache import PrefixCache
from formatter_transformers.token_scores import score_step
from formatter_transformers.vocabulary import compiler_for, is_tokenizer

__all__ = ["TransformersModel", "transformers_model"]

logger = logging.getLogger(__name__)

#: The maximum length of a model that does not state one.
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
    """Make a causal model of transformers, for `completion`, `continuation`, `choose` and your own loops.

    Args:
        name_or_model: a name or folder, which `AutoModelForCausalLM.from_pretrained` loads with its own defaults, or a
            loaded model.
        device: the device that it runs on; by default the one that transformers chose.
        dtype: the dtype of its weights; by default the one that transformers chooses.
        tokenizer: by default that of the model's name. It may also be the second argument: `transformers_model(model,
            tokenizer)`.
        cache_bytes: bytes of keys and values, on the model's device, kept for prompts that begin alike; 0 keeps none.

    Raises:
        UnsupportedEngineVersion: the model caches something other than keys and values for each token.
        InvalidVocabulary: the tokenizer cannot be read.
    """
    if is_tokenizer(device):
        if tokenizer is not None:
            raise InvalidArgument("found two tokenizers; give one of them", argument="tokenizer")
        device, tokenizer = None, device
    model, tokenizer = loaded(name_or_model, dtype, tokenizer)
    if device is not None or (dtype is not None and not is_name(name_or_model)):
        model = model.to(device=device, dtype=dtype)
    return TransformersModel(model.eval(), tokenizer, cache_bytes)


class TransformersModel(TokenizerPrompts):
    """A causal model of transformers with its tokenizer; made by `transformers_model`. One thread's at a time.

    Call `prefix_cache.clear()` after the weights have changed (training, another adapter) or moved.

    Attributes:
        model: the model itself.
        tokenizer: its tokenizer.
        compiler: what formats are compiled with, each once.
        prefix_cache: keys and values of earlier sequences.
    """

    def __init__(self, model: Any, tokenizer: Any, cache_bytes: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.compiler = compiler_for(tokenizer, model=model)
        self.prefix_cache = PrefixCache(cache_bytes)
        self.forward = ModelForward(model)
        self.passes = 0
        """The number of forward passes so far."""
        unused = unused_settings(model)
        if unused:
            asked = ", ".join(f"{name}={value!r}" for name, value in unused.items())
            logger.warning("the model's generation_config asks for %s, which these loops do not apply", asked)

    @property
    def sampling(self) -> Sampling:
        """The sampling of calls that set none: as in the model's current `generation_config`."""
        return configured_sampling(self.model)

    @property
    def max_length(self) -> int:
        """The maximum length of a sequence in tokens, including the prompt."""
        return self.forward.max_length or _LONGEST

    @property
    def device(self) -> torch.device:
        """The device of the logits."""
        device: torch.device = self.model.device
        return device

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> TransformersBatch:
        """See `LogitsModel.start`; with the right `room`, the steps to come copy nothing."""
        check_prompts(prompts)
        common = common_length(prompts)
        if len(prompts) > 1 and self.prefix_cache.limit and common >= _WORTH_SHARING:
            head = tuple(prompts[0])[:common]
            if self.prefix_cache.covered(head) + _WORTH_SHARING <= common:
                TransformersBatch(self, 1).begin([head])
        batch = TransformersBatch(self, len(prompts))
        batch.begin(prompts)
        batch.reserve(room)
        return batch

    def score_prompt(
        self, prompt: OnePrompt, settings: ScoreSettings, *, memory_bytes: int = 64 * 2**20
    ) -> list[ChosenToken | None]:
        """Measure each token of a prompt, given the tokens before it, as `settings` ask; the first entry is None.

        The prompt is computed in chunks, each of which makes one copy to the host. The logits of a chunk take at most
        `memory_bytes`, and what is computed from them at most 8 MiB (one position is computed at a time where even that
        takes more). The keys and values go into the prefix cache, so an output that follows does not compute the prompt
        again.

        Args:
            prompt: text, token ids, an earlier output, or an output with more text.
            settings: the values to compute.
            memory_bytes: the maximum size of the logits at a time.

        Raises:
            InvalidArgument: an empty prompt, or an id that is no token.
            PromptTooLong: the prompt is longer than the model allows.
        """
        ids = beginning(self, prompt, None).tokens
        if len(ids) > self.max_length:
            raise PromptTooLong(len(ids), self.max_length)
        if not settings or len(ids) == 1:
            return [None] * len(ids)
        found: list[ChosenToken | None] = [None]
        chunk = max(1, memory_bytes // (len(self.vocabulary) * self.model.dtype.itemsize))
        batch = TransformersBatch(self, 1)
        for start in range(0, len(ids), chunk):
            part = ids[start : start + chunk]
            following = ids[start + 1 : start + 1 + len(part)]
            logits = batch.forward([part], keep=len(part))[0, : len(following)]
            if following:
                found += score_step(logits, logits, torch.tensor(following, device=logits.device), settings)
        batch.remember(0)
        return found

    @staticmethod
    def span(name: str) -> AbstractContextManager[Any]:
        """Return a context that torch's profiler shows under this name; it costs almost nothing without a profiler."""
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

        Lists of best tokens and ranks come in a separate copy.
        """
        with torch.inference_mode(), self.span("formatter: pick"):
            exact = logits.float()
            masked = exact if allowed is None else torch_bitmask.apply(exact, allowed)
            ids = _drawn(sampler, masked, rows)
            is_token = None
            if not isinstance(sampler, Sampling):  # a function of the caller's may give anything
                is_token = (ids >= 0) & (ids < masked.shape[1])
                ids = ids * is_token
            columns = [masked.gather(1, ids[:, None])]
            if is_token is not None:
                columns = [columns[0].where(is_token[:, None], torch.nan)]
            is_simple = not (scores.top or scores.rank)
            if is_simple and scores.logprob:
                columns.append(columns[0] - masked.logsumexp(dim=-1, keepdim=True))
                if scores.unmasked:
                    columns.append(columns[-1] if masked is exact else logprobs_of(exact, ids[:, None]))
            if scored is not None:
                columns.append(scored)
            numbers = torch.cat([ids.float()[:, None], *columns], dim=1).cpu().numpy()  # the one copy of a step
            tokens = numbers[:, 0].astype(np.int64)  # exact below 2^24
            is_sound = np.isfinite(numbers[:, 1])
            chosen: list[ChosenToken] = []
            if is_simple and scores.logprob:
                among_all = numbers[:, 3].tolist() if scores.unmasked else [None] * len(ids)
                chosen = list(map(ChosenToken, tokens.tolist(), numbers[:, 2].tolist(), among_all))
            elif not is_simple:
                before = masked if allowed is None else logits  # the same object is measured once
                if not is_sound.all():  # a row without numbers has no scores; another's must not trip over it
                    bad = torch.from_numpy(~is_sound[:, None]).to(logits.device)
                    filled = masked.masked_fill(bad, 0.0)
                    before, masked = (filled if before is masked else before.masked_fill(bad, 0.0)), filled
                chosen = score_step(before, masked, ids, scores)
        known = numbers[:, numbers.shape[1] - scored.shape[1] :] if scored is not None else None
        return Picked(tokens, is_sound, chosen, known)

    @staticmethod
    def best(logits: torch.Tensor, allowed: NDArray[np.int32], count: int) -> list[list[tuple[int, float]]]:
        """See `LogitsModel.best`; one copy to the host."""
        with torch.inference_mode():
            exact = logits.float()
            best, ids = torch_bitmask.apply(exact, allowed).topk(min(count, exact.shape[1]), dim=1)
            logprobs = best - torch.logsumexp(exact, dim=1, keepdim=True)
            tokens, values = torch.cat([ids.float(), logprobs], dim=1).cpu().chunk(2, dim=1)  # exact below 2^24
        return [list(zip(*pair, strict=True)) for pair in zip(tokens.int().tolist(), values.tolist(), strict=True)]

    @staticmethod
    def weigh(logits: torch.Tensor, allowed: NDArray[np.int32], sampling: Sampling) -> Weighed:
        """See `WeighingModel.weigh`; one copy to the host, of all probabilities."""
        with torch.inference_mode():
            exact = logits.float()
            masked = torch_bitmask.apply(exact, allowed)
            scale = exact.logsumexp(1)
            mass = masked.logsumexp(1) - scale
            weights = torch_sampling.probabilities(sampling, exact)
            best = weights.argmax(dim=1, keepdim=True)
            own = (logprobs_of(exact, best) - sampling.temperature * weights.gather(1, best).log())[:, 0]
            kept = torch.where(masked > -torch.inf, weights, weights * 0)
            numbers = torch.cat([kept, own[:, None], mass[:, None]], dim=1).cpu().numpy()
        scales, masses = (numbers[:, place].astype(np.float64) for place in (-2, -1))
        return Weighed(numbers[:, :-2], scales, masses)

    @staticmethod
    def allowed_logprobs(logits: torch.Tensor, allowed: NDArray[np.int32]) -> list[float]:
        """See `WeighingModel.allowed_logprobs`; one copy to the host."""
        with torch.inference_mode():
            exact = logits.float()
            mass = torch_bitmask.apply(exact, allowed).logsumexp(1) - exact.logsumexp(1)
            found: list[float] = mass.tolist()
        return found

    @staticmethod
    def logprobs(logits: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """See `LogitsModel.logprobs`; one copy to the host."""
        with torch.inference_mode():
            exact = logits.float()
            at, ids = (torch.tensor(list(given), device=exact.device) for given in (rows, tokens))
            found: list[float] = (exact[at, ids] - exact.logsumexp(1)[at]).tolist()
        return found


def _drawn(sampler: BatchSampler, masked: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    """Draw a token for each row, int64 (rows,), on the device of the logits."""
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
    taken = sampler(given, rows)
    try:
        ids = torch.as_tensor(taken, device=masked.device)
    except (TypeError, ValueError, RuntimeError):
        ids = masked
    if ids.shape != (len(masked),) or ids.is_floating_point():
        raise InvalidArgument(f"the sampler gave {shown(taken)}; give a token id for each of {len(masked)} rows")
    return ids.to(torch.int64)
