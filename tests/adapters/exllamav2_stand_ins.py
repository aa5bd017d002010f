"""ExLlamaV2 as far as a filter can tell, by generation: how filters are asked, queued and fed, and what is asserted.

A "generation" is how a filter answers: by sets (`"0.2.0"`), by lists from a background thread (`"0.2.3"`), by masking
the logits (`"0.2.6"`); `"0.3.2"` differs from that in what is queued behind drafts. What the C++ sampler does with an
id past the logits or an unsorted list (a crash, a wrong token) is an assertion here.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.adapters.engine_modules import modules_of

GENERATIONS = ("0.2.0", "0.2.3", "0.2.6", "0.3.2")


class SetFilter:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer, self.sequence_str = model, tokenizer, ""

    def clone(self, c: Any = None) -> Any:
        if c is None:
            c = object.__new__(SetFilter)
        c.model, c.tokenizer, c.sequence_str = self.model, self.tokenizer, self.sequence_str
        return c

    def begin(self, prefix_str: Any) -> None: ...

    def feed(self, token: Any) -> None: ...

    def next(self) -> Any: ...


class ListFilter(SetFilter):
    allow_return_type_list = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(model, tokenizer)
        self.background_result = None

    def use_background_worker(self) -> bool:
        return False

    def background_next(self, pool: Any) -> None:
        assert self.background_result is None
        self.background_result = pool.submit(self.next)

    def background_drop(self) -> None:
        if self.background_result is not None:
            self.background_result.result()
            self.background_result = None

    def get_next(self) -> Any:
        if self.background_result is None:
            return self.next()
        result = self.background_result.result()
        self.background_result = None
        return result


class MaskFilter(ListFilter):
    def can_mask_logits(self) -> bool:
        return False

    def prepare_logit_mask(self) -> bool:
        raise NotImplementedError

    def mask_logits(self, logits: Any) -> Any:
        raise NotImplementedError

    def background_prepare_logit_mask(self, pool: Any) -> None:
        assert self.background_result is None
        self.background_result = pool.submit(self.prepare_logit_mask)

    def get_next(self, mask: bool = False) -> Any:
        if self.background_result is None:
            return self.prepare_logit_mask() if mask else self.next()
        result = self.background_result.result()
        self.background_result = None
        return result


FILTERS = {"0.2.0": SetFilter, "0.2.3": ListFilter, "0.2.6": MaskFilter, "0.3.2": MaskFilter}


def sample(
    logits: torch.Tensor, filters: Sequence[Any], choose: Callable[[torch.Tensor], int], preferred: int | None = None
) -> tuple[int, bool]:
    """Return the token that `choose` takes from the masked logits, float32 (width,), and whether a filter ends the job.

    An end that is `preferred` is taken as soon as the filters list it; of masks the sampler does not know what they
    allow. A set or list of None allows every id.
    """
    width = len(logits)
    logits = logits.view(1, 1, -1)
    if filters and all(getattr(each, "can_mask_logits", bool)() for each in filters):
        for each in filters:
            assert each.get_next(mask=True) is True
            logits = each.mask_logits(logits[0][0]).view(1, 1, -1)
            assert logits.shape[2] == width or logits.shape[2] % 32 == 0, "the C++ sampler writes blocks of 32"
            assert logits.dtype == torch.float32
        assert logits.max() > -torch.inf, "the C++ sampler would choose anything"
        return choose(logits[0][0]), False
    passing, ends = None, set()
    for each in filters:
        takes_lists = isinstance(each, ListFilter)
        found, end = each.get_next() if takes_lists else each.next()
        if found is None:
            assert not end
            continue
        assert isinstance(found, (list, set) if takes_lists else set)
        assert list(found) == sorted(found) or isinstance(found, set), "the C++ sampler walks through the list once"
        assert max(found, default=0) < width, "the C++ sampler would write past the logits"
        passing = set(found) if passing is None else passing & set(found)
        ends |= set(end)
    logits = logits[0][0]
    if passing is None:
        assert logits.max() > -torch.inf, "the C++ sampler would choose anything"
        return choose(logits), False
    assert passing, "Filter excluded all tokens"
    if preferred in passing:
        passing = {preferred}
    masked = torch.full_like(logits, -torch.inf)
    masked[sorted(passing)] = logits[sorted(passing)]
    token = next(iter(passing)) if len(passing) == 1 else choose(masked)
    return token, token in ends


def allowed(each: Any, width: int) -> set[int]:
    found: list[torch.Tensor] = []
    token, _ = sample(torch.zeros(width), [each], lambda masked: found.append(masked) or 0)
    return set(found[0].isfinite().nonzero().flatten().tolist()) if found else {token}


@dataclass
class Settings:
    """The sampler's, as far as they tell how many logits it needs."""

    top_k: int = 50
    xtc_probability: float = 0.0
    min_temp: float = 0.0
    max_temp: float = 0.0


