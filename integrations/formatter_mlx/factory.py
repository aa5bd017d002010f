"""From a tokenizer and a format to a logits processor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from formatter_core import CompiledFormat
from formatter_core.runtime.hook import HookOptions, check_formats, compile_for_hook, compile_for_prompts
from formatter_core.runtime.prepared import MaskedText
from formatter_mlx.logits_processor import FormatterLogitsProcessor
from formatter_mlx.vocabulary import compiler_for

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
    *,
    formats: Sequence[Any] | None = None,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    max_tokens: int | None = None,
    forced_text: MaskedText = "exact",
) -> FormatterLogitsProcessor[Any]:
    """Create a logits processor for `generate`, `stream_generate`, `generate_step` and `batch_generate` of mlx-lm.

    Args:
        tokenizer: the second value that `mlx_lm.load` returns.
        format: anything that `Compiler.compile` takes, for all prompts.
        formats: instead of `format` one for each prompt of `batch_generate`, None for a prompt that is unconstrained.
        model: the first value that `mlx_lm.load` returns. The processor then refuses every other model.
        end_ids: the ids that end an output, instead of those at which mlx-lm stops.
        max_tokens: each output is complete within this many tokens, including its end id; give the loop the same
            number. Without it an output may be cut.
        forced_text: the tokens that masks allow where the text is forced: `"exact"`, all tokens that spell it, or
            `"longest"`, the longest of those, which models have seen in training (docs/sequences.md).

    Raises:
        InvalidArgument: neither `format` nor `formats`, or both.
        InvalidVocabulary: the tokenizer cannot be read.
        BudgetTooSmall: no output of a format is known to fit into `max_tokens`.
        FormatterError: any other error of `Compiler.compile`.
    """
    check_formats(format, formats)
    compiler = compiler_for(tokenizer, model=model, end_ids=end_ids)
    if formats is not None:
        several = compile_for_prompts(compiler, formats, max_tokens=max_tokens, forced_text=forced_text)
        return FormatterLogitsProcessor(several, model=model)
    compiled = compile_for_hook(compiler, format, max_tokens=max_tokens, forced_text=forced_text)
    return FormatterLogitsProcessor(compiled, model=model)
