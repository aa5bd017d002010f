"""From the outputs of vLLM to typed results: parsed again, so that no cut or broken answer is taken for a good one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from formatter_core import CompiledFormat, Result, Vocabulary, parse
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.runtime.result import Ended
from formatter_core.support.arguments import elements_of, token_ids_of
from formatter_vllm.compilers import compiler_for_results

__all__ = ["result", "results"]


def result(output: Any, format: Any, *, vocabulary: Vocabulary | None = None) -> Result:
    """The result of one output of vLLM.

    Args:
        output: a `CompletionOutput` of `LLM.generate`, a choice of an OpenAI response, or the text of an answer that
            was not cut.
        format: the format of the request, whatever `Compiler.compile` takes. Values have its types.
        vocabulary: the engine's (`create_vocabulary`), to read a `CompletionOutput` by its token ids. Needed if the
            format names special tokens, or if the engine gives no text.

    Returns:
        a result that `is_complete` only if the text is in the format, to its end, and was ended by the format's own
        rules; `Result.value` of any other raises `IncompleteResult`.

    Raises:
        InvalidArgument: the output is none of these.
        FormatterError: whatever `Compiler.compile` raises.
    """
    token_ids = getattr(output, "token_ids", None)
    if vocabulary is not None and token_ids is not None:
        return _from_tokens(compiler_for_results(vocabulary).compile(format), output)
    if isinstance(output, str):
        return parse(format, output)
    ended = _ended(output)
    # Without a reason the output is still being written, so it has not ended by itself either.
    return replace(parse(format, _text_of(output), ended=ended or "length"), ended=ended)


def results(outputs: Iterable[Any], format: Any, *, vocabulary: Vocabulary | None = None) -> list[Result]:
    """`result` for each output of a request with `n` of them: `LLM.generate(...)[i].outputs`, `response.choices`."""
    return [result(output, format, vocabulary=vocabulary) for output in elements_of(outputs, "outputs", "outputs")]


def _text_of(output: Any) -> str:
    message = getattr(output, "message", None)
    text = getattr(output, "text", None) if message is None else getattr(message, "content", None)
    if message is not None and text is None:
        text = ""  # a chat answer that was cut before it began
    if isinstance(text, str):
        return text
    raise InvalidArgument(
        f"a {type(output).__name__} is not an output; give LLM.generate(...)[i].outputs[j], response.choices[i], "
        "or a text",
        argument="output",
    )


def _ended(output: Any) -> Ended | None:
    reason = getattr(output, "finish_reason", None)
    if reason == "stop":
        return "stop_string" if isinstance(getattr(output, "stop_reason", None), str) else "end"
    if reason is None:
        return None
    return "length" if reason == "length" else "error"


def _from_tokens(compiled: CompiledFormat, output: Any) -> Result:
    stop_id = getattr(output, "stop_reason", None)
    own_ends = [stop_id] if isinstance(stop_id, int) else []
    formatter = compiled.formatter(end_ids=[*compiled.vocabulary.end_ids, *own_ends])
    token_ids = token_ids_of(output.token_ids, "output.token_ids")
    taken = formatter.accept_tokens(token_ids)
    if taken == len(token_ids):
        return formatter.result(_ended(output))
    rejected = TokenRejected(token_ids[taken], position=taken, reason=partial(formatter.explain, token_ids[taken]))
    return replace(formatter.result("error"), cause=rejected)
