"""One output while it is written: what a token adds to it, where it ends, and what comes out."""

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
    """The error of a sequence that cannot go on because of its logits or its sampler."""
    return FormatterError(
        "no token can be chosen: the model's logits are not numbers, or the sampler took a token that is not allowed; "
        "check the model and the sampler"
    )


@dataclass(eq=False)
class Written:
    """One output while it is written.

    Attributes:
        before: the ids of its prompt.
        room: how many new tokens there may be.
        cursor: its state; None without a format.
        tokens: the new tokens.
        chosen: what was asked about them.
        pending: the last of them, which are not computed yet.
        stopped: how it ended, once it has.
        error: what ended it, if something went wrong.
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
        """Go on with a token that the format allows; it may be the last one."""
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
        """`canonical_tokens` for what must follow."""
        if self.cursor is not None and self.stopped is None:
            try:
                return canonical_tokens(self.cursor.formatter, encode, self.room - len(self.tokens))
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
                self.fail(error)
        return []

    def stop(self, stopped: Stopped) -> None:
        """End this sequence; what was held back of its text belongs to it."""
        self.stopped = stopped
        self.unreported_text += self.text.finish()

    def fail(self, error: Exception) -> None:
        """End this sequence with a cause; the others continue."""
        self.error = error
        self.stop("error")
        logger.warning("sequence ended after %d tokens: %s", len(self.tokens), error)

    def check(self) -> None:
        """End this sequence if its cursor has failed, for example at its last token."""
        if self.error is None and self.cursor is not None and self.cursor.error is not None:
            self.fail(self.cursor.error)

    def new_text(self) -> str:
        """What is new of the text: whole characters, and never a part of a stop string."""
        text, self.unreported_text = self.unreported_text, ""
        return text

    def new_events(self) -> list[Event]:
        """What is new of the captures; they wait as the text does."""
        self.check()
        if self.cursor is not None and self.error is None and not self.text.holds_back:
            try:
                return self.cursor.formatter.events()
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return []

    def new_values(self, prompt: int, sample: int, wanted: StreamedValues) -> list[GenerationEvent]:
        """Take what is new of the value; it waits as the text does."""
        if wanted and self.cursor is not None and self.error is None and not self.text.holds_back:
            try:
                return list(value_events(self.cursor.formatter, prompt, sample, wanted))
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return []

    def generated(self) -> Generated:
        """What came out."""
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
