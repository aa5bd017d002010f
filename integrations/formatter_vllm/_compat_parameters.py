"""The parameters of a request, vLLM's `SamplingParams`, and their effects on a format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "COMPETING",
    "KEPT",
    "REFUSED",
    "add_stop_id",
    "arguments_of",
    "end_ids_of",
    "has_competing_rules",
    "max_tokens_of",
    "reason_to_refuse",
    "reason_to_refuse_beside",
    "request_id_of",
    "set_request_id",
]

#: Parameters that cannot be combined with a format, and the reasons; a request with both is refused.
REFUSED = {
    "min_tokens": "it forbids the end where the format allows nothing else; put the length into the format instead",
    "structured_outputs": "it is a second format (response_format); leave one of them out",
    "guided_decoding": "it is a second format (response_format); leave one of them out",
    "thinking_token_budget": "it forces tokens that the format may not allow; leave it out",
    "trace_decode_token_ids": "it says which tokens are sampled; leave it out",
}
#: Parameters that may forbid tokens before the mask is applied. If they leave none, the request fails.
COMPETING = frozenset({"allowed_token_ids", "bad_words", "logit_bias", "logits_processors"})
#: Parameters that choose among the allowed tokens, end or cut the output, or select what is returned.
KEPT = frozenset(
    {
        "_all_stop_token_ids",
        "_bad_words_token_ids",
        "_eos_token_id",
        "_real_n",
        "_watermarking_skipped",
        "best_of",
        "detokenize",
        "extra_args",
        "flat_logprobs",
        "frequency_penalty",
        "ignore_eos",
        "include_stop_str_in_output",
        "logprob_token_ids",
        "logprobs",
        "max_tokens",
        "min_p",
        "n",
        "output_kind",
        "output_text_buffer_length",
        "presence_penalty",
        "prompt_logprob_start",
        "prompt_logprob_token_ids",
        "prompt_logprobs",
        "repetition_detection",
        "repetition_penalty",
        "routed_experts_prompt_start",
        "seed",
        "skip_clone",
        "skip_reading_prefix_cache",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop",
        "stop_token_ids",
        "stream_interval",
        "temperature",
        "top_k",
        "top_p",
        "truncate_prompt_tokens",
        "watermarking",
    }
)

#: The argument of a request in which its id goes to the workers.
_REQUEST_ID = "formatter_request_id"


def arguments_of(parameters: Any) -> Any:
    """Return the request's own arguments: `extra_args`, which is `vllm_xargs` over HTTP."""
    return getattr(parameters, "extra_args", None)


def set_request_id(parameters: Any, request_id: str) -> None:
    """Let the workers know a request by its id, which vLLM does not tell logits processors."""
    parameters.extra_args = {**(arguments_of(parameters) or {}), _REQUEST_ID: request_id}


def request_id_of(parameters: Any) -> str | None:
    """Return the id that the server's process has set; None for a request that did not pass through it."""
    found = (arguments_of(parameters) or {}).get(_REQUEST_ID)
    return found if isinstance(found, str) else None


def end_ids_of(parameters: Any) -> frozenset[int]:
    """Return the ids at which this request stops, its own and the model's."""
    found = getattr(parameters, "all_stop_token_ids", None)
    return frozenset(found if found is not None else getattr(parameters, "stop_token_ids", None) or ())


def add_stop_id(parameters: Any, token_id: int) -> None:
    """Make the request stop at one more id."""
    own = getattr(parameters, "stop_token_ids", None) or []
    if token_id not in own:
        parameters.stop_token_ids = [*own, token_id]
    known: set[int] | None = getattr(parameters, "all_stop_token_ids", None)
    if known is not None:
        known.add(token_id)


def max_tokens_of(parameters: Any) -> int | None:
    """Return the request's limit on output tokens; None if it sets none."""
    found: int | None = getattr(parameters, "max_tokens", None)
    return found


def reason_to_refuse(parameters: Any, *, fits: bool = False) -> str | None:
    """Return the reason why a format cannot be enforced with the request's other parameters; None if it can.

    `fits`: the output is to be complete within the request's `max_tokens`.
    """
    if fits and max_tokens_of(parameters) is None:
        return '"fit" needs a number of tokens to fit into; give max_tokens'
    return _refused(parameters, REFUSED)


def reason_to_refuse_beside(parameters: Any, *, is_behind_reasoning: bool) -> str | None:
    """Return the reason to refuse vLLM's own structured outputs beside other settings of a request, or None.

    vLLM lets such outputs begin after reasoning that it cuts short.
    """
    return _refused(parameters, ("min_tokens",) if is_behind_reasoning else ("min_tokens", "thinking_token_budget"))


def _refused(parameters: Any, names: Iterable[str]) -> str | None:
    for name in names:
        value = getattr(parameters, name, None)
        if value is not None and (value or name != "min_tokens"):
            return f"the request has a format and {name} too: {REFUSED[name]}"
    return None


def has_competing_rules(parameters: Any) -> bool:
    """Tell whether other rules of the request may forbid tokens before the mask is applied."""
    return any(getattr(parameters, name, None) for name in COMPETING)
