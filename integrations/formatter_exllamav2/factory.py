"""From a tokenizer and a format to a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core.runtime.hook import compile_for_hook
from formatter_core.runtime.prepared import MaskedText
from formatter_exllamav2.filter import FormatterFilter
from formatter_exllamav2.vocabulary import compiler_for

__all__ = ["create_filter"]


def create_filter(
    tokenizer: Any,
    format: Any,
    *,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    prefix_str: str | None = None,
    background: bool = True,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterFilter:
    """Create a filter for one job at a time of `ExLlamaV2DynamicGenerator`, or for one of the other generators.

    ::

        filter = create_filter(tokenizer, format)
        text = generator.generate(prompt, max_new_tokens=200, filters=[filter], stop_conditions=filter.end_ids)
        value = filter.result().value

    Args:
        tokenizer: the `ExLlamaV2Tokenizer` of the generator.
        format: anything that `Compiler.compile` takes.
        model: gives the width of the logits if the tokenizer was made with another model's configuration.
        end_ids: the ids that end an output, instead of those named in the model's files.
        prefix_str: the text at the end of the prompt that the format begins with; the output continues it.
        background: whether the generator's threads make masks while the model runs.
        max_tokens: each output is complete within it, including the end id (docs/budgets.md); give `max_new_tokens` the
            same number.
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        InvalidFormat: an invalid format.
        TokenRejected: the format cannot begin with `prefix_str`.
        FormatterError: any other error of `Compiler.compile`.
    """
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    compiled = compile_for_hook(compiler, format, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterFilter(model, tokenizer, compiled, prefix_str=prefix_str, background=background)
