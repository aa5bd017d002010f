"""The ExLlamaV2 adapter, asked and fed as the sampler and the jobs of each generation do."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from formatter_core import Compiler
from tests.adapters.contract import END, WIDTH, Request, Session
from tests.adapters.exllamav2_stand_ins import ExLlamaV2DynamicJob, sample


class FilterSession(Session):
    cannot: ClassVar = {
        "preemption": "a job is never taken out",
        "placeholders": "a filter is fed ids that were sampled, never placeholders",
        "shrinking": "a job with filters takes nothing back: banned strings are refused beside them",
        "drafts": "behind a draft the next token is sampled only once the draft was kept, and fed",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_exllamav2 import FormatterFilter

        tokenizer = SimpleNamespace(config=SimpleNamespace(vocab_size=WIDTH))
        self._hooks: list[Any] = [
            None
            if request.format is None
            else FormatterFilter(None, tokenizer, compiler.compile(request.format), end_ids=request.end_ids)
            for request in requests
        ]
        self._kept: list[list[int]] = [[] for _ in requests]
        self._generator = SimpleNamespace(active_jobs=[])
        self._has_begun = False

    def _begin(self, each: Any, width: int) -> ExLlamaV2DynamicJob:
        job = ExLlamaV2DynamicJob([], [each], (END,), generator=self._generator)
        self._generator.model = SimpleNamespace(config=SimpleNamespace(vocab_size=width))
        self._generator.active_jobs.append(job)
        job.begin()
        return job

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        if not self._has_begun:
            self._has_begun = True
            self._jobs = [None if each is None else self._begin(each, width) for each in self._hooks]
        masks = []
        for row, (each, tokens) in enumerate(zip(self._hooks, kept, strict=True)):
            if each is None:
                masks.append(set(range(width)))
                continue
            if len(tokens) < len(self._kept[row]):
                self._jobs[row].begin()
                self._kept[row] = []
            for token in tokens[len(self._kept[row]) :]:
                each.feed(torch.tensor([[token]]))
            self._kept[row] = list(tokens)
            masks.append(self._allowed(each, width))
        return masks

    def _allowed(self, each: Any, width: int) -> set[int]:
        found: list[torch.Tensor] = []
        token, _ = sample(torch.linspace(-3, 3, width), [each], lambda masked: found.append(masked) or 0)
        return set(found[0].isfinite().nonzero().flatten().tolist()) if found else {token}

    def reuse(self) -> Any:
        self._begin(self._hooks[0], WIDTH)
        return self.result(0)
