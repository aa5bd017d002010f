"""From the outputs of vLLM to typed results: parsed again, so that no truncated or broken answer counts as complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from formatter_core import Compiler, Result, Vocabulary, parse
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, token_ids_of
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.generation.stopping import rejected
from formatter_core.runtime.compiler import compile_to_read
from formatter_core.runtime.result import Ended
from formatter_vllm.compilers import compiler_for_results
from formatter_vllm.requests import THINK_CLOSE, AfterReasoning

__all__ = ["result", "results"]


def result(
    output: Any, format: Any, *, vocabulary: Vocabulary | None = None, after_reasoning: AfterReasoning = False
) -> Result:
    """Return the result of one output of vLLM.

    Args:
        output: a `CompletionOutput` of `LLM.generate`, a choice of an OpenAI response, or the text of an answer that
            was not cut.
        format: the format of the request, anything that `Compiler.compile` takes. Values have its types.
        vocabulary: the engine's (`create_vocabulary`), to read a `CompletionOutput` by its token ids. Needed if the
            format names special tokens, or if the engine gives no text.
        after_reasoning: as in `create_extra_args`: only the text after the reasoning is read. An answer that the
            server's reasoning parser has split is read unchanged. Not needed for a `formats.chat_answer`: a split
            answer is joined again.

    Returns:
        a result that `is_complete` only if the whole text matches the format and the format itself ended it;
        `Result.value` of any other raises `IncompleteResult`.

    Raises:
        InvalidArgument: the output is none of these.
        FormatterError: any error of `Compiler.compile`.
    """
    is_text = isinstance(output, str)
    ended: Ended | None = "end" if is_text else _ended(output)
    if vocabulary is not None and not is_text and getattr(output, "token_ids", None) is not None:
        token_ids = token_ids_of(output.token_ids, "output.token_ids")
        start = _behind_reasoning(vocabulary, token_ids, after_reasoning)
        read = token_ids[start:] if start is not None else ()
        is_cut = start is None and ended == "end"
        return _from_tokens(compiler_for_results(vocabulary), format, output, read, None if is_cut else ended)
    text = output if is_text else _text_of(output, format)
    if after_reasoning in (True, "auto") and not _is_split(output):
        _, marker, rest = text.partition(THINK_CLOSE)
        if marker:
            text = rest
        elif after_reasoning is True:
            text, ended = "", None if ended == "end" else ended
    # Without a reason the output is still being written, so it has not ended by itself either.
    return replace(parse(format, text, ended=ended or "length"), ended=ended)


def results(
    outputs: Iterable[Any],
    format: Any,
    *,
    vocabulary: Vocabulary | None = None,
    after_reasoning: AfterReasoning = False,
) -> list[Result]:
    """Return the `result` of each output of a request with `n` outputs.

    The outputs are `LLM.generate(...)[i].outputs` or `response.choices`.
    """
    read = partial(result, format=format, vocabulary=vocabulary, after_reasoning=after_reasoning)
    return [read(output) for output in elements_of(outputs, "outputs", "outputs")]


def _text_of(output: Any, format: Any) -> str:
    message = getattr(output, "message", None)
    if message is None:
        text = getattr(output, "text", None)
    else:
        text = getattr(message, "content", None)
        calls = getattr(message, "tool_calls", None) or ()
        if isinstance(format, ChatAnswerFormat) and (calls or _is_split(output)):
            named = [(call.function.name, call.function.arguments) for call in calls]
            return format.rejoined(_reasoning_of(message), text, named)
        text = "" if text is None else text  # a chat answer that was cut before it began
    if isinstance(text, str):
        return text
    raise InvalidArgument(
        f"a {type(output).__name__} is not an output; give LLM.generate(...)[i].outputs[j], response.choices[i], "
        "or a text",
        argument="output",
    )


def _is_split(output: Any) -> bool:
    """Tell whether the server's reasoning parser has removed the reasoning from the text."""
    return _reasoning_of(getattr(output, "message", None)) is not None


def _reasoning_of(message: Any) -> str | None:
    found = getattr(message, "reasoning", None)
    text: str | None = found if found is not None else getattr(message, "reasoning_content", None)
    return text


def _behind_reasoning(vocabulary: Vocabulary, token_ids: Sequence[int], after_reasoning: object) -> int | None:
    """Return the index of the answer's first token; None if the reasoning has not ended."""
    if after_reasoning not in (True, "auto"):
        return 0
    tail, end = b"", THINK_CLOSE.encode()
    for index, token in enumerate(token_ids):
        tail = (tail + vocabulary.spelled(token))[-len(end) :]
        if tail == end:
            return index + 1
    return 0 if after_reasoning == "auto" else None


def _ended(output: Any) -> Ended | None:
    reason = getattr(output, "finish_reason", None)
    if reason == "stop":
        return "stop_string" if isinstance(getattr(output, "stop_reason", None), str) else "end"
    if reason is None:
        return None
    return "length" if reason == "length" else "error"


def _from_tokens(compiler: Compiler, format: Any, output: Any, token_ids: Sequence[int], ended: Ended | None) -> Result:
    compiled = compiler.compile(format)
    stop_id = getattr(output, "stop_reason", None)
    end_ids = [*compiled.vocabulary.end_ids, *([stop_id] if isinstance(stop_id, int) else [])]
    formatter = compiled.formatter(end_ids=end_ids)
    taken = formatter.accept_tokens(token_ids)
    if taken == len(token_ids):
        return formatter.result(ended)
    wide = compile_to_read(compiler, format).formatter(end_ids=end_ids)
    if wide.accept_tokens(token_ids) == len(token_ids):
        return wide.result(ended)
    return replace(formatter.result("error"), cause=rejected(formatter, token_ids[taken]))
