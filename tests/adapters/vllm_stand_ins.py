"""vLLM as far as a logits processor can tell: its interfaces by generation, and what its two model runners do.

A "generation" is which interfaces there are: that of the V1 runner, without `validate_params` (`"0.10.1"`) or with it
(`"0.11.1"`), and beside it that of Model Runner V2 (`"0.31"`). Each mask is checked against one made anew.
"""

from __future__ import annotations

import enum
import random
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from formatter_core import CompiledFormat
from tests.adapters.engine_modules import modules_of

GENERATIONS = ("0.10.1", "0.11.1", "0.31")
WIDER = 64
UNKNOWN = -1


class Direction(enum.Enum):
    UNIDIRECTIONAL = enum.auto()
    SWAP = enum.auto()


@dataclass(frozen=True)
class BatchUpdate:
    batch_size: int
    removed: Sequence[int]
    added: Sequence[tuple[int, Any, list[int] | None, list[int]]]
    moved: Sequence[tuple[int, int, Direction]]


class OldLogitsProcessor(ABC):
    @abstractmethod
    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None: ...

    @abstractmethod
    def apply(self, logits: Any) -> Any: ...

    @abstractmethod
    def is_argmax_invariant(self) -> bool: ...

    @abstractmethod
    def update_state(self, batch_update: Any) -> None: ...


class BatchLogitsProcessor(OldLogitsProcessor):
    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        return None


class SlotLogitsProcessor(ABC):
    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        return None

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        return True

    def apply_staged_writes(self) -> None:
        return None

    @abstractmethod
    def apply(self, logits: Any, ctx: Any) -> Any: ...


