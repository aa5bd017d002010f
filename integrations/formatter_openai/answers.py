"""From a server's answer to a result: parsed against the format as it arrives, whatever the server has promised."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from formatter_core import CompiledFormat, Compiler, Formatter, Vocabulary
from formatter_core.errors import IncompleteResult, TokenRejected
from formatter_core.generation import ChosenToken, Generated, Stopped, TokenScore
from formatter_core.result import Event, Result

__all__ = ["Reading", "text_compiler"]

#: How vLLM writes a token where it is asked for ids.
_ID = "token_id:"


@cache
def text_compiler() -> Compiler:
    """A compiler where the server's tokens are not known: its tokens are the single bytes."""
    return Compiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], end_ids=[256]), cache_bytes=64 * 2**20)


class Reading:
    """One output while it arrives, in one piece or in many.

    Args:
        compiled: its format, compiled for text; None for free text.
        processed: whether the server's log-probabilities are those after the mask.
        prompt: the text before it.
    """

    def __init__(self, compiled: CompiledFormat | None, processed: bool, prompt: str) -> None:
        self.formatter = None if compiled is None else compiled.formatter()
        self.error: BaseException | None = None
        self.is_over = False
        self._prompt = prompt
        self._processed = processed or compiled is None
        self._raw = not processed or compiled is None
        self._text: list[str] = []
        self._tokens: list[int] = []
        self._chosen: list[ChosenToken] = []

    def add(self, text: str) -> list[Event]:
        """Take more text; what is new of the captures. Text outside of the format is an `error`."""
        self._text.append(text)
        if self.formatter is None or self.error is not None or not text:
            return []
        data = text.encode("utf-8", "surrogatepass")
        try:
            self.formatter.accept_bytes(data)
        except TokenRejected:
            self.error = self._left_at(self.formatter, data)
        return self.formatter.events()

    def take(self, choice: Any, text_of: Callable[[Any], str]) -> tuple[str, list[Event], tuple[int, ...]]:
        """Take a choice of an answer, or what a chunk adds to it: its text, what is new of the captures, its ids."""
        text, tokens = text_of(choice), tuple(getattr(choice, "token_ids", None) or ())
        self._tokens.extend(tokens)
        self.add_scores(getattr(choice, "logprobs", None))
        message = getattr(choice, "message", None) or getattr(choice, "delta", None)
        refusal = getattr(message, "refusal", None)
        if refusal and self.error is None:
            self.error = IncompleteResult(ended="error", missing=f"the model refused: {refusal}")
        return text, self.add(text), tokens

    def add_scores(self, logprobs: Any) -> None:
        """Take the log-probabilities of a choice, as the chat or the completions endpoint gives them."""
        if logprobs is None:
            return
        content = getattr(logprobs, "content", None)
        if content is not None:
            for one in content:
                best = [(other.token, other.logprob, other.bytes) for other in one.top_logprobs or []]
                self._chosen.append(self._entry(_score(one.token, one.logprob, one.bytes, 0), _ranked(best)))
            return
        tops = getattr(logprobs, "top_logprobs", None) or [None] * len(logprobs.tokens or [])
        for token, logprob, best in zip(logprobs.tokens or [], logprobs.token_logprobs or [], tops, strict=False):
            if logprob is None:
                continue
            ranked = _ranked([(other, value, None) for other, value in (best or {}).items()])
            self._chosen.append(self._entry(_score(token, logprob, None, 0), ranked))

    def finish(self, reason: str | None, stop_reason: Any = None) -> Generated:
        """The output, given how the server says that it ended.

        Args:
            reason: `finish_reason`; None where the answer broke off.
            stop_reason: vLLM's: the stop string that ended it, or the id of the token.
        """
        self.is_over = True
        stopped: Stopped = "error"
        if self.error is not None:
            pass
        elif reason == "length":
            stopped = "length"
        elif reason == "stop" and isinstance(stop_reason, str):
            stopped = "stop_string"
        elif reason != "stop":
            self.error = IncompleteResult(ended="error", missing=f"the server ended the answer by {reason!r}")
        elif self.formatter is not None and not self.formatter.can_stop:
            self.error = IncompleteResult(ended="end", missing=str(self.formatter.result("end").missing))
        else:
            stopped = "end"
        text = "".join(self._text)
        return Generated(
            tuple(self._tokens),
            text.encode("utf-8", "surrogatepass"),
            stopped,
            self.error,
            tuple(self._chosen),
            prompt=self._prompt,
            parsed=self._result(stopped),
        )

    def fail(self, error: BaseException) -> Generated:
        """The output of a request that failed."""
        self.error = self.error or error
        return self.finish(None)

    def _result(self, stopped: Stopped) -> Result | None:
        if self.formatter is None:
            return None
        if self.error is not None:  # never complete, even where a complete text stands before what is wrong
            return replace(self.formatter.result("error"), missing=str(self.error))
        if stopped == "end":
            return self.formatter.result("end")
        return self.formatter.result("length" if stopped == "length" else "stop_string")

    @staticmethod
    def _left_at(formatter: Formatter, data: bytes) -> TokenRejected:
        """Take what is still in the format; what is wrong with the rest."""
        taken = 0
        try:
            for taken, byte in enumerate(data):  # noqa: B007 - needed where the loop ends by the exception
                formatter.accept_bytes(bytes([byte]))
        except TokenRejected:
            pass
        position = len(formatter.bytes)
        reason = f"the server's answer leaves the format at byte {position} with {data[taken:][:40]!r}"
        return TokenRejected(-1, position=position, reason=reason)

    def _entry(self, score: TokenScore, top: list[TokenScore]) -> ChosenToken:
        same = [o for o in top if (o.token_id, o.bytes) == (score.token_id, score.bytes)]
        rank = same[0].rank if same else None
        return ChosenToken(
            score.token_id,
            score.logprob if self._processed else None,
            score.logprob if self._raw else None,
            tuple(top) if self._processed else (),
            tuple(top) if self._raw else (),
            rank if self._processed else None,
            rank if self._raw else None,
            score.bytes,
        )


def _ranked(entries: Sequence[tuple[str, float, Sequence[int] | None]]) -> list[TokenScore]:
    """The best tokens at one place, as token, log-probability and bytes; the best first."""
    ordered = sorted(entries, key=lambda entry: -entry[1])
    values = [-logprob for _, logprob, _ in ordered]
    return [_score(*entry, bisect_left(values, -entry[1]) + 1) for entry in ordered]


def _score(token: str, logprob: float, data: Sequence[int] | None, rank: int) -> TokenScore:
    token_id = int(token[len(_ID) :]) if token.startswith(_ID) and token[len(_ID) :].isdigit() else -1
    if data is not None:
        return TokenScore(token_id, logprob, rank, bytes(data))
    return TokenScore(token_id, logprob, rank, None if token_id >= 0 else token.encode("utf-8", "surrogatepass"))
