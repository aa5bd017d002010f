"""The outputs of many prompts in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, sample_count
from formatter_core.generation import Generated, Sampling
from formatter_llama_cpp.requests import PromptTooLong, Request
from formatter_llama_cpp.scheduler import GREEDY, Scheduler

__all__ = ["generate_parallel"]


def generate_parallel(
    llama: Any,
    prompts: Sequence[str | bytes | Sequence[int]],
    *,
    samples: int = 1,
    format: Any = None,
    formats: Sequence[Any] | None = None,
    max_tokens: int | None = None,
    sampling: Sampling = GREEDY,
    stop_strings: str | Iterable[str] = (),
    seed: int | None = None,
    top_logprobs: int | None = None,
    max_sequences: int = 16,
    context_size: int | None = None,
) -> list[list[Generated]]:
    """The outputs of several prompts, each with its samples, in order; an output that failed carries its `error`.

    So do the outputs of a prompt that cannot be used, and whatever goes wrong leaves what is finished as it is.

    Args:
        llama: a `llama_cpp.Llama`.
        prompts: text or token ids.
        samples: how many outputs each prompt has.
        format: one format for all prompts.
        formats: one for each prompt, None where it is free, instead of `format`.
        max_tokens: see `Scheduler.submit`.
        sampling: how tokens are chosen; give a temperature where samples should differ.
        stop_strings: see `Scheduler.submit`.
        seed: see `Scheduler.submit`.
        top_logprobs: see `Scheduler.submit`.
        max_sequences: at most this many sequences run at a time.
        context_size: how many tokens the context holds; by default as many as that of `llama`.

    Raises:
        InvalidArgument: `formats` has another length than `prompts`; an invalid format.
        FormatterError: whatever else `Scheduler.submit` raises.
    """
    given = list(elements_of(prompts, "prompts", "prompts"))
    wanted = [format] * len(given) if formats is None else list(elements_of(formats, "formats", "formats"))
    if len(wanted) != len(given):
        raise InvalidArgument(f"{len(wanted)} formats were given for {len(given)} prompts; give one for each prompt")
    # An iterator is used up by the first prompt.
    stops = [stop_strings] if isinstance(stop_strings, str) else [*elements_of(stop_strings, "stop_strings", "texts")]
    sample_count(samples)
    requests: list[Request | Exception] = []
    with Scheduler(llama, max_sequences=max_sequences, context_size=context_size) as scheduler:
        for prompt, one in zip(given, wanted, strict=True):
            try:
                request = scheduler.submit(
                    prompt,
                    samples=samples,
                    format=one,
                    max_tokens=max_tokens,
                    sampling=sampling,
                    stop_strings=stops,
                    seed=seed,
                    top_logprobs=top_logprobs,
                )
            except PromptTooLong as error:
                requests.append(error)
            except InvalidArgument as error:
                if error.argument != "prompt":
                    raise
                requests.append(error)
            else:
                requests.append(request)
        try:
            for _ in scheduler.run():
                pass
        except Exception as error:  # noqa: BLE001 - whatever it is, what is finished is there all the same
            for sample in (sample for one in requests if isinstance(one, Request) for sample in one.samples):
                if sample.output is None:
                    sample.fail(error)
    return [_outputs(request, samples) for request in requests]


def _outputs(request: Request | Exception, samples: int) -> list[Generated]:
    if isinstance(request, Request):
        return [sample.output for sample in request.samples if sample.output is not None]
    return [Generated((), b"", "error", request)] * samples
