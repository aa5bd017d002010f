"""The outputs of many prompts in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from formatter_core.errors import BudgetTooSmall, InvalidArgument
from formatter_core.errors.arguments import elements_of
from formatter_core.generation import CallSettings, Generated
from formatter_core.generation.call_settings import calls_settings
from formatter_llama_cpp.requests import PromptTooLong, Request
from formatter_llama_cpp.scheduler import GREEDY, Scheduler

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["generate_parallel"]


def generate_parallel(
    llama: Any,
    prompts: Sequence[str | bytes | Sequence[int]],
    *,
    max_sequences: int = 16,
    context_size: int | None = None,
    fit: bool = True,
    **settings: Unpack[CallSettings],
) -> list[list[Generated]]:
    """Return the outputs of several prompts, each with its samples, in order; a failed output has its `error`.

    The outputs of an invalid prompt have one, too; a failure never changes finished outputs.

    Args:
        llama: a `llama_cpp.Llama`.
        prompts: text or token ids.
        max_sequences: the maximum number of sequences that run at once; the next sequence replaces one that ends.
        context_size: how many tokens the context holds; by default as many as that of `llama`.
        fit: if you give `max_tokens`, each output is complete within it; False cuts outputs there instead.
        settings: `samples` or `n`, `format` or `formats`, `max_tokens`, `sampling` or `temperature`, `top_p`, `top_k`
            and `min_p`, `stop_strings`, `seed`, `logprobs` or `top_logprobs`: one value for all prompts or a list with
            one for each, as in calls of `completion`. `Scheduler.submit` describes them and their defaults.

    Raises:
        InvalidArgument: a list of another length than `prompts`; an invalid format.
        BudgetTooSmall: no output of any prompt is as short as its `max_tokens`.
        FormatterError: any other error of `Scheduler.submit`.
    """
    given = list(elements_of(prompts, "prompts", "prompts"))
    samples, each = calls_settings(settings, len(given))
    requests: list[Request | Exception] = []
    with Scheduler(llama, max_sequences=max_sequences, context_size=context_size) as scheduler:
        for prompt, one in zip(given, each, strict=True):
            try:
                request = scheduler.submit(
                    prompt,
                    samples=samples,
                    format=one.format[0] if one.format else None,
                    max_tokens=one.max_tokens,
                    fit=fit,
                    sampling=one.sampling_instead_of(GREEDY),
                    stop_strings=[stop.decode() for stop in one.stops or ()],
                    seed=one.seed,
                    logprobs=one.logprobs,
                    top_logprobs=one.top_logprobs,
                )
            except (PromptTooLong, BudgetTooSmall) as error:
                requests.append(error)
            except InvalidArgument as error:
                if error.argument != "prompt":
                    raise
                requests.append(error)
            else:
                requests.append(request)
        if requests and all(isinstance(one, BudgetTooSmall) for one in requests):
            raise requests[0]  # type: ignore[misc]
        try:
            for _ in scheduler.run():
                pass
        except Exception as error:  # noqa: BLE001 - finished outputs are returned despite any error
            for sample in (sample for one in requests if isinstance(one, Request) for sample in one.samples):
                if sample.output is None:
                    sample.fail(error)
    return [_outputs(request, samples) for request in requests]


def _outputs(request: Request | Exception, samples: int) -> list[Generated]:
    if isinstance(request, Request):
        return [sample.output for sample in request.samples if sample.output is not None]
    return [Generated((), b"", "error", request)] * samples
