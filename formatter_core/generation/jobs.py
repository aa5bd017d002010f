"""Read the jobs of ExLlamaV2 and ExLlamaV3: whether a filter may serve one, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from formatter_core.errors import FormatterError, HookReused, InvalidArgument, WrongModel
from formatter_core.generation.stopping import check_shown, stopped_result
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.hook import wrong_model
from formatter_core.runtime.result import Result

__all__ = ["job_result", "misuse_of", "wrong_generator"]

_FILTER = "FormatterFilter"


def misuse_of(
    job: Any, tokenizer: Any, *, size: int, width: int | None, is_busy: bool, keeps_silent: str | None
) -> FormatterError | None:
    """Make the error for misuse of a filter with a job; return None if the use is right.

    Args:
        job: the job; None if something else than a job uses the filter.
        tokenizer: the tokenizer that the filter was made for; None if it is not known.
        size: the number of ids in the filter's vocabulary.
        width: the number of ids that the generator's model has logits for; None if it is not known.
        is_busy: whether an earlier job still uses the filter.
        keeps_silent: the name of what informs no filter when a banned string removes tokens; None if filters are
            informed.
    """
    if is_busy:
        return HookReused(_FILTER, "create one filter for each job")
    if job is None:
        return None
    if width is not None and size > width:
        return wrong_generator(size, f"a model of {width} logits")
    if not _have_same_pieces(getattr(job.generator, "tokenizer", None), tokenizer):
        return wrong_generator(size, "a generator of other tokens")
    if keeps_silent is not None and getattr(job, "banned_strings", None):
        return InvalidArgument(
            f"the job has banned_strings, for which {keeps_silent} takes tokens back without informing its filters; "
            "leave the strings out, or exclude them in the format"
        )
    return None


def wrong_generator(size: int, found: str) -> WrongModel:
    """Make the error for a filter whose vocabulary has this many ids, and which another generator uses."""
    return wrong_model(f"a tokenizer of {size} ids", found, _FILTER)


def _have_same_pieces(one: Any, other: Any) -> bool:
    """Return whether two tokenizers have the same pieces, as far as both are known."""
    if one is None or other is None or one is other:
        return True
    return bool(one.get_id_to_piece_list() == other.get_id_to_piece_list())


def job_result(formatter: Formatter, before: bytes, output: Any, *, is_over: bool = False) -> Result:
    """Return the result of a job, with the reason for its end if that is known.

    Args:
        formatter: the state after all tokens of the job; not changed.
        before: the bytes that the formatter was given from the prompt.
        output: the job's last result, or None.
        is_over: whether the job has ended as its format requires, whatever the last result says.

    Raises:
        InvalidArgument: `output` is of another kind, or its text contradicts the tokens.
    """
    told = output if isinstance(output, Mapping) else {}
    reason, text = told.get("eos_reason"), told.get("full_completion")
    if isinstance(text, str):
        check_shown(formatter, before, text)
    if is_over:
        return formatter.result("end")
    if output is None:
        return formatter.result()
    if not isinstance(reason, str):
        raise InvalidArgument(
            "this is not the last result of a job, which holds eos_reason; take it from generator.iterate() when "
            '"eos" is True, or from generator.generate(..., return_last_results=True)'
        )
    if reason == "stop_string":
        return stopped_result(formatter, before + str(text or "").encode("utf-8", "surrogatepass"))
    if formatter.is_finished or reason == "end_filter":
        return formatter.result("end")
    # A stop token that is not an end id is one that the caller chose.
    return formatter.result("stop_string" if reason == "stop_token" else "length")
