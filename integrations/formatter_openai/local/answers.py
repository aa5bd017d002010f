"""Outputs of a model as chat completions, whole or as the chunks of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from formatter_core import ChatDeltas, Vocabulary
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.generation import ChosenToken, Finished, FormatEvent, Generated, GenerationEvent, TextDelta, Usage
from formatter_core.runtime.chat_deltas import answer_so_far, chat_message
from formatter_openai.local.asked import Asked

__all__ = ["Chunks", "completion_of"]


def completion_of(asked: Asked, outputs: Sequence[Generated], vocabulary: Vocabulary | None) -> dict[str, Any]:
    """Make a chat completion.

    Args:
        asked: the request.
        outputs: one for each choice.
        vocabulary: the model's, where it tells ids of tokens.

    Raises:
        BaseException: what went wrong with an output.
    """
    choices = []
    for index, output in enumerate(outputs):
        message, reason = _message(asked, output)
        choice: dict[str, Any] = {"index": index, "message": message, "finish_reason": reason, "logprobs": None}
        if asked.tells_scores:
            choice["logprobs"] = _scores(asked, output.chosen, vocabulary)
        choices.append(choice)
    made = {**_head(asked, "chat.completion"), "choices": choices}
    return {**made, "usage": _usage(outputs)}


class Chunks:
    """The chunks of a stream, made of a loop's events.

    Args:
        asked: the request.
        vocabulary: the model's, where it tells ids of tokens.
    """

    def __init__(self, asked: Asked, vocabulary: Vocabulary | None) -> None:
        self._asked = asked
        self._vocabulary = vocabulary
        self._head = _head(asked, "chat.completion.chunk")
        self._deltas: dict[int, ChatDeltas] = {}
        self._begun: set[int] = set()
        #: Scores that wait for the chunk of their text, and the number already sent for each sample.
        self._scores: dict[int, list[ChosenToken]] = {}
        self._told: dict[int, int] = {}
        self._outputs: list[Generated] = []
        self._is_turn = isinstance(asked.format, ChatAnswerFormat)

    def of(self, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks that an event adds to the answer.

        Raises:
            BaseException: what went wrong with the output that is finished.
        """
        if isinstance(event, TextDelta) and self._asked.tells_scores:
            self._scores.setdefault(event.sample, []).extend(event.chosen)
        if isinstance(event, TextDelta) and not self._is_turn and event.text:
            yield from self._chunk(event.sample, {"content": event.text})
        elif isinstance(event, FormatEvent) and self._is_turn:
            for delta in self._deltas.setdefault(event.sample, ChatDeltas()).of([event.event]):
                yield from self._chunk(event.sample, delta)
        elif isinstance(event, Finished):
            yield from self._end(event)

    def usage(self) -> Iterator[dict[str, Any]]:
        """Return the token counts, if the request asks for them."""
        if self._asked.tells_usage:
            yield {**self._head, "choices": [], "usage": _usage(self._outputs)}

    def _end(self, event: Finished) -> Iterator[dict[str, Any]]:
        output = event.output
        message, reason = _message(self._asked, output)
        if self._is_turn and event.sample not in self._deltas:  # a server's, which is read at its end
            calls = [{"index": at, **call} for at, call in enumerate(message.pop("tool_calls", ()))]
            yield from self._chunk(event.sample, {**message, **({"tool_calls": calls} if calls else {})})
        self._outputs.append(output)
        if self._asked.tells_scores:
            self._scores[event.sample] = list(output.chosen[self._told.get(event.sample, 0) :])
        yield from self._chunk(event.sample, {}, finish_reason=reason)

    def _chunk(self, index: int, delta: dict[str, Any], **more: Any) -> Iterator[dict[str, Any]]:
        role = {} if index in self._begun else {"role": "assistant"}
        self._begun.add(index)
        choice = {"index": index, "delta": {**role, **delta}, "finish_reason": None, **more}
        if scores := self._scores.pop(index, []):
            self._told[index] = self._told.get(index, 0) + len(scores)
            choice["logprobs"] = _scores(self._asked, scores, self._vocabulary)
        yield {**self._head, "choices": [choice]}


def _head(asked: Asked, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": asked.model}


def _message(asked: Asked, output: Generated) -> tuple[dict[str, Any], str]:
    """Return the message of an output, and its finish reason."""
    output.raise_error()
    result = output.result
    is_whole = output.stopped != "length" if result is None else result.is_complete
    reason = "stop" if is_whole or output.stopped != "length" else "length"
    if not isinstance(asked.format, ChatAnswerFormat) or (output.formatter is None and not is_whole):
        return {"role": "assistant", "content": output.text}, reason
    if is_whole and result is not None and result.shortened is not None and asked.format.content is None:
        reason = "length"  # the text would have continued
    message = chat_message(output.value if is_whole else answer_so_far(_all_events(output.formatter)))
    return message, "tool_calls" if is_whole and "tool_calls" in message else reason


def _all_events(formatter: Any) -> list[Any]:
    """Return all events of a text, including those that were read already."""
    again = formatter.fork()
    again.reset()
    again.accept_tokens(formatter.tokens)
    return list(again.events())


def _usage(outputs: Sequence[Generated]) -> dict[str, Any]:
    """Return the counts of a request's tokens; its prompt is computed once."""
    counts = [output.usage or Usage(0, len(output.tokens)) for output in outputs]
    prompt, cached = (max((count[place] for count in counts), default=0) for place in (0, 2))
    written = sum(count.completion_tokens for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _scores(asked: Asked, chosen: Sequence[ChosenToken], vocabulary: Vocabulary | None) -> dict[str, Any]:
    entries = []
    for token in chosen:
        logprob = token.unmasked_logprob if token.logprob is None else token.logprob
        best = list(token.top or token.unmasked_top)[: asked.most_scores]  # tokens of the same value all count there
        tops = [_token(one.token_id, one.bytes, one.logprob, vocabulary) for one in best]
        entries.append({**_token(token.token_id, token.bytes, logprob, vocabulary), "top_logprobs": tops})
    return {"content": entries}


def _token(token_id: int, text: bytes | None, logprob: float | None, vocabulary: Vocabulary | None) -> dict[str, Any]:
    if text is None:
        text = b"" if vocabulary is None else vocabulary.text_token(token_id) or b""
    return {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}
