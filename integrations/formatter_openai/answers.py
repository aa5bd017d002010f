"""Results of a server's answers: each answer is parsed against the format as it arrives, even if the server enforces
the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

from formatter_core import CompiledFormat, Compiler, Formatter, Vocabulary
from formatter_core.errors import FormatterError, IncompleteResult, TokenRejected
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.generation import ChosenToken, Generated, GenerationEvent, Usage
from formatter_core.generation.models import StreamedValues
from formatter_core.generation.streamed import value_events
from formatter_core.runtime.result import Ended, Event, Result
from formatter_openai.chat_answers import AnswerParts
from formatter_openai.wire import Choice, ScoredToken

__all__ = ["Reading", "text_compiler"]

#: The formats whose texts are JSON, which is read as any reader of JSON does: with blanks around the value.
_JSON = ("json_schema", "python_type")
#: The whitespace that is allowed around a JSON value (RFC 8259).
_BLANKS = " \t\n\r"


@cache
def text_compiler() -> Compiler:
    """Return a compiler for a server with unknown tokens: its tokens are the single bytes."""
    return Compiler(Vocabulary.of_bytes(), cache_bytes=64 * 2**20)


class Reading:
    """One output while it arrives, in one piece or in many.

    Args:
        compiled: its format, compiled for text; None for free text.
        processed: whether the server's log-probabilities are those after the mask.
        prompt: the text before it.
        is_split: whether the server takes chat answers apart, as chat endpoints do.
        any_blanks: whether JSON may have any blanks that JSON has, where its format has no say in that.
    """

    def __init__(
        self,
        compiled: CompiledFormat | None,
        processed: bool,
        prompt: str,
        is_split: bool,
        any_blanks: bool = False,
    ) -> None:
        self.formatter = None if compiled is None else compiled.formatter()
        format = None if compiled is None else compiled.format
        self._parts = AnswerParts(format) if is_split and isinstance(format, ChatAnswerFormat) else None
        self.error: BaseException | None = None
        self.is_over = False
        #: The server's finish reason, while its token counts are still to come.
        self.ended: tuple[str | None, str | int | None] | None = None
        self._is_json = format is not None and format.to_json()["type"] in _JSON
        self._drops_blanks = any_blanks
        self._in_string = self._is_escaped = False
        self._last = ""  # the last character that is no blank
        self._kept_bytes = 0  # of the text without the blanks that are dropped
        self._dropped: list[tuple[int, int]] = []  # where blanks were, in those bytes, and how many
        self._blanks = ""  # at the end so far: around the value, or within it where more follows
        self._refusal = ""
        self._usage: Usage | None = None
        self._prompt = prompt
        self._processed = processed or compiled is None
        self._raw = not processed or compiled is None
        self._text: list[str] = []
        self._tokens: list[int] = []
        self._chosen: list[ChosenToken] = []
        self._told_scores = 0

    def take(self, choice: Choice) -> list[Event]:
        """Take a choice of an answer, or what a chunk adds to it; what is new of the captures.

        Text outside of the format is an `error`.
        """
        self._text.append(choice.text)
        self._tokens.extend(choice.token_ids)
        self._chosen.extend(map(self._entry, choice.scores))
        self._refusal += choice.refusal
        self._usage = choice.usage or self._usage
        if self._parts is not None:
            self._parts.add(choice)
        if self.formatter is None or self.error is not None or not choice.text or self._parts is not None:
            return []
        self._accept(self.formatter, self._without_blanks(choice.text))
        with self._ended_by_errors():
            return self.formatter.events()
        return []

    @property
    def has_usage(self) -> bool:
        """Tell whether the server has sent the number of tokens."""
        return self._usage is not None

    def new_scores(self) -> tuple[ChosenToken, ...]:
        """Take what is new of the tokens' log-probabilities."""
        new = tuple(self._chosen[self._told_scores :])
        self._told_scores = len(self._chosen)
        return new

    def new_values(self, prompt: int, sample: int, wanted: StreamedValues) -> list[GenerationEvent]:
        """Take what is new of the value, as far as text has come; chat answers are read at their end."""
        if wanted and self.formatter is not None and self.error is None and self._parts is None:
            with self._ended_by_errors():
                return list(value_events(self.formatter, prompt, sample, wanted))
        return []

    def finish(self, reason: str | None, stop_reason: str | int | None = None) -> Generated:
        """Return the output, given the server's finish reason.

        Args:
            reason: `finish_reason`; None if the connection broke.
            stop_reason: vLLM's reason: the stop string that ended the output, or the id of the token.
        """
        self.is_over = True
        if self._refusal:
            self.error = IncompleteResult(ended="error", missing=f"the model refused: {self._refusal}")
        self._accept_parts()
        can_stop = self._can_stop()
        if self.formatter is not None and self.error is None and not can_stop:
            self._accept(self.formatter, self._blanks)  # within the value, whose rest is missing
        stopped: Ended = "error"
        if self.error is not None:
            pass
        elif reason == "length":
            stopped = "length"
        elif reason == "stop" and isinstance(stop_reason, str):
            stopped = "stop_string"
        elif reason not in ("stop", "tool_calls"):
            self.error = IncompleteResult(ended="error", missing=f"the server ended the answer because of {reason!r}")
        elif self.formatter is not None and not can_stop:
            self.error = IncompleteResult(ended="end", missing=str(self.formatter.result("end").missing))
        else:
            stopped = "end"
        parsed = self._result(stopped)
        text = "".join(self._text)
        return Generated(
            tuple(self._tokens),
            text.encode("utf-8", "surrogatepass"),
            "error" if self.error is not None else stopped,
            self.error,
            tuple(self._chosen),
            prompt=self._prompt,
            parsed=parsed,
            server_usage=self._usage,
        )

    def fail(self, error: BaseException) -> Generated:
        """Return the output of a failed request."""
        self.error = self.error or error
        return self.finish(None)

    def _accept_parts(self) -> None:
        if self._parts is not None and self.formatter is not None and self.error is None:
            with self._ended_by_errors():
                self._accept(self.formatter, self._parts.text())

    def _can_stop(self) -> bool:
        with self._ended_by_errors():
            return self.formatter is None or self.formatter.can_stop
        return False

    @contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        """End this output with an error raised in the block, such as a limit, unless it has ended before."""
        try:
            yield
        except FormatterError as error:
            self.error = self.error or error

    def _result(self, ended: Ended) -> Result | None:
        if self.formatter is None:
            return None
        try:
            found = self.formatter.result(ended)
        except FormatterError as error:  # a limit: nothing more can be found out about this text
            self.error = self.error or error
            empty = self.formatter.fork()
            empty.reset()
            found = replace(empty.result("error"), bytes=self.formatter.bytes)
        # An output with an error is never complete, even if a complete text precedes the error.
        return found if self.error is None else replace(found, cause=self.error)

    def _without_blanks(self, text: str) -> str:
        """Return the text of a JSON value without optional whitespace.

        This is the whitespace around the value, and beside brackets, commas and colons if it is free there. Whitespace
        at the end of the text waits for what follows.
        """
        if not self._is_json:
            return text
        kept: list[str] = []
        for character in text:
            if not self._in_string and character in _BLANKS:
                self._blanks += character
                continue
            if self._blanks:
                is_free = self._drops_blanks and (self._last in "{[,:" or character in "}],:")
                if not self._last or is_free:
                    self._dropped.append((self._kept_bytes, len(self._blanks)))
                else:
                    kept.append(self._blanks)
                    self._kept_bytes += len(self._blanks)
                self._blanks = ""
            kept.append(character)
            self._kept_bytes += len(character.encode("utf-8", "surrogatepass"))
            if self._in_string and not self._is_escaped:
                self._in_string, self._is_escaped = character != '"', character == "\\"
            else:
                self._in_string, self._is_escaped = self._in_string or character == '"', False
            self._last = character
        return "".join(kept)

    def _accept(self, formatter: Formatter, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        with self._ended_by_errors():
            try:
                if data:
                    formatter.accept_bytes(data)
            except TokenRejected:
                self.error = self._left_at(formatter, data)

    def _left_at(self, formatter: Formatter, data: bytes) -> TokenRejected:
        """Take what is still in the format; what is wrong with the rest."""
        taken = 0
        with suppress(FormatterError):
            for taken, byte in enumerate(data):  # noqa: B007 - needed where the loop ends by the exception
                formatter.accept_bytes(bytes([byte]))
        position = len(formatter.bytes)
        position += sum(count for at, count in self._dropped if at <= position)
        rest = data[taken:]
        if self._parts is None:  # as the server sent it
            rest = "".join(self._text).encode("utf-8", "surrogatepass")[position:]
        shown = rest[:40].decode("utf-8", "replace")
        return TokenRejected(None, position=position, reason=f"the server's answer continues with {shown!r}")

    def _entry(self, token: ScoredToken) -> ChosenToken:
        score, top = token
        rank = next((one.rank for one in top if (one.token_id, one.bytes) == (score.token_id, score.bytes)), None)
        nothing, found = (None, (), None), (score.logprob, top, rank)
        masked, raw = (found if is_told else nothing for is_told in (self._processed, self._raw))
        return ChosenToken(score.token_id, masked[0], raw[0], masked[1], raw[1], masked[2], raw[2], score.bytes)
