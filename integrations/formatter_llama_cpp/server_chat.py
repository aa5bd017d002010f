"""Completions and chat completions of a server, in the format that the request asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from formatter_core import ChatDeltas
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.formats.openai_request import requested_format
from formatter_core.layouts import Layout
from formatter_core.runtime.chat_deltas import answer_so_far, chat_message
from formatter_llama_cpp._compat_chat import chat_prompt
from formatter_llama_cpp._compat_grammar import grammar_text
from formatter_llama_cpp.factory import create_logits_processor
from formatter_llama_cpp.logits_processor import FormatterLogitsProcessor
from formatter_llama_cpp.results import take_rest
from formatter_llama_cpp.server_requests import kept_fields
from formatter_llama_cpp.vocabulary import create_vocabulary, texts_of

__all__ = ["FormatChat", "format_completion"]


def format_completion(llama: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    """Call `Llama.create_completion` with this project's masks instead of a `grammar`."""

    def create_completion(
        *arguments: Any, grammar: Any = None, logits_processor: Any = None, stream: bool = False, **options: Any
    ) -> Any:
        if grammar is None:
            return create(*arguments, logits_processor=logits_processor, stream=stream, **options)
        processor = create_logits_processor(llama, grammar)
        processor.extend(logits_processor or ())
        output = create(*arguments, logits_processor=processor, stream=stream, **options)
        if stream:
            return _checked(processor, output)
        processor.raise_error()
        return output

    return create_completion


class FormatChat:
    """A chat handler that wraps the model's own: it requests the text with the masks of the requested format.

    Args:
        handler: the model's own handler.
        layout: how the model writes turns; None if it is not known.
    """

    def __init__(self, handler: Callable[..., Any], layout: Layout | None) -> None:
        self._handler = handler
        self._layout = layout

    def __call__(
        self,
        *,
        llama: Any,
        messages: Any,
        tools: Any = None,
        tool_choice: Any = None,
        response_format: Any = None,
        grammar: Any = None,
        logits_processor: Any = None,
        stream: bool = False,
        **options: Any,
    ) -> Any:
        """Return the chat completion, or its chunks."""
        request = {
            "tools": tools,
            "tool_choice": tool_choice,
            "response_format": response_format,
            "grammar": grammar_text(grammar) or grammar,
            **kept_fields.get(),
            "functions": options.pop("functions", None),
            "function_call": options.pop("function_call", None),
        }
        prompt = self._prompt(llama, messages, tools) if tools and self._layout is not None else ""
        format = requested_format(request, self._layout, prompt=prompt)
        known = {"llama": llama, "messages": messages, "tools": tools, "stream": stream, **options}
        if format is None:
            return self._handler(logits_processor=logits_processor, **known)
        processor = create_logits_processor(llama, format)
        processor.extend(logits_processor or ())
        output = self._handler(logits_processor=processor, **known)
        has_calls = isinstance(format, ChatAnswerFormat)
        if stream:
            return _chunks_of_calls(processor, output) if has_calls else _checked(processor, output)
        processor.raise_error()
        return _with_calls(processor, output) if has_calls else output

    def _prompt(self, llama: Any, messages: Any, tools: Any) -> str:
        ids, _ = chat_prompt(llama, messages, handler=self._handler, tools=tools)
        return texts_of(create_vocabulary(llama), ids)[0]


def _checked(processor: FormatterLogitsProcessor, chunks: Iterator[Any]) -> Iterator[Any]:
    yield from chunks
    processor.raise_error()


def _with_calls(processor: FormatterLogitsProcessor, output: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion from a turn of the model's layout: content, reasoning and calls are separated.

    Of a turn that was cut, this is what is certain: the text so far, and the calls that are complete.
    """
    choice, result = output["choices"][0], processor.result(output)
    if result.is_complete:
        answer = result.value
    else:
        formatter = processor.formatter.fork()
        take_rest(formatter, choice["message"]["content"] or "")
        answer = answer_so_far(formatter.events())
    choice["message"] = chat_message(answer)
    if answer.tool_calls and result.is_complete:
        choice["finish_reason"] = "tool_calls"
    return output


def _chunks_of_calls(processor: FormatterLogitsProcessor, chunks: Iterator[Any]) -> Iterator[Any]:
    """Yield the chunks of a stream, whose deltas are those of the turn's parts."""
    deltas, has_calls, text = ChatDeltas(), False, ""

    def made(chunk: Any, events: Any) -> Iterator[Any]:
        for delta in deltas.of(events):
            yield {**chunk, "choices": [{**chunk["choices"][0], "delta": delta, "finish_reason": None}]}

    for chunk in chunks:
        choice = chunk["choices"][0]
        if "role" in choice["delta"]:
            yield chunk
            continue
        formatter = processor.formatter
        text += choice["delta"].get("content") or ""
        reason = choice["finish_reason"]
        if reason is not None:  # processors are not shown the last token, an end or a text
            take_rest(formatter, text)
            if reason == "stop" and formatter.can_stop and not formatter.is_finished:
                formatter.accept_token(formatter.end_ids[0])
        for one in made(chunk, formatter.events()):
            has_calls = has_calls or "tool_calls" in one["choices"][0]["delta"]
            yield one
        if reason is not None:
            processor.raise_error()
            is_called = has_calls and reason == "stop"
            yield {
                **chunk,
                "choices": [{**choice, "delta": {}, "finish_reason": "tool_calls" if is_called else reason}],
            }
