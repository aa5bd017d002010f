"""ExLlamaV3 as far as a filter can tell: the base class of each generation, and a generator on a model that is a hash.

The generations differ in what a mask looks like, in whether drafts are sampled with masks, in whether a job that is
queued again begins its filters anew, and in whether filters are rewound (for banned strings).
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from tests.adapters.contract import END, OTHER_END, TOKENS, WIDTH
from tests.adapters.engine_modules import modules_of

GENERATIONS = ("0.0.5", "0.0.32", "1.4.1")
NEWEST = GENERATIONS[-1]
PADDED = -(-WIDTH // 32) * 32
#: Every generator has threads of its own; here they share theirs.
POOL = ThreadPoolExecutor(max_workers=4)


@contextmanager
def exllamav3_of(version: str) -> Iterator[types.ModuleType]:
    """Put a stand-in in the place of the module `exllamav3`, and import the adapter anew on it."""
    filter_class = RewindableFilter if version == NEWEST else PlainFilter
    content = {"version": types.SimpleNamespace(__version__=version), "Filter": filter_class}
    with modules_of("formatter_exllamav3", {"exllamav3": content}) as made:
        yield made["exllamav3"]


class Tokenizer:
    """An `exllamav3.Tokenizer` around one of the tokenizers package, with what the adapter reads of it."""

    def __init__(
        self, inner: Any, eos: Sequence[int | None], *, declared: Any = None, vocab_size: int | None = None
    ) -> None:
        self.tokenizer = inner
        self.eos_token_id = next(iter(eos), 2)
        self.tokenizer_config_dict: Any = {} if declared is None else {"added_tokens_decoder": declared}
        self.actual_vocab_size = max(inner.get_vocab_size(), *(1 + int(token_id) for token_id in declared or (0,)))
        self.config = types.SimpleNamespace(eos_token_id_list=list(eos), vocab_size=vocab_size)

    def get_id_to_piece_list(self, *arguments: Any) -> list[str]:
        raise AssertionError("these strings have lost what is no whole character")


class PlainFilter:
    """The base class up to 1.4.0: the generator itself looks for triggers and ends."""

    def __init__(self, tokenizer: Any, trigger_token: Any, prefix_str: Any, eos_after_completed: bool) -> None:
        self.tokenizer, self.trigger_token, self.prefix_str = tokenizer, trigger_token, prefix_str
        self.eos_after_completed = eos_after_completed
        self.job = self.generator = self.vocab_size = None
        self.logits_dtype = torch.half
        self.is_active = trigger_token is None

    def use_background_worker(self) -> bool:
        return True

    def attach(self, job: Any) -> None:
        self.job, self.generator = job, job.generator
        self.vocab_size = job.generator.padded_vocab_size


class RewindableFilter(PlainFilter):
    """The base class from 1.4.1 on: it is fed every token, and can be rewound."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fed: list[tuple[int, str]] = []

    def attach(self, job: Any) -> None:
        super().attach(job)
        self._fed = []

    def feed(self, token: int) -> bool:
        if self.is_active:
            self.accept_token(token)
            ended = self.is_completed()
            self.is_active = not ended
            self._fed.append((token, "last" if ended else "taken"))
            return ended and self.eos_after_completed
        self.is_active = token == self.trigger_token
        if self.is_active:
            self.reset()
        self._fed.append((token, "trigger" if self.is_active else "passed"))
        return False

    def rewind(self, count: int) -> None:
        gone = [what for _, what in self._fed[len(self._fed) - count :]]
        del self._fed[len(self._fed) - count :]
        taken = gone.count("taken") + gone.count("last")
        if "trigger" not in gone and (not taken or self.rollback_tokens(taken)):
            self.is_active = self.is_active or "last" in gone
            return
        fed, self._fed = self._fed, []
        self.is_active = self.trigger_token is None
        self.reset()
        for token, _ in fed:
            self.feed(token)

    def rollback_tokens(self, count: int) -> bool:
        return False


