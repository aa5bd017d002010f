"""Readers of server answers: they return plain values of the right types, or raise `MalformedAnswer` with the text."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from formatter_core.errors import MalformedAnswer
from formatter_core.generation import TokenScore, Usage

__all__ = [
    "CallPart",
    "Choice",
    "EchoedToken",
    "PromptTokens",
    "ScoredToken",
    "as_data",
    "as_samples",
    "read_answer",
    "read_chunk",
    "read_echo",
    "read_prompt",
]

#: vLLM's spelling of a token in a request for ids.
_ID = re.compile(r"token_id:([0-9]{1,9})")


class ScoredToken(NamedTuple):
    """A token that was taken, without its rank, and the best ones in its place, the best first."""

    score: TokenScore
    top: tuple[TokenScore, ...]


class EchoedToken(NamedTuple):
    """A token of an answer that begins with its prompt; the first one has no log-probability."""

    text: str
    logprob: float | None


class PromptTokens(NamedTuple):
    """The ids of a prompt, and the log-probability of each but the first; empty where a server tells none."""

    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]


class CallPart(NamedTuple):
    """A tool call, or what a chunk adds to it: which call of the answer, its name, its arguments as JSON text."""

    call: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of an answer, or the part that a chunk of a stream adds to it.

    Attributes:
        index: the number of the sample.
        refusal: the model's refusal instead of an answer; empty if there is none.
        reasoning: the text that the server parsed as reasoning.
        calls: the tool calls.
        token_ids: vLLM's; empty if the server sends none.
        scores: the log-probabilities, if they were requested.
        finish_reason: the reason why it ended; None while it continues.
        stop_reason: vLLM's reason: the stop string that ended it, or the id of the token.
        usage: the token counts, if the server sends them.
    """

    index: int
    text: str
    refusal: str
    reasoning: str
    calls: tuple[CallPart, ...]
    token_ids: tuple[int, ...]
    scores: tuple[ScoredToken, ...]
    finish_reason: str | None
    stop_reason: str | int | None
    usage: Usage | None = None


def as_data(answer: Any) -> Any:
    """Return the JSON value that an object of the client was made from."""
    if hasattr(answer, "model_dump"):
        return answer.model_dump(exclude_unset=True, warnings=False)
    return answer


def read_answer(data: Any) -> list[Choice]:
    """Return the choices of a whole answer, in the order of the samples.

    Raises:
        MalformedAnswer: it is not an answer of an OpenAI-compatible server.
    """
    try:
        return sorted(_choices(data, "message"), key=lambda choice: choice.index)
    except _Fault as fault:
        raise MalformedAnswer(str(fault), text=_shown(data)) from None


def read_chunk(data: Any, samples: int) -> list[Choice]:
    """Return the choices of a stream's chunk, each for one of `samples` samples. A chunk of token counts has none.

    Raises:
        MalformedAnswer: it is not a chunk of an OpenAI-compatible server.
    """
    try:
        choices = list(_choices(data, "delta"))
        if not choices and samples == 1 and (usage := _usage(data, None)) is not None:  # it comes last, by itself
            return [Choice(0, "", "", "", (), (), (), None, None, usage)]
        for choice in choices:
            if not 0 <= choice.index < samples:
                raise _Fault(f"`index` is {choice.index}, where {samples} samples were asked for")
    except _Fault as fault:
        raise MalformedAnswer(str(fault), text=_shown(data)) from None
    return choices


def read_echo(data: Any, prompt: str) -> list[EchoedToken] | None:
    """Return the tokens of an answer that begins with its prompt; None if it does not, or has no tokens.

    Raises:
        MalformedAnswer: it is not an answer of an OpenAI-compatible server.
    """
    try:
        choice = _only_choice(data)
        logprobs = _object(choice, "logprobs")
        if logprobs is None or not (_value(choice, "text", str) or "").startswith(prompt):
            return None
        texts, values = _list(logprobs, "tokens"), _list(logprobs, "token_logprobs")
        if len(texts) != len(values):
            raise _Fault("`logprobs` has lists of different lengths")
        return [
            EchoedToken(_as(text, str, "tokens"), None if value is None else _number(value))
            for text, value in zip(texts, values, strict=True)
        ]
    except _Fault as fault:
        raise MalformedAnswer(str(fault), text=_shown(data)) from None


def read_prompt(data: Any) -> PromptTokens:
    """Read the tokens of a prompt and their log-probabilities from vLLM's answer, at either endpoint.

    Raises:
        MalformedAnswer: it is not an answer of an OpenAI-compatible server.
    """
    try:
        choice = _only_choice(data)
        holder = choice if choice.get("prompt_token_ids") is not None else data
        ids = tuple(_as(one, int, "prompt_token_ids") for one in _list(holder, "prompt_token_ids"))
        told = zip(ids, _list(holder, "prompt_logprobs"), strict=False)
        return PromptTokens(ids, tuple(None if one is None else _logprob_of(token, one) for token, one in told))
    except _Fault as fault:
        raise MalformedAnswer(str(fault), text=_shown(data)) from None


def as_samples(choices: list[Choice], samples: int) -> list[Choice]:
    """Return the choices of a whole answer by index; choices beyond the requested number are dropped."""
    return [replace(choice, index=place) for place, choice in enumerate(choices[:samples])]


class _Fault(Exception):
    """An answer has a missing or malformed field."""


def _usage(data: Mapping[str, Any], written: int | None) -> Usage | None:
    """Read the token counts of an answer; `written` is the output's own count.

    Return None if the counts are invalid.
    """
    usage = data.get("usage")
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    counts: list[Any] = [usage.get("prompt_tokens"), usage.get("completion_tokens") if written is None else written]
    counts.append((details.get("cached_tokens") if isinstance(details, Mapping) else 0) or 0)
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        return None
    return Usage(*counts)


