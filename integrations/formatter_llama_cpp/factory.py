"""From a loaded model and a format to a hook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core.runtime.prepared import MaskedText
from formatter_llama_cpp.logits_processor import FormatterLogitsProcessor
from formatter_llama_cpp.sampler import FormatterSampler
from formatter_llama_cpp.vocabulary import compiled_format

__all__ = ["create_logits_processor", "create_sampler"]


def create_logits_processor(
    llama: Any,
    format: Any,
    *,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterLogitsProcessor:
    """Create a logits processor for `Llama.create_completion`, `create_chat_completion` and `generate`.

    The calls may be streamed or not.

    Args:
        llama: the `llama_cpp.Llama` that will generate.
        format: anything that `Compiler.compile` takes, or a `LlamaGrammar`.
        end_ids: the ids that end an output, instead of those at which llama.cpp ends one. llama.cpp does not stop at
            others, so name another one only if your own loop stops at it.
        max_tokens: each output is complete within it, the end id included (docs/budgets.md); give the request the same
            number.
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        InvalidArgument: `llama` is closed, or has a vocabulary and no weights.
        InvalidFormat: an invalid format.
        FormatterError: any other error of `Compiler.compile`.
    """
    compiled = compiled_format(llama, format, end_ids=end_ids, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterLogitsProcessor(llama, compiled)


def create_sampler(
    llama: Any,
    format: Any,
    *,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterSampler:
    """Create a sampler that allows only the tokens that its format allows next, for llama.cpp's low-level API.

    ::

        sampler = create_sampler(llama, format)
        sampler.add_to(chain)                         # first, before top-k and the others
        ...
        token = llama_cpp.llama_sampler_sample(chain, llama.ctx, -1)

    Args:
        llama: the `llama_cpp.Llama` whose model generates.
        format: anything that `Compiler.compile` takes, or a `LlamaGrammar`.
        end_ids: the ids that end an output, instead of those at which llama.cpp ends one.
        max_tokens: each output is complete within it, including the end id (docs/budgets.md).
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        UnsupportedEngineVersion: this release has no samplers that others can write.
        InvalidArgument: `llama` is closed, or has a vocabulary and no weights.
        InvalidFormat: an invalid format.
        FormatterError: any other error of `Compiler.compile`.
    """
    compiled = compiled_format(llama, format, end_ids=end_ids, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterSampler(compiled)