@contextmanager
def vllm_of(generation: str, more: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
    """Put stand-ins in the place of vLLM's modules and of `more`, and import the adapter anew on them."""
    interface = OldLogitsProcessor if generation == "0.10.1" else BatchLogitsProcessor
    contents: dict[str, dict[str, Any]] = {
        "vllm": {"__version__": generation},
        "vllm.tokenizers": {"cached_tokenizer_from_config": lambda config: config.tokenizer},
        "vllm.v1.sample.logits_processor": {"LogitsProcessor": interface},
        "vllm.v1.worker.gpu.sample": {},
    }
    if generation == "0.31":
        contents["vllm.v1.worker.gpu.sample.logits_processor"] = {"LogitsProcessor": SlotLogitsProcessor}
    with modules_of("formatter_vllm", {**contents, **(more or {})}) as made:
        yield made


def patchable(kind: type) -> type:
    """Copy a class, so that the adapter may change it."""
    return type(kind.__name__, (kind,), dict(vars(kind)))


def config_of(tokenizer: Any, end_ids: Sequence[int], *, named: Sequence[Any] = ()) -> Any:
    """Make a `VllmConfig`; `named` are the logits processors that the user named."""
    model_config = types.SimpleNamespace(
        tokenizer=tokenizer,
        skip_tokenizer_init=tokenizer is None,
        logits_processors=list(named) or None,
        get_vocab_size=lambda: tokenizer.get_vocab_size() + WIDER,
        try_get_generation_config=lambda: {"eos_token_id": list(end_ids)},
    )
    return types.SimpleNamespace(
        model_config=model_config, scheduler_config=types.SimpleNamespace(async_scheduling=False)
    )


def parameters_of(arguments: Any = None, *, end_ids: Sequence[int] = (), **others: Any) -> Any:
    """`SamplingParams` as they are in the worker."""
    values = {
        "extra_args": arguments,
        "all_stop_token_ids": set(end_ids),
        "min_tokens": 0,
        "bad_words": [],
        "allowed_token_ids": None,
        "logit_bias": None,
        "structured_outputs": None,
    }
    return types.SimpleNamespace(**{**values, **others})


@dataclass(eq=False)
class Request:
    """A request on its way; `compiled` says what its masks are to be, None for anything."""

    parameters: Any
    compiled: CompiledFormat | None
    chunks: int = 1  # parts in which its prompt is read
    prompt: list[int] = field(default_factory=lambda: [5, 6, 7])
    output: list[int] = field(default_factory=list)
    chunks_read: int = 0
    is_done: bool = False

    def expected(self, drafts: Sequence[int] = ()) -> list[int]:
        """Return the allowed ids after the output and these drafts."""
        assert self.compiled is not None
        vocabulary = self.compiled.vocabulary
        end_ids = sorted(token for token in self.parameters.all_stop_token_ids if token < len(vocabulary))
        end_ids = end_ids or list(vocabulary.end_ids)
        formatter = self.compiled.formatter(end_ids)
        if formatter.accept_tokens([*self.output, *drafts]) < len(self.output) + len(drafts):
            return end_ids
        return formatter.allowed_tokens()


class Runner:
    """Runs requests with a random model and checks each mask; both runners are made of it."""

    def __init__(self, width: int, seed: int, maximum: int = 60) -> None:
        self.width = width
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.maximum = maximum
        self.preemptions = 0

    def logits(self, rows: int) -> torch.Tensor:
        return torch.randn(rows, self.width, generator=self.generator) * 2

    def check(self, request: Request, masked: torch.Tensor, drafts: Sequence[int] = ()) -> None:
        if request.compiled is not None:
            assert torch.isfinite(masked).nonzero().flatten().tolist() == request.expected(drafts)

    def sample(self, masked: torch.Tensor) -> int:
        return int(torch.multinomial(torch.softmax(masked, -1), 1, generator=self.generator))

    def keep(self, request: Request, token: int) -> None:
        request.output.append(token)
        ends = request.parameters.all_stop_token_ids
        if (token in ends and not getattr(request.parameters, "ignore_eos", False)) or len(
            request.output
        ) >= self.maximum:
            request.is_done = True


class BatchRunner(Runner):
    """The V1 runner: rows that are removed, refilled, condensed and swapped; one token a request and step.

    With `is_async` the list of outputs ends in a placeholder until just before the masks are asked for, and a request
    that comes back after a preemption has a new list.
    """

    def __init__(self, processor: Any, width: int, seed: int = 0, *, rows: int = 4, is_async: bool = False) -> None:
        super().__init__(width, seed)
        self.processor = processor
        self.is_async = is_async
        self.rows: list[Request | None] = [None] * rows

    def run(self, requests: Sequence[Request], *, aborted: Sequence[Request] = ()) -> None:
        waiting = list(requests)
        while waiting or any(self.rows):
            leaving = [row for row, request in enumerate(self.rows) if request is not None and request.is_done]
            for row, request in enumerate(self.rows):
                if request in aborted and row not in leaving and len(request.output) > 3:
                    request.is_done = True
                    leaving.append(row)
            staying = [row for row, request in enumerate(self.rows) if request is not None and row not in leaving]
            if staying and self.random.random() < 0.2:
                row = self.random.choice(staying)
                waiting.append(self.preempt(self.rows[row]))
                leaving.append(row)
            self.step(leaving, waiting)

    def preempt(self, request: Request | None) -> Request:
        assert request is not None
        self.preemptions += 1
        request.chunks_read = 0
        if self.is_async:
            request.output = list(request.output)
        return request

    def step(self, leaving: Sequence[int], waiting: list[Request]) -> None:
        update = self.change(leaving, waiting)
        count = sum(request is not None for request in self.rows)
        running = [request for request in self.rows if request is not None]
        assert all(self.rows[:count]), "the batch has a hole"
        latest = [request.output[-1:] for request in running]
        if self.is_async:
            for request in running:
                if request.output:
                    request.output[-1] = UNKNOWN
        self.processor.update_state(update)
        if self.is_async:
            for request, token in zip(running, latest, strict=True):
                request.output[-1:] = token
        given = self.logits(count)
        masked = self.processor.apply(given.clone())
        for row, request in enumerate(running):
            request.chunks_read += 1
            self.check(request, masked[row])
            if request.compiled is None:
                assert torch.equal(masked[row], given[row])
            if request.chunks_read >= request.chunks:
                self.keep(request, self.sample(masked[row]))

    def change(self, leaving: Sequence[int], waiting: list[Request]) -> BatchUpdate | None:
        """Remove, refill the lowest rows, move the last rows into the holes, and now and then swap two."""
        holes = sorted(leaving)
        for row in holes:
            self.rows[row] = None
        added, moved = [], []
        while waiting and None in self.rows:
            row = self.rows.index(None)
            if row in holes:
                holes.remove(row)
            request = waiting.pop(0)
            self.rows[row] = request
            added.append((row, request.parameters, request.prompt, request.output))
        while None in self.rows and any(self.rows[self.rows.index(None) :]):
            target = self.rows.index(None)
            source = max(row for row, request in enumerate(self.rows) if request is not None)
            self.rows[target], self.rows[source] = self.rows[source], None
            moved.append((source, target, Direction.UNIDIRECTIONAL))
            if target in holes:
                holes.remove(target)
        count = sum(request is not None for request in self.rows)
        if count > 1 and self.random.random() < 0.3:
            first, second = self.random.sample(range(count), 2)
            self.rows[first], self.rows[second] = self.rows[second], self.rows[first]
            moved.append((first, second, Direction.SWAP))
        if not (leaving or added or moved):
            return None
        return BatchUpdate(count, holes, added, moved)


@contextmanager
def count_copies() -> Iterator[list[torch.Tensor]]:
    """Collect the tensors that are copied to the host within the block; each copy waits for the device."""
    copied: list[torch.Tensor] = []
    copy = torch.Tensor.cpu

    def cpu(self: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        copied.append(self)
        return copy(self, *arguments, **named)

    torch.Tensor.cpu = cpu  # type: ignore[method-assign, assignment]
    try:
        yield copied
    finally:
        torch.Tensor.cpu = copy  # type: ignore[method-assign]


class SlotRunner(Runner):
    """Model Runner V2: numbered slots, rows in another order each step, and drafts with a row each."""

    def __init__(self, make: Any, width: int, seed: int = 0, *, slots: int = 4, drafts: int = 0) -> None:
        super().__init__(width, seed)
        self.drafts = drafts
        self.accepted = 0
        self.tokens = torch.zeros(slots, 512, dtype=torch.int32)
        self.prompt_length, self.prefill_length = (np.zeros(slots, dtype=np.int32) for _ in range(2))
        self.length = torch.zeros(slots, dtype=torch.int32)
        self.copies: list[int] = []  # from the device, in each step's `apply`
        self.slots: list[Request | None] = [None] * slots
        states = types.SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=slots,
            vocab_size=width,
            all_token_ids=types.SimpleNamespace(gpu=self.tokens),
            prompt_len=types.SimpleNamespace(np=self.prompt_length),
            prefill_len=types.SimpleNamespace(np=self.prefill_length),
            total_len=types.SimpleNamespace(gpu=self.length),
        )
        self.processor = make(states)

    def run(self, requests: Sequence[Request], *, aborted: Sequence[Request] = ()) -> None:
        waiting = list(requests)
        while waiting or any(self.slots):
            for slot, request in enumerate(self.slots):
                if request in aborted and len(request.output) > 3:
                    request.is_done = True
                if request is not None and request.is_done:
                    self.slots[slot] = None
                elif request is not None and self.random.random() < 0.1:
                    self.preemptions += 1
                    request.chunks_read = 0
                    waiting.append(request)
                    self.slots[slot] = None
            while waiting and None in self.slots:
                free = [slot for slot, request in enumerate(self.slots) if request is None]
                self.add(waiting.pop(0), self.random.choice(free))
            self.step()

    def add(self, request: Request, slot: int) -> None:
        self.slots[slot] = request
        known = [*request.prompt, *request.output]
        self.tokens[slot] = 0
        self.tokens[slot, : len(known)] = torch.tensor(known)
        self.prompt_length[slot], self.prefill_length[slot] = len(request.prompt), len(known)
        wants = self.processor.add_request(slot, request.parameters)
        assert wants == (request.compiled is not None)

    def step(self) -> None:
        for slot, request in enumerate(self.slots):
            self.length[slot] = 0 if request is None else len(request.prompt) + len(request.output)
        self.processor.apply_staged_writes()
        self.length[:] = -1  # the forward pass comes now
        batch = [slot for slot, request in enumerate(self.slots) if request is not None]
        if not batch:
            return
        self.random.shuffle(batch)
        rows: list[tuple[int, int, int, int]] = []  # slot, offset, token, position
        visible: list[int] = []
        proposed: dict[int, list[int]] = {}
        for slot in batch:
            request = self.slots[slot]
            assert request is not None
            request.chunks_read += 1
            known = [*request.prompt, *request.output]
            position = len(known) - 1
            if request.chunks_read < request.chunks:
                position = min(request.chunks_read, position - 1)
                rows.append((slot, 0, known[position], position))
                visible.append(position + 1)
                continue
            visible.append(position + 1)
            proposed[slot] = self.propose(request)
            rows.append((slot, 0, known[position], position))
            rows += [(slot, 1 + index, token, position + 1 + index) for index, token in enumerate(proposed[slot])]
        logits = self.logits(len(rows))
        for row, (slot, offset, _, _) in enumerate(rows):
            if offset < len(proposed.get(slot, ())):
                logits[row, proposed[slot][offset]] += 30  # so that drafts are taken where the mask lets them
        columns = [torch.tensor(column, dtype=torch.int32) for column in zip(*rows, strict=True)]
        context = types.SimpleNamespace(
            expanded_idx_mapping=columns[0],
            expanded_local_pos=columns[1],
            input_ids=columns[2],
            pos=columns[3].long(),
            idx_mapping_np=np.array(batch, dtype=np.int32),
            seq_lens_upper_bound_np=np.array(visible, dtype=np.int32),
        )
        given = logits.clone()
        with count_copies() as copies:
            masked = self.processor.apply(logits, context)
        self.copies.append(len(copies))
        first = {slot: row for row, (slot, offset, _, _) in enumerate(rows) if offset == 0}
        for slot, drafts in proposed.items():
            self.take(slot, drafts, masked[first[slot] :], given[first[slot] :])

    def propose(self, request: Request) -> list[int]:
        """Drafts: some that the format allows, some at random."""
        if not self.drafts or not request.output:
            return []
        formatter = None if request.compiled is None else request.compiled.formatter()
        if formatter is not None:
            formatter.accept_tokens(request.output)
        drafts = []
        for _ in range(self.random.randint(0, self.drafts)):
            if formatter is not None and self.random.random() < 0.8:
                drafts.append(self.random.choice(formatter.allowed_tokens()))
                formatter.accept_tokens(drafts[-1:])
            else:
                drafts.append(self.random.randrange(self.width))
        return drafts

    def take(self, slot: int, drafts: Sequence[int], masked: torch.Tensor, given: torch.Tensor) -> None:
        request = self.slots[slot]
        assert request is not None
        kept: list[int] = []
        for index in range(len(drafts) + 1):
            self.check(request, masked[index], drafts[:index])
            if request.compiled is None:
                assert torch.equal(masked[index], given[index])
            kept.append(self.sample(masked[index]))
            if index == len(drafts) or kept[-1] != drafts[index]:
                break
            self.accepted += 1
        for token in kept:
            length = len(request.prompt) + len(request.output)
            self.tokens[slot, length] = token
            self.keep(request, token)
            if request.is_done:
                break
