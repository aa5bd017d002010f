"""From a tokenizer and a format to a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from formatter_core.errors import InvalidArgument
from formatter_core.runtime.hook import compile_for_hook
from formatter_core.runtime.prepared import MaskedText
from formatter_exllamav3.filter import FormatterFilter
from formatter_exllamav3.vocabulary import compiler_for

__all__ = ["create_filter"]


def create_filter(
    tokenizer: Any,
    format: Any,
    *,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    trigger_token: int | None = None,
    prefix_str: str | None = None,
    eos_after_completed: bool = True,
    background: bool = True,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterFilter:
    """Create a filter for one job at a time of `exllamav3.Generator` or `AsyncGenerator`.

    ::

        filter = create_filter(tokenizer, format)
        job = Job(input_ids=ids, max_new_tokens=200, stop_conditions=filter.end_ids, filters=[filter])
        ...  # once the job is done
        value = filter.result().value

    Args:
        tokenizer: the `exllamav3.Tokenizer` of the generator.
        format: anything that `Compiler.compile` takes.
        model: gives the width of the logits if the tokenizer was made with another model's configuration.
        end_ids: the ids that end an output, instead of those named in the model's files.
        trigger_token: the output is free up to this id, and the format begins again each time the id comes.
        prefix_str: the text at the end of the prompt that the format begins with; the output continues it.
        eos_after_completed: whether the job ends when nothing more may follow. Otherwise the rest of its output is
            free, up to an id that ends an output.
        background: whether the generator's threads make masks while the model runs.
        max_tokens: each output is complete within it, including the end id (docs/budgets.md); give `max_new_tokens` the
            same number. Not together with `trigger_token`, before which an output is free.
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        InvalidArgument: `max_tokens` together with `trigger_token`.
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        InvalidFormat: an invalid format.
        TokenRejected: the format cannot begin with `prefix_str`.
        FormatterError: any other error of `Compiler.compile`.
    """
    if max_tokens is not None and trigger_token is not None:
        reason = "max_tokens counts from the beginning of an output, which trigger_token leaves free; give one of them"
        raise InvalidArgument(reason, argument="max_tokens")
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    compiled = compile_for_hook(compiler, format, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterFilter(
        tokenizer,
        compiled,
        trigger_token=trigger_token,
        prefix_str=prefix_str,
        eos_after_completed=eos_after_completed,
        background=background,
    )
