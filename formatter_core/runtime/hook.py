"""Provide what the hooks of several adapters have in common: their formats, what users read of them, and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from formatter_core.errors import HookReused, InvalidArgument, WrongModel
from formatter_core.errors.arguments import neither_format_nor_formats
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.compiler import Compiler
from formatter_core.runtime.cursor import Cursor, NotCopied
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.prepared import MaskedText

__all__ = [
    "HookOptions",
    "SequenceHook",
    "check_formats",
    "compile_for_hook",
    "compile_for_prompts",
    "ids_within",
    "reused",
    "wrong_model",
]

#: The name of the class that both transformers and mlx-lm are given.
_PROCESSOR = "FormatterLogitsProcessor"


class HookOptions(TypedDict, total=False):
    """The options of a function that creates a logits processor.

    Attributes:
        model: the model that will generate, and the only one that may.
        end_ids: the ids that end an output, instead of the model's.
        max_tokens: each output is complete within it, including the end id.
        forced_text: the tokens that masks allow where the text is forced; see `CompiledFormat.with_forced_text`.
    """

    model: Any
    end_ids: Iterable[int] | None
    max_tokens: int | None
    forced_text: MaskedText


def compile_for_hook(
    compiler: Compiler, format: Any, *, max_tokens: int | None, forced_text: MaskedText
) -> CompiledFormat[Any]:
    """Compile a format with the options of a hook.

    Raises:
        BudgetTooSmall: no complete output is known to fit into `max_tokens`.
        FormatterError: any other error of `Compiler.compile`.
    """
    return compiler.compile(format).within(max_tokens).with_forced_text(forced_text)


def check_formats(format: Any, formats: Sequence[Any] | None) -> None:
    """Check that there is a format for all prompts, or formats for each.

    Raises:
        InvalidArgument: there is neither `format` nor `formats`, or both; or `formats` is empty.
    """
    if (format is None) == (formats is None):
        raise neither_format_nor_formats()
    if formats is not None and not len(formats):
        reason = "the list of formats is empty; give one format, or one for each prompt"
        raise InvalidArgument(reason, argument="formats")


def compile_for_prompts(
    compiler: Compiler, formats: Sequence[Any], *, max_tokens: int | None, forced_text: MaskedText
) -> list[CompiledFormat[Any] | None]:
    """Compile the format of each prompt with the options of a hook; None leaves its prompt unconstrained.

    Raises:
        FormatterError: any error of `compile_for_hook`.
    """
    return [
        None if one is None else compile_for_hook(compiler, one, max_tokens=max_tokens, forced_text=forced_text)
        for one in formats
    ]


def ids_within(token_ids: Iterable[int], width: int) -> list[int]:
    """Return the ids that a model with this many logits has.

    If it has none of them, it is another model than the hook was made for. Then return id 0: the job has to end, and
    ends after any token.
    """
    return [token_id for token_id in token_ids if token_id < width] or [0]


def reused() -> HookReused:
    """Make the error for a second call of a loop with one logits processor."""
    remedy = "create one processor for each call, or call its reset() when the first call is over"
    return HookReused(_PROCESSOR, remedy)


def wrong_model(made_for: str, found: str, hook: str = _PROCESSOR) -> WrongModel:
    """Make the error for a hook that is used with another model or tokenizer than it was made for."""
    remedy = "create it with the tokenizer and the model that generate"
    return WrongModel(hook, made_for=made_for, found=found, remedy=remedy)


class SequenceHook(NotCopied):
    """A hook that follows one sequence with a cursor, as its users see it.

    An inference engine calls hooks where an exception would be lost or would end other sequences, so a hook raises
    nothing there: its cursor keeps the error, allows only the end, and the error is raised when the user asks.
    """

    _cursor: Cursor

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._cursor!r}>"

    @property
    def error(self) -> Exception | None:
        """The error that aborted the sequence; None if it was not aborted."""
        return self._cursor.error

    @property
    def formatter(self) -> Formatter:
        """The state after the tokens so far."""
        return self._cursor.formatter

    def raise_error(self) -> None:
        """Raise what aborted the sequence, if anything did.

        Raises:
            Exception: what aborted the sequence.
        """
        if self.error is not None:
            raise self.error
