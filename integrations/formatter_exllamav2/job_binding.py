"""The job of a dynamic generator that a filter serves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from formatter_core.errors import NoTokenLeft, UnsupportedEngineVersion
from formatter_core.generation.jobs import misuse_of
from formatter_exllamav2 import _compat, _compat_jobs

__all__ = ["JobBinding", "fail_where_exclusive"]

logger = logging.getLogger(__name__)

_Kind = TypeVar("_Kind")


class JobBinding:
    """The job that a filter serves, and the properties that follow from it.

    Args:
        tokenizer: the tokenizer that the filter was made for; None if it is not known.
        size: the number of ids in the filter's vocabulary.
        end_ids: the ids that end an output of the filter.
        background: whether the generator's threads make the filter's masks.

    Attributes:
        has_job: whether a dynamic generator's job uses the filter.
        may_mask: whether the filter may mask the logits itself.
        width: the number of ids that the generator's model has logits for, if it is known.
        may_write: whether the logits that the filter is given may be written to.
    """

    def __init__(self, tokenizer: Any, size: int, end_ids: Sequence[int], *, background: bool) -> None:
        self._tokenizer, self._size, self._end_ids, self._background = tokenizer, size, end_ids, background
        self._job: ReferenceType[Any] | None = None
        self._has_warned = False
        self.has_job = self.may_write = False
        self.may_mask = _compat.MASKS_LOGITS
        self.width: int | None = None

    def bind_caller(self) -> Exception | None:
        """Serve what is calling the filter from here on; what is wrong with that, if anything."""
        try:
            job = _compat_jobs.calling_job()
        except UnsupportedEngineVersion as error:
            self._bind(None)
            return error
        return self._bind(job)

    def _bind(self, job: Any) -> Exception | None:
        before = None if self._job is None else self._job()
        self._job = None if job is None else ref(job)
        self.has_job = job is not None
        is_alone = job is None or len(job.filters) == 1
        self.may_write = self.has_job and is_alone and not _compat_jobs.returns_logits(job)
        self.width = None if job is None else _compat_jobs.job_width(job)
        stops = frozenset[int]() if job is None else _compat_jobs.stop_tokens(job)
        if _compat.MASKS_LOGITS:
            # If another filter stays in the foreground, queued results are read as lists.
            can_mask = self._background or is_alone
        else:
            # Lists also tell the job that it ends; after masks it ends by its own stop conditions alone.
            can_mask = _compat.TAKES_NONE and self.may_write and stops.issuperset(self._end_ids)
        self.may_mask = can_mask and not (job is not None and _compat_jobs.prefers_end(job))
        is_busy = before is not None and before is not job and _compat_jobs.runs(before)
        misuse = misuse_of(
            job, self._tokenizer, size=self._size, width=self.width, is_busy=is_busy, keeps_silent="ExLlamaV2"
        )
        if misuse is not None or job is None:
            return misuse
        if not self._has_warned and stops.isdisjoint(self._end_ids):
            self._has_warned = True
            logger.warning(
                "stop_conditions holds none of the ids %s that end an output, so each job takes one more token to end; "
                "pass stop_conditions=filter.end_ids",
                list(self._end_ids),
            )
        return None

    def least_logits(self, asked: Any) -> int | None:
        """Return how many logits the caller of this filter needs; None for all, also if the caller is no sampler."""
        job = None if self._job is None else self._job()
        return _compat_jobs.least_logits(job) if job is not None and job.filters[0] is asked else None

    def filters(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the filters of the job that are of this class."""
        job = None if self._job is None else self._job()
        return [] if job is None else [each for each in job.filters if isinstance(each, kind)]


def fail_where_exclusive(filters: Sequence[Any]) -> None:
    """Fail the filters of a job that together allow no token; of lists without a common id ExLlamaV2 would raise."""
    if len(filters) < 2:
        return
    rows = [each.write_row() for each in filters]
    if len({len(row) for row in rows}) == 1 and not np.bitwise_and.reduce(rows).any():
        for each in filters:
            each.fail(NoTokenLeft(each.formatter.bytes))
