"""A filter's view of the job of a dynamic generator that calls it."""

from __future__ import annotations

import sys
from typing import Any

import torch

from formatter_exllamav2 import _compat

__all__ = [
    "calling_job",
    "job_width",
    "least_logits",
    "prefers_end",
    "returns_logits",
    "runs",
    "sampled_logits",
    "sampler_prefers_end",
    "stop_tokens",
]


def calling_job() -> Any:
    """Return the job of a dynamic generator that is calling the filter; None if something else is.

    A job tells its filters nothing about itself, but it is the `self` of the method that calls them.

    Raises:
        UnsupportedEngineVersion: the dynamic generator calls the filter, but its job is not found.
    """
    frame: Any = sys._getframe(1)
    is_dynamic = False
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, _compat.Job):
            return owner
        is_dynamic = is_dynamic or frame.f_globals.get("__name__") == _compat.Job.__module__
        frame = frame.f_back
    if is_dynamic:
        raise _compat.unsupported("the job among the callers of a filter")
    return None


def runs(job: Any) -> bool:
    """Tell whether the generator of this job is still working on it."""
    generator = job.generator
    return not job.is_finished and generator is not None and job in generator.active_jobs


def job_width(job: Any) -> int | None:
    """Return the number of ids that the model of the job's generator has logits for; None if it is not known."""
    config = getattr(getattr(job.generator, "model", None), "config", None)
    width = getattr(config, "vocab_size", None)
    return width if isinstance(width, int) else None


def least_logits(job: Any) -> int | None:
    """Return how many logits the job's sampler needs, if no later token is allowed; None if it needs all.

    Fewer logits take the sampler less time. It needs more than its top_k, which is off if it is not positive. Its XTC
    looks up ids in the logits, its dynamic temperature counts them, and a list of the best tokens is filled up with
    further ones.
    """
    settings = job.gen_settings
    has_xtc = getattr(settings, "xtc_probability", 0) > 0  # 0.2.0 does not know it
    takes_all = job.return_top_tokens or has_xtc or settings.max_temp > settings.min_temp
    return None if takes_all else max(settings.top_k, 0) + 1


def returns_logits(job: Any) -> bool:
    """Tell whether the job's results include the logits, in the same memory that filters are given."""
    return bool(job.return_logits)


def prefers_end(job: Any) -> bool:
    """Tell whether the job ends as soon as its filters allow it (`filter_prefer_eos`); this works only with lists."""
    return bool(getattr(job, "filter_prefer_eos", False))


def sampler_prefers_end() -> bool:
    """Tell whether the sampler that calls a filter, for a generator without jobs, has `filter_prefer_eos` set."""
    return bool(_of_sampler("filter_prefer_eos"))


def sampled_logits() -> torch.Tensor | None:
    """Return the logits, (1, 1, width), of the sampler that calls a filter; None if they are not found.

    The sampler has its own tensor object, so `set_` can replace its data.
    """
    logits = _of_sampler("logits")
    return logits if isinstance(logits, torch.Tensor) and logits.shape[:-1] == (1, 1) else None


def _of_sampler(name: str) -> Any:
    """Return the value of a variable of the sampler that calls a filter."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "sample":
            return frame.f_locals.get(name)
        frame = frame.f_back
    return None


def stop_tokens(job: Any) -> frozenset[int]:
    """Return the ids at which the job ends."""
    return frozenset(job.stop_tokens)