@dataclass(eq=False)
class ExLlamaV2DynamicJob:
    """`script` gives the token to be wished for at each step; the wish is granted where the filters allow it."""

    script: Sequence[int]
    filters: list[Any]
    stop_conditions: Sequence[int] = ()
    max_new_tokens: int = 64
    bias: torch.Tensor | None = None
    return_logits: bool = False
    filter_prefer_eos: bool = False
    banned_strings: Sequence[str] = ()
    gen_settings: Settings = field(default_factory=Settings)
    return_top_tokens: int = 0
    widths: list[int] = field(default_factory=list)  # how many logits were sampled from
    tokens: list[int] = field(default_factory=list)
    eos_reason: str | None = None
    generator: Any = None

    def __post_init__(self) -> None:
        self.stop_tokens = set(self.stop_conditions)

    @property
    def is_finished(self) -> bool:
        return self.eos_reason is not None

    def begin(self) -> None:
        for each in self.filters:
            if isinstance(each, ListFilter):
                each.background_drop()
            each.begin("")

    def receive_logits(self, width: int) -> tuple[int, bool]:
        if not self.tokens:
            self.begin()
        logits = torch.linspace(0, 1, width)
        place = len(self.tokens)
        if place < len(self.script):
            logits[self.script[place]] += 10
        if self.bias is not None:
            logits += self.bias
        preferred = self.stop_conditions[0] if self.filter_prefer_eos else None

        def best(masked: torch.Tensor) -> int:
            self.widths.append(len(masked))
            return int(masked.argmax())

        return sample(logits, self.filters, best, preferred)

    def receive_sample(self, token: int, ended: bool, is_first: bool = True) -> None:
        generation, queue = self.generator.generation, self.generator.filter_queue
        all_mask = bool(self.filters)
        for each in self.filters:
            each.feed(torch.tensor([[token]]))
            if generation in ("0.2.6", "0.3.2"):
                all_mask &= each.can_mask_logits() and each.use_background_worker()
            elif generation == "0.2.3" and each.use_background_worker():
                queue.append((each, False))
        if generation == "0.2.6" or (generation == "0.3.2" and is_first):
            queue.extend((each, all_mask) for each in self.filters if all_mask or each.use_background_worker())
        self.tokens.append(token)
        if token in self.stop_tokens:
            self.eos_reason = "stop_token"
        elif len(self.tokens) >= self.max_new_tokens:
            self.eos_reason = "max_new_tokens"
        elif ended:
            self.eos_reason = "end_filter"


class ExLlamaV2DynamicGenerator:
    """Runs jobs; `drafts` is how many more tokens each step samples for a job."""

    def __init__(self, generation: str, width: int, *, drafts: int = 0) -> None:
        self.generation, self.width, self.drafts = generation, width, drafts
        self.active_jobs: list[ExLlamaV2DynamicJob] = []
        self.filter_queue: list[tuple[Any, bool]] = []
        self.filter_pool = ThreadPoolExecutor(max_workers=4)
        self.sampling_pool = ThreadPoolExecutor(max_workers=4)

    def enqueue(self, *jobs: ExLlamaV2DynamicJob) -> None:
        for job in jobs:
            job.generator = self
            self.active_jobs.append(job)

    def run(self, *jobs: ExLlamaV2DynamicJob) -> None:
        self.enqueue(*jobs)
        while self.active_jobs:
            self.iterate()

    def iterate(self) -> None:
        for each, is_mask in self.filter_queue:
            (each.background_prepare_logit_mask if is_mask else each.background_next)(self.filter_pool)
        self.filter_queue.clear()
        if len(self.active_jobs) >= 3:
            futures = [self.sampling_pool.submit(job.receive_logits, self.width) for job in self.active_jobs]
            sampled = [future.result for future in futures]
        else:
            sampled = [lambda job=job: job.receive_logits(self.width) for job in self.active_jobs]
        for job, result in zip(self.active_jobs, sampled, strict=True):
            job.receive_sample(*result())
            for _ in range(self.drafts):
                if not job.is_finished:
                    job.receive_sample(*job.receive_logits(self.width), is_first=False)
        self.active_jobs = [job for job in self.active_jobs if not job.is_finished]


class Tokenizer(types.SimpleNamespace):
    """An `ExLlamaV2Tokenizer`, which can be held weakly and is hashed by identity, as usual objects are."""

    __hash__ = object.__hash__


@contextmanager
def exllamav2_of(generation: str) -> Iterator[None]:
    """Put stand-ins in the place of exllamav2's modules, and import the adapter anew on them."""
    contents = {
        "exllamav2": {"__version__": generation},
        "exllamav2.generator": {"ExLlamaV2DynamicJob": ExLlamaV2DynamicJob},
        "exllamav2.generator.filters": {"ExLlamaV2Filter": FILTERS[generation]},
    }
    with modules_of("formatter_exllamav2", contents):
        yield


def tokenizer_of(
    description: dict[str, Any],
    *,
    vocab_size: int,
    eos: int,
    ends: Sequence[int] = (),
    special: dict[int, str] | None = None,
) -> Any:
    """Make an `ExLlamaV2Tokenizer` around the text of a `tokenizer.json`."""
    pieces = types.SimpleNamespace(hf_tokenizer=types.SimpleNamespace(to_str=lambda: json.dumps(description)))
    config = types.SimpleNamespace(vocab_size=vocab_size, generation_config={"eos_token_id": list(ends) or None})
    return Tokenizer(
        tokenizer_model=pieces,
        tokenizer=pieces,
        config=config,
        eos_token_id=eos,
        extended_id_to_piece=special or {},
    )


def description(more: Sequence[str] = ()) -> dict[str, Any]:
    """Describe a byte-fallback tokenizer: `<unk>`, `<s>`, `▁a`, `</s>`, the bytes, and more."""
    pieces = ["<unk>", "<s>", "▁a", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "日本", *more]
    special = [{"id": n, "content": pieces[n], "special": True} for n in (0, 1, 3)]
    return {
        "added_tokens": [*special, {"id": 261 + len(more), "content": "<|tool|>", "special": False}],
        "normalizer": None,
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {"type": "BPE", "vocab": {piece: n for n, piece in enumerate(pieces)}, "unk_token": "<unk>",
                  "byte_fallback": True, "merges": []},
    }  # fmt: skip
