"""Results from what llama-cpp-python returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from formatter_core import Formatter, Result
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.generation.stopping import stopped_result
from formatter_core.runtime.result import Ended

__all__ = ["result_of", "take_rest"]

#: `Llama.detokenize` leaves out pieces of more bytes.
_LONGEST_PIECE = 32


def result_of(formatter: Formatter, output: Any, prompts: Callable[[], Sequence[str]] = tuple) -> Result:
    """Return the result of a sequence and its text; the formatter has seen all tokens but the last.

    Args:
        formatter: after all tokens but the last one; it is not changed.
        output: a completion or a chat completion, a text that is assumed to have ended by itself, or None.
        prompts: gives the texts, but for spaces, with which the output may begin: `echo=True` repeats the prompt.

    Raises:
        InvalidArgument: `output` is something else, or its text is not the one of these tokens.
    """
    if output is None:
        return formatter.result()
    text, reason, count = _text_of(output)
    known = set() if formatter.tokens else set(formatter.compiled.vocabulary.tokens)
    outputs = [text, *(text[length:] for prompt in prompts() for length in _lengths_of(prompt, text))]
    # Where the only token is the one that was never shown, it tells whether the prompt was repeated.
    for each in sorted(outputs, key=lambda each: each.encode("utf-8", "replace") not in known):
        found = _result_with(formatter, each, reason, count)
        if found is not None:
            return found
    raise InvalidArgument(
        f"the output's text {text[:60]!r} differs from that of the tokens that this hook followed, "
        f"{formatter.text[:60]!r}; give the output of its latest request, and use one hook for each request that "
        "runs at the same time; for a request with suffix= leave out echo=True",
        argument="output",
    )


def take_rest(formatter: Formatter, text: str) -> None:
    """Take the text of the last token, which no processor was shown.

    Args:
        formatter: after all tokens but the last one.
        text: that of all tokens. If it is not, or has been cut, nothing is taken.
    """
    data = _without_special(formatter, text).encode("utf-8", "surrogatepass")
    for shown in _as_shown(formatter):
        if data.startswith(shown) and (data == shown or _takes(formatter, data[len(shown) :])):
            return


def _result_with(formatter: Formatter, text: str, reason: str | None, count: int | None) -> Result | None:
    """Return the result if the output's own text is `text`; None if that contradicts the tokens."""
    seen = formatter.bytes
    data = _without_special(formatter, text).encode("utf-8", "surrogatepass")
    for shown in _as_shown(formatter):
        if shown.startswith(data) and shown != data and reason != "length":  # cut before a stop string
            return stopped_result(formatter, data) if seen.startswith(data) else formatter.result("stop_string")
        if not data.startswith(shown):
            # A character that is cut in the middle is left out.
            if not (reason == "length" and data == shown.decode("utf-8", "ignore").encode()):
                continue
            return formatter.result("length")
        rest = data[len(shown) :]
        whole = formatter.fork()
        if rest and ((count is not None and count <= len(formatter.tokens)) or not _takes(whole, rest)):
            continue
        ended: Ended = "length" if reason == "length" else "end" if whole.can_stop else "stop_string"
        return whole.result(ended)
    return None


def _lengths_of(prompt: str, text: str) -> Iterator[int]:
    """Yield the lengths that the prompt may have in the text; it is compared without spaces."""
    left = prompt.replace(" ", "")
    for length, character in enumerate(text):
        if not left:
            yield length
        if character != " " and not left.startswith(character):
            return
        left = left[character != " " :]
    if not left:
        yield len(text)


def _as_shown(formatter: Formatter) -> list[bytes]:
    """Return the texts that the library may show: without long pieces, with and without the leading space."""
    vocabulary = formatter.compiled.vocabulary
    pieces = [vocabulary.text_token(token) or b"" for token in formatter.tokens]
    data = b"".join(piece for piece in pieces if len(piece) <= _LONGEST_PIECE)
    return [data, data[1:]] if data.startswith(b" ") else [data]


def _without_special(formatter: Formatter, text: str) -> str:
    """Return the text without the names of special tokens, which some releases write."""
    taken = set(formatter.tokens)
    for name, token_id in formatter.compiled.vocabulary.special_tokens.items():
        if token_id in taken:
            text = text.replace(name, "")
    return text


def _takes(formatter: Formatter, rest: bytes) -> bool:
    """Take the text of the last token, which was never shown; False where the format has no such text there."""
    special = formatter.compiled.vocabulary.special_tokens.get(rest.decode("utf-8", "replace"))
    try:
        if special is None:
            formatter.accept_bytes(rest)
        else:
            formatter.accept_token(special)
    except TokenRejected:
        return False
    return True


def _text_of(output: Any) -> tuple[str, str | None, int | None]:
    """Return the text, the finish reason, and the number of tokens, as far as they are known."""
    if isinstance(output, str):
        return output, None, None
    choices = output.get("choices") if isinstance(output, Mapping) else None
    choice = choices[0] if isinstance(choices, Sequence) and choices else None
    if isinstance(choice, Mapping):
        message = choice.get("message")
        text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
        if isinstance(text, str):
            usage = output.get("usage")
            count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
            return text, choice.get("finish_reason"), count if isinstance(count, int) else None
    raise InvalidArgument(
        "this is neither a completion of llama-cpp-python nor a text; give what create_completion or "
        "create_chat_completion returned, or the joined text of a stream"
    )
