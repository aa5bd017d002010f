"""What is asked of a scheduler, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor
from formatter_core.errors import PromptTooLong
from formatter_core.generation import ChosenToken, Generated, Sampler
from formatter_core.generation.stopping import TextStream
from formatter_core.runtime.result import Event
from formatter_llama_cpp.masks import Mask

__all__ = ["PromptTooLong", "Request", "Sample", "Update"]


@dataclass(eq=False)
class Request:
    """A prompt that was submitted. `samples` are its sequences, in order."""

    prompt: tuple[int, ...]
    format: CompiledFormat | None
    max_tokens: int
    top: int | None
    tells_events: bool
    samples: list[Sample] = field(default_factory=list)
    prompt_logits: NDArray[np.single] | None = None  # of the last token of the prompt, while samples wait for it

    @property
    def is_finished(self) -> bool:
        """Whether all samples are."""
        return all(sample.output is not None for sample in self.samples)


@dataclass(eq=False)
class Sample:
    """One sequence of a request. `output` is None until it is finished."""

    request: Request
    index: int
    sampler: Sampler
    cursor: Cursor | None
    mask: Mask | None
    text: TextStream
    output: Generated | None = None
    tokens: list[int] = field(default_factory=list)
    place: int | None = None  # its number in the context
    pending: list[int] = field(default_factory=list)  # taken, but not decoded
    chosen: list[ChosenToken] = field(default_factory=list)

    @property
    def unwritten(self) -> int:
        """How many cells it may still need."""
        return len(self.pending) + self.request.max_tokens - len(self.tokens)


@dataclass(frozen=True, slots=True)
class Update:
    """What one step brought to one sample.

    Attributes:
        token_id: the token that was taken; None where it was finished without one.
        text: what is new of its text, in whole characters, and never a part of a stop string.
        events: what is new of its captures, where they were asked for; they wait as the text does.
        output: the whole outcome, once it is finished.
    """

    sample: Sample
    token_id: int | None
    text: str = ""
    events: tuple[Event, ...] = ()
    output: Generated | None = None
