"""One sequence of a scheduler: from logits to a token, and from a token to text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Vocabulary
from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.generation import ChosenToken, Generated, Sampler, Stopped, chosen_token, top_tokens
from formatter_core.generation.forced import only_id
from formatter_core.generation.stopping import TextStream, cut_back
from formatter_core.runtime.result import Event
from formatter_llama_cpp.masks import Mask
from formatter_llama_cpp.requests import Request

__all__ = ["Sample"]


@dataclass(eq=False)
class Sample:
    """One sequence of a request. `output` is None until it is finished.

    `sampler` chooses its tokens, from masked logits; another function may be put in its place.
    """

    request: Request
    index: int
    sampler: Sampler
    cursor: Cursor | None
    mask: Mask | None
    text: TextStream
    output: Generated | None = None
    tokens: list[int] = field(default_factory=list)
    slot: int | None = None  # its number in the context, while it runs
    pending: list[int] = field(default_factory=list)  # what is to be decoded
    chosen: list[ChosenToken] = field(default_factory=list)
    passed_over: int = 0  # how often others were admitted in its stead

    def prepare(self) -> None:
        """Make the mask for the next token.

        Raises:
            Exception: whatever keeps the sequence from going on.
        """
        if self.cursor is not None and self.mask is not None:
            self.mask.fill(self.cursor)

    def choose(self, logits: NDArray[np.single]) -> int:
        """The next token; the logits are masked in place.

        Raises:
            Exception: whatever goes wrong with this sequence.
        """
        request = self.request
        unmasked = None if request.top is None else logits.copy()
        if request.logits_processors:
            ids = np.array([*request.prompt, *self.tokens], dtype=np.intc)
            for process in request.logits_processors:
                logits[:] = process(ids, logits)
        if self.cursor is not None and self.mask is not None:
            self.mask.write(self.cursor, logits)
        elif not logits.max() > -np.inf:
            raise FormatterError("the model's logits are not numbers, so no token can be chosen; check the model file")
        token = self.sampler(logits)
        if not 0 <= token < len(logits):  # llama.cpp would read past its tables
            raise InvalidArgument(f"the sampler took {token}, but the model has the tokens 0 to {len(logits) - 1}")
        if unmasked is not None:
            both = np.stack([logits, unmasked])
            self.chosen.append(chosen_token(*top_tokens(both, request.top or 0, chosen=[token] * 2, rank=False)))
        return token

    def append(self, token: int, vocabulary: Vocabulary) -> tuple[str, tuple[Event, ...]]:
        """Go on with a token; what is new of the text and of the captures.

        Raises:
            Exception: whatever goes wrong with this sequence; the token is then not part of it.
        """
        if self.cursor is not None and self.mask is not None:
            self.cursor.append(token)
            if not self.mask.has(token) and self.cursor.error is not None:
                raise self.cursor.error
        text = self.text.add(vocabulary.text_token(token) or b"")
        if self.cursor is not None and self.text.is_stopped:
            cut_back(self.cursor.formatter, self.text.bytes)
        events = () if self.text.holds_back else self.events()
        self.tokens.append(token)
        self.pending.append(token)
        return text, events

    def stopped(self, token: int, vocabulary: Vocabulary) -> Stopped | None:
        """Why the sequence is finished after its last token; None where it goes on."""
        if self.text.is_stopped:
            return "stop_string"
        if token in vocabulary.end_ids:
            return "end"
        return "length" if len(self.tokens) >= self.request.max_tokens else None

    def only_token(self) -> int | None:
        """The token that must follow, where the format allows exactly one; for scores the model is asked anyway."""
        request = self.request
        if self.mask is None or request.forced_text == "off" or request.top is not None:
            return None
        return only_id(self.mask.row)

    def events(self) -> tuple[Event, ...]:
        """What is new of the captures, where that was asked for."""
        if self.cursor is None or not self.request.has_events:
            return ()
        return tuple(self.cursor.formatter.events())

    def finish(self, stopped: Stopped, error: Exception | None) -> tuple[str, tuple[Event, ...]]:
        """Set `output`; the last of the text and of the captures."""
        text = self.text.finish()
        events: tuple[Event, ...] = ()
        if error is None:
            try:
                if self.cursor is not None and self.cursor.error is not None:  # the last token is accepted only now
                    raise self.cursor.error
                events = self.events()
            except Exception as fault:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
                stopped, error = "error", fault
        self.output = Generated(
            tuple(self.tokens),
            self.text.bytes,
            stopped,
            error,
            tuple(self.chosen),
            None if self.cursor is None else self.cursor.formatter,
            self.request.prompt,
        )
        return text, events
