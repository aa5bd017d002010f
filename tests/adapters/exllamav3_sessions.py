"""The ExLlamaV3 adapter, called as a generator calls the filters of its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from formatter_core import Compiler
from tests.adapters.contract import END, OTHER_END, WIDTH, Request, Session
from tests.adapters.exllamav3_stand_ins import NEWEST, Generator, Job

_NEVER = {
    "preemption": "a job is never taken out of its place with its filters forgotten",
    "placeholders": "a filter is told of ids that were sampled, never of placeholders",
    "drafts": "the target model samples one token after the other, and a filter is told of those that it sampled",
    "own ends": "the ends are those of the tokenizer, or of create_filter",
}
_ENDS = {END, OTHER_END}


class FilterSession(Session):
    """Filters of the newest release, whose masks are made in threads."""

    cannot = _NEVER
    version, background = NEWEST, True

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_exllamav3 import FormatterFilter

        self._generator = Generator(self.version)
        self._hooks: list[Any] = [
            None
            if request.format is None
            else FormatterFilter(None, compiler.compile(request.format), background=self.background)
            for request in requests
        ]
        self._jobs: list[Job] = []

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        self._begin(width)
        return [self._mask(job, tokens) for job, tokens in zip(self._jobs, kept, strict=True)]

    def _begin(self, width: int) -> None:
        if self._jobs:
            return
        self._generator.padded_vocab_size = -(-width // 32) * 32
        self._width = width
        self._jobs = [self._job([] if each is None else [each]) for each in self._hooks]

    def _job(self, filters: list[Any]) -> Job:
        job = Job(filters, stop_conditions=())
        job.generator = self._generator
        job.activate()
        self._generator.active_jobs.append(job)
        return job

    def _mask(self, job: Job, kept: Sequence[int]) -> set[int]:
        gone = len(job.tokens) - len(kept)
        if gone > 0 and job.filters:
            for each in job.filters:
                each.rewind(gone)
            job.eos_reason, job.is_finished = "", False
            del job.tokens[len(kept) :]
        for token in kept[len(job.tokens) :]:
            if job.is_finished:
                break  # nothing more is sampled for it
            self._allowed(job)
            job.receive_sample(token)
        return _ENDS if job.is_finished else self._allowed(job)

    def _allowed(self, job: Job) -> set[int]:
        for each in job.filters:
            if each.is_active:
                in_pool = each.use_background_worker()
                pool = self._generator.filter_pool
                job.filter_futures.append(pool.submit(each.get_next_logit_mask) if in_pool else None)
                job.logit_masks.append(None if in_pool else each.get_next_logit_mask())
        return set(np.flatnonzero(job.prepare_logit_mask()[: self._width]).tolist())

    def reuse(self) -> Any:
        self._job(self._hooks[:1])
        return self.result(0)


class ForegroundSession(FilterSession):
    background = False


class DenseMasksSession(FilterSession):
    """Filters of a release that asks for dense masks and rewinds no filter."""

    version = "0.0.5"
    cannot: ClassVar = {**_NEVER, **dict.fromkeys(("shrinking", "cleared"), "no token is taken back before 1.4.1")}