def _choices(data: Any, message_key: str) -> Iterator[Choice]:
    if not isinstance(data, Mapping):
        raise _Fault(f"a JSON object was expected, not a {type(data).__name__}")
    choices = _list(data, "choices", is_required=True)
    for position, choice in enumerate(choices):
        if not isinstance(choice, Mapping):
            raise _Fault(f"a choice is a {type(choice).__name__}, where a JSON object was expected")
        message = choice if "text" in choice else _object(choice, message_key)
        if message is None and message_key == "message":
            raise _Fault("a choice has neither `message` nor `text`")
        index = _value(choice, "index", int)
        stop_reason = choice.get("stop_reason")
        yield Choice(
            position if index is None else index,
            _value(message or {}, "text" if message is choice else "content", str) or "",
            _value(message or {}, "refusal", str) or "",
            _value(message or {}, "reasoning_content", str) or _value(message or {}, "reasoning", str) or "",
            tuple(_calls(message or {})),
            tuple(_as(one, int, "token_ids") for one in _list(choice, "token_ids")),
            tuple(_scores(_object(choice, "logprobs") or {})),
            _value(choice, "finish_reason", str),
            stop_reason if isinstance(stop_reason, (str, int)) else None,
            # It counts the tokens of all choices together.
            None if len(choices) > 1 and not choice.get("token_ids") else _usage(data, _written(choice, len(choices))),
        )


def _only_choice(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _Fault(f"a JSON object was expected, not a {type(data).__name__}")
    choices = _list(data, "choices", is_required=True)
    if len(choices) != 1:
        raise _Fault(f"it has {len(choices)} choices for one sample")
    choice: Mapping[str, Any] = _as(choices[0], Mapping, "choices")
    return choice


def _logprob_of(token: int, place: Any) -> float:
    """Read the log-probability of a token from vLLM's entry for one position of the prompt."""
    entry = _object(_as(place, Mapping, "prompt_logprobs"), str(token))
    return _number(None if entry is None else entry.get("logprob"))


def _written(choice: Mapping[str, Any], choices: int) -> int | None:
    return len(_list(choice, "token_ids")) if choices > 1 else None


def _calls(message: Mapping[str, Any]) -> Iterator[CallPart]:
    for position, call in enumerate(_list(message, "tool_calls")):
        index = _value(_as(call, Mapping, "tool_calls"), "index", int)
        function = _object(call, "function") or {}
        name, arguments = (_value(function, key, str) or "" for key in ("name", "arguments"))
        yield CallPart(position if index is None else index, name, arguments)


def _scores(logprobs: Mapping[str, Any]) -> Iterator[ScoredToken]:
    """Yield the log-probabilities of a choice, as the chat or the completions endpoint gives them."""
    for one in _list(logprobs, "content"):
        best = _list(_as(one, Mapping, "logprobs.content"), "top_logprobs")
        yield _scored(_score(one), [_score(_as(other, Mapping, "top_logprobs")) for other in best])
    tokens, values = _list(logprobs, "tokens"), _list(logprobs, "token_logprobs")
    tops = _list(logprobs, "top_logprobs") or [None] * len(tokens)
    if not len(tokens) == len(values) == len(tops):
        raise _Fault("`logprobs` has lists of different lengths")
    for token, value, best in zip(tokens, values, tops, strict=True):
        if value is None:  # of the first token of all, which nothing predicts
            continue
        others = [] if best is None else _as(best, Mapping, "top_logprobs").items()
        yield _scored(_token(token, value), [_token(other, one) for other, one in others])


def _scored(taken: TokenScore, best: list[TokenScore]) -> ScoredToken:
    best.sort(key=lambda score: -score.logprob)
    values = [-score.logprob for score in best]
    return ScoredToken(taken, tuple(one._replace(rank=bisect_left(values, -one.logprob) + 1) for one in best))


def _score(entry: Mapping[str, Any]) -> TokenScore:
    try:
        data = None if entry.get("bytes") is None else bytes(_list(entry, "bytes"))
    except (TypeError, ValueError) as error:
        raise _Fault(f"`bytes` is {_brief(entry['bytes'])}, where numbers from 0 to 255 were expected") from error
    return _token(entry.get("token"), entry.get("logprob"), data)


def _token(token: Any, logprob: Any, data: bytes | None = None) -> TokenScore:
    named = _ID.fullmatch(_as(token, str, "token"))
    if data is None and named is None:
        data = token.encode("utf-8", "surrogatepass")
    return TokenScore(-1 if named is None else int(named[1]), _number(logprob), 0, data)


def _number(value: Any) -> float:
    try:
        number = float(_as(value, (int, float), "logprob"))
    except OverflowError as error:
        raise _Fault("`logprob` is out of range") from error
    if number != number:
        raise _Fault("`logprob` is not a number")
    return number


def _list(data: Mapping[str, Any], key: str, is_required: bool = False) -> list[Any]:
    value = _value(data, key, list)
    if value is None and is_required:
        raise _Fault(f"it has no `{key}`")
    return value or []


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = _value(data, key, Mapping)
    return found


def _value(data: Mapping[str, Any], key: str, kind: type) -> Any:
    value = data.get(key)
    return None if value is None else _as(value, kind, key)


def _as(value: Any, kind: type | tuple[type, ...], key: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Fault(f"`{key}` is {_brief(value)}, which is of the wrong type")
    return value


def _brief(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."


def _shown(data: Any) -> str:
    """Return the server's text, as far as the JSON data has it."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=repr)
    return text.encode("utf-8", "replace").decode()
