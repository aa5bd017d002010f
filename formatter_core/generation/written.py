"""Build one output token by token: its new text, its end, and the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from formatter_core.errors import FormatterError
from formatter_core.generation.forced import canonical_tokens
from formatter_core.generation.models import GenerationEvent, StreamedValues
from formatter_core.generation.results import ChosenToken, Generated, Stopped
from formatter_core.generation.stopping import TextStream, cut_back
from formatter_core.generation.streamed import value_events
from formatter_core.runtime.cursor import Cursor
from formatter_core.runtime.result import Event
from formatter_core.vocabulary import Vocabulary

__all__ = ["Written", "no_token"]

logger = logging.getLogger(__name__)


def no_token() -> FormatterError:
    """Return the error of a sequence that cannot continue because of its logits or its sampler."""
    return FormatterError(
        "no token can be chosen: the model's logits are not numbers, or the sampler took a token that is not allowed; "
        "check the model and the sampler"
    )


@dataclass(eq=False)
class Written:
    """An output while it is written.

    Attributes:
        before: the ids of its prompt.
        room: the maximum number of new tokens.
        cursor: its format state; None without a format.
        tokens: the new tokens.
        chosen: the requested scores of the tokens.
        pending: the last of the tokens, which the model has not computed yet.
        stopped: why it ended; None while it is open.
        error: the error that ended it, if there was one.
    """

    before: tuple[int, ...]
    room: int
    cursor: Cursor | None
    text: TextStream
    tokens: list[int] = field(default_factory=list)
    chosen: list[ChosenToken] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    stopped: Stopped | None = None
    error: Exception | None = None
    unreported_text: str = ""

    def take(self, token: int, vocabulary: Vocabulary, stop_ids: Collection[int] = ()) -> None:
        """Continue with a token that the format allows; it may be the last one."""
        if self.cursor is not None:
            self.cursor.append(token)
        self.tokens.append(token)
        self.pending.append(token)
        if token in vocabulary.end_ids:
            self.stop("end")
        elif token in stop_ids:
            self.stop("stop_token")
        else:
            self.unreported_text += self.text.add(vocabulary.text_token(token) or b"")
            if self.text.is_stopped:
                self.stop("stop_string")
                if self.cursor is not None:
                    cut_back(self.cursor.formatter, self.text.bytes)
            elif len(self.tokens) >= self.room:
                self.stop("length")

    def canonical(self, encode: Callable[[bytes], list[int] | None]) -> list[int]:
        """Return `canonical_tokens` for the text that must follow."""
        if self.cursor is not None and self.stopped is None:
            try:
                return canonical_tokens(self.cursor.formatter, encode, self.room - len(self.tokens))
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
                self.fail(error)
        return []

    def stop(self, stopped: Stopped) -> None:
        """End this sequence; text that was held back becomes part of it."""
        self.stopped = stopped
        self.unreported_text += self.text.finish()

    def fail(self, error: Exception) -> None:
        """End this sequence with an error; the other sequences continue."""
        self.error = error
        self.stop("error")
        logger.warning("sequence ended after %d tokens: %s", len(self.tokens), error)

    def check(self) -> None:
        """End this sequence if its cursor has failed, for example at its last token."""
        if self.error is None and self.cursor is not None and self.cursor.error is not None:
            self.fail(self.cursor.error)

    def new_text(self) -> str:
        """Return the new text: whole characters, and never a part of a stop string."""
        text, self.unreported_text = self.unreported_text, ""
        return text

    def new_events(self) -> list[Event]:
        """Return the new events of captures; they wait until their text is certain."""
        self.check()
        if self.cursor is not None and self.error is None and not self.text.holds_back:
            try:
                return self.cursor.formatter.events()
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return []

    def new_values(self, prompt: int, sample: int, wanted: StreamedValues) -> list[GenerationEvent]:
        """Yield the new events of the value; they wait until their text is certain."""
        if wanted and self.cursor is not None and self.error is None and not self.text.holds_back:
            try:
                return list(value_events(self.cursor.formatter, prompt, sample, wanted))
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return []

    def generated(self) -> Generated:
        """Return the finished output."""
        self.check()
        formatter = None if self.cursor is None else self.cursor.formatter
        return Generated(
            tuple(self.tokens),
            self.text.bytes,
            self.stopped or "cancelled",
            self.error,
            tuple(self.chosen),
            formatter,
            self.before,
        )
