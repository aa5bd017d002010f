"""Requests to a scheduler, and its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat
from formatter_core.errors import PromptTooLong
from formatter_core.generation import ChosenToken, Generated
from formatter_core.generation.forced import ForcedText
from formatter_core.runtime.result import Event

if TYPE_CHECKING:
    from formatter_llama_cpp.samples import Sample

__all__ = ["PromptTooLong", "Request", "Update"]


@dataclass(eq=False)
class Request:
    """A prompt that was submitted. `samples` are its sequences, in order."""

    prompt: tuple[int, ...]
    format: CompiledFormat | None
    max_tokens: int
    top: int | None
    has_events: bool
    forced_text: ForcedText = "exact"
    logits_processors: tuple[Callable[[NDArray[np.intc], NDArray[np.single]], Any], ...] = ()
    samples: list[Sample] = field(default_factory=list)
    prompt_logits: NDArray[np.single] | None = None  # of the last token of the prompt, while samples wait for it

    @property
    def is_finished(self) -> bool:
        """Tell whether all samples are finished."""
        return all(sample.output is not None for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one step for one sample.

    Attributes:
        token_id: the chosen token; None if the sample was finished without one.
        text: the new text, in whole characters, and never part of a stop string.
        events: the new events of captures, if they were requested; they are held back like the text.
        output: the whole output, once the sample is finished.
        chosen: the token's log-probabilities and the best tokens in its place, if they were requested.
    """

    sample: Sample
    token_id: int | None
    text: str = ""
    events: tuple[Event, ...] = ()
    output: Generated | None = None
    chosen: ChosenToken | None = None
