"""From a tokenizer and formats to a logits processor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from formatter_core import CompiledFormat
from formatter_core.errors import InvalidArgument
from formatter_core.runtime.hook import HookOptions, check_formats, compile_for_prompts
from formatter_core.runtime.prepared import MaskedText
from formatter_transformers.logits_processor import FormatterLogitsProcessor
from formatter_transformers.vocabulary import compiler_for, text_size

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["create_logits_processor"]

_T = TypeVar("_T")


@overload
def create_logits_processor(
    tokenizer: Any, format: type[_T] | CompiledFormat[_T], **options: Unpack[HookOptions]
) -> FormatterLogitsProcessor[_T]: ...
@overload
def create_logits_processor(
    tokenizer: Any, format: Any = None, *, formats: Sequence[Any] | None = None, **options: Unpack[HookOptions]
) -> FormatterLogitsProcessor[Any]: ...
def create_logits_processor(
    tokenizer: Any,
    format: Any = None,
    *more: Any,
    formats: Sequence[Any] | None = None,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterLogitsProcessor[Any]:
    """Create a logits processor for `model.generate(..., logits_processor=[processor])`.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` returns.
        format: anything that `Compiler.compile` takes, for all prompts.
        more: not used; later arguments are keyword-only.
        formats: instead of `format` one for each prompt, None for a prompt that is unconstrained.
        model: the model that will generate, and the only one that may. Pass it if you can: it gives the end ids and
            the width of the logits.
        end_ids: the ids that end an output, instead of the model's.
        max_tokens: each output is complete within it, including the end id (docs/budgets.md); give `generate` at least
            as many `max_new_tokens`.
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        InvalidArgument: the tokenizer's name instead of the tokenizer; neither `format` nor `formats`, or both.
        InvalidVocabulary: the tokenizer cannot be read.
        WrongModel: the tokenizer is another model's.
        FormatterError: any other error of `Compiler.compile`.
    """
    if more:
        raise InvalidArgument(
            f"found {2 + len(more)} arguments without names; "
            "call create_logits_processor(tokenizer, format, model=model)"
        )
    check_formats(format, formats)
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    given = [format] if formats is None else formats
    compiled = compile_for_prompts(compiler, given, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterLogitsProcessor(compiled, model=model, min_width=text_size(tokenizer))