class Job:
    """A job, as far as a filter may see it."""

    def __init__(
        self,
        filters: Sequence[Any] = (),
        *,
        max_new_tokens: int = 100,
        min_new_tokens: int = 0,
        stop_conditions: Sequence[int] = (END, OTHER_END),
        banned_strings: Sequence[bytes] = (),
        script: Sequence[int] | None = None,
        seed: int = 0,
        cut: int | None = None,
    ) -> None:
        self.filters = list(filters)
        self.max_new_tokens, self.min_new_tokens = max_new_tokens, min_new_tokens
        self.stop_tokens = set(stop_conditions)
        self.stop_tokens_list = list(stop_conditions)
        self.banned_strings = banned_strings
        self.script = script  # what the model wishes to say, instead of what the seed decides
        self.seed, self.cut = seed, cut  # a job is queued again after `cut` tokens
        self.generator: Any = None
        self.is_finished = self.is_requeued = False
        self.checkpoint: dict[str, Any] | None = None
        self.filter_futures: list[Future[torch.Tensor] | None] = []
        self.logit_masks: list[torch.Tensor | None] = []
        self.pinned_logit_mask: torch.Tensor | None = None
        self.masks: list[set[int]] = []
        self.copied = 0  # masks that were copied to the memory that is sent to the device
        self.tokens: list[int] = []
        self.suppressed: list[list[int]] = []
        self.eos_reason = ""

    @property
    def new_tokens(self) -> int:
        return len(self.tokens)

    @property
    def text(self) -> bytes:
        return text_of(self.tokens)

    def activate(self) -> None:
        if self.is_requeued and self.generator.version != "0.0.5":
            return
        for each in self.filters:
            each.attach(self)
            each.reset()
            each.is_active = each.trigger_token is None

    def prepare_logit_mask(self) -> np.ndarray:
        """Return which ids may be sampled next, as booleans of the width of the logits."""
        masks = []
        for place, _ in enumerate(each for each in self.filters if each.is_active):
            future = self.filter_futures[place]
            mask = self.logit_masks[place] if future is None else future.result()
            assert mask is not None
            masks.append(mask)
        self.filter_futures.clear()
        self.logit_masks.clear()
        blocked = list(self.checkpoint["explored_tokens"]) if self.checkpoint and not self.checkpoint["offset"] else []
        if self.new_tokens < self.min_new_tokens:
            blocked += self.stop_tokens_list
        allowed = (self._combined if self.generator.version == NEWEST else self._written)(masks, blocked)
        self.masks.append(set(np.flatnonzero(allowed).tolist()))
        return allowed

    def _combined(self, masks: Sequence[torch.Tensor], blocked: Sequence[int]) -> np.ndarray:
        width = self.generator.padded_vocab_size
        allowed = np.ones(width, dtype=bool)
        for mask in masks:
            if mask.dtype == torch.int32:
                assert mask.shape == (1, width // 32)
                allowed &= np.unpackbits(mask.numpy().view(np.uint8), bitorder="little").astype(bool)
            else:
                allowed &= dense(mask, width)
        allowed[blocked] = False
        return allowed

    def _written(self, masks: Sequence[torch.Tensor], blocked: Sequence[int]) -> np.ndarray:
        """Combine the masks in the job's own memory, which is made with its first mask and also changed elsewhere."""
        width = self.generator.padded_vocab_size
        if not masks and not blocked:
            return np.ones(width, dtype=bool)
        if self.pinned_logit_mask is None:
            self.pinned_logit_mask = torch.empty((1, width), dtype=torch.half)
        memory = self.pinned_logit_mask
        for place, mask in enumerate(masks):
            assert dense(mask, width).shape == (width,)
            if place:
                memory += mask
            else:
                self.copied += mask is not memory
                memory.copy_(mask)
        if not masks:
            memory.zero_()
        memory[:, blocked] = -torch.inf
        return dense(memory, width)

    def receive_sample(self, token: int) -> None:
        ended = False
        for each in self.filters:
            if isinstance(each, RewindableFilter):
                ended |= each.feed(token)
            elif each.is_active:
                each.accept_token(token)
                if each.is_completed():
                    each.is_active = False
                    ended |= each.eos_after_completed
            elif token == each.trigger_token:
                each.is_active = True
                each.reset()
        self.tokens.append(token)
        if token in self.stop_tokens:
            self.eos_reason = "stop_token"
        elif len(self.tokens) >= self.max_new_tokens:
            self.eos_reason = "max_new_tokens"
        elif ended:
            self.eos_reason = "end_filter"
        else:
            self._look_for_banned_strings(token)
        self.is_finished = bool(self.eos_reason)

    def _look_for_banned_strings(self, token: int) -> None:
        held = 1 + (self.checkpoint["offset"] if self.checkpoint else 0)
        text = text_of(self.tokens[-held:])
        is_banned = any(banned in text for banned in self.banned_strings)
        ends = [text[-size:] for size in range(1, len(text) + 1)]
        if not is_banned and not any(banned.startswith(end) for banned in self.banned_strings for end in ends):
            self.checkpoint = None
            return
        if self.checkpoint is None:
            self.checkpoint = {"offset": 0, "explored_tokens": []}
        if self.checkpoint["offset"] == 0:
            self.checkpoint["explored_tokens"].append(token)
        self.checkpoint["offset"] += 1
        if is_banned:
            for each in self.filters:
                each.rewind(held)
            self.suppressed.append(self.tokens[-held:])
            del self.tokens[-held:]
            self.checkpoint["offset"] = 0


class Generator:
    """The loop that drives all jobs. An exception that leaves it has taken every job down."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.padded_vocab_size = PADDED
        self.pending_jobs: list[Job] = []
        self.active_jobs: list[Job] = []
        self.filter_pool = POOL
        self.nothing_was_left = False  # a real sampler takes anything then
        self.drafts: list[int] = []
        self.wishes: dict[int, int] = {}  # by place, what the model says there if it may

    def enqueue(self, *jobs: Job) -> None:
        for job in jobs:
            job.generator = self
            self.pending_jobs.append(job)

    def run(self, *jobs: Job) -> None:
        self.enqueue(*jobs)
        while self.pending_jobs or self.active_jobs:
            self.iterate()

    def iterate(self) -> None:
        while self.pending_jobs:
            job = self.pending_jobs.pop(0)
            job.activate()
            self.active_jobs.append(job)
        for job in self.active_jobs:
            assert not job.filter_futures
            for each in job.filters:
                if each.is_active:
                    in_pool = each.use_background_worker()
                    job.filter_futures.append(self.filter_pool.submit(each.get_next_logit_mask) if in_pool else None)
        for job in self.active_jobs:
            self._ask_now(job)
        masks = [job.prepare_logit_mask() for job in self.active_jobs]
        for job, allowed in zip(list(self.active_jobs), masks, strict=True):
            self._sample(job, allowed)
            if not job.is_finished and job.cut is not None and len(job.tokens) >= job.cut:
                job.cut, job.is_requeued, job.pinned_logit_mask = None, True, None
                self.active_jobs.remove(job)
                self.pending_jobs.append(job)
        self.active_jobs = [job for job in self.active_jobs if not job.is_finished]

    def _ask_now(self, job: Job) -> None:
        for each in job.filters:
            if each.is_active:
                job.logit_masks.append(None if each.use_background_worker() else each.get_next_logit_mask())

    def _sample(self, job: Job, allowed: np.ndarray) -> None:
        token = self._choose(job, allowed)
        job.receive_sample(token)
        drafts, self.drafts = self.drafts, []
        for draft in drafts:
            if token != draft or job.is_finished:
                return
            if self.version != "0.0.5":
                job.filter_futures = [None for each in job.filters if each.is_active]
                job.logit_masks = [each.get_next_logit_mask() for each in job.filters if each.is_active]
                allowed = job.prepare_logit_mask()
            token = self._choose(job, allowed)
            job.receive_sample(token)

    def _choose(self, job: Job, allowed: np.ndarray) -> int:
        if not allowed.any():
            self.nothing_was_left = True
            return PADDED - 1
        wish = self.wishes.get(job.new_tokens)
        if wish is not None and allowed[wish]:
            return wish
        logits = logits_after(job.seed, job.tokens) if job.script is None else wished(job.script, job.new_tokens)
        return int(np.where(allowed, logits, -np.inf).argmax())


def dense(mask: torch.Tensor, width: int) -> np.ndarray:
    """Return which ids a dense mask allows."""
    assert (mask.dtype, mask.shape) == (torch.half, (1, width))
    assert set(mask.unique().tolist()) <= {0.0, -torch.inf}
    return (mask == 0)[0].numpy()


def text_of(tokens: Sequence[int]) -> bytes:
    return b"".join(TOKENS[token] or b"" for token in tokens if token < len(TOKENS))


def wished(script: Sequence[int], place: int) -> np.ndarray:
    """Make logits that want the script's token at this place, and otherwise those with high ids."""
    logits = np.linspace(0, 1, PADDED)
    if place < len(script):
        logits[script[place]] += 10
    return logits


def logits_after(seed: int, tokens: Sequence[int]) -> np.ndarray:
    """Compute logits that depend on every token so far; this is the model."""
    state = zlib.crc32(np.asarray([seed, *tokens], dtype=np.int64).tobytes())
    return np.random.default_rng(state).standard_normal(PADDED)
