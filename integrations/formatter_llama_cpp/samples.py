"""One sequence of a scheduler: from logits to a token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from formatter_core import bitmask
from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.generation import Generated, Sampler, chosen_token, top_tokens
from formatter_core.generation.forced import only_id
from formatter_core.generation.written import Written
from formatter_llama_cpp.masks import apply_row
from formatter_llama_cpp.requests import Request, Update

__all__ = ["Sample"]


@dataclass(eq=False, kw_only=True)
class Sample(Written):
    """One sequence of a request. `output` is None until it is finished.

    `sampler` chooses its tokens, from masked logits; another function may be put in its place.
    """

    request: Request
    index: int
    sampler: Sampler
    bits: NDArray[np.int32]
    output: Generated | None = None
    slot: int | None = None  # its number in the context, while it runs
    passed_over: int = 0  # how often other samples were admitted before it
    cached: int = 0  # how much of its prompt was in the context already

    @property
    def forces(self) -> bool:
        """Tell whether forced text is taken without the model; scores need the model for every token."""
        return self.cursor is not None and self.request.forced_text != "off" and self.request.top is None

    def prepare(self) -> None:
        """Make the mask for the next token."""
        if self.cursor is not None and self.stopped is None:
            self.cursor.fill_bitmask(self.bits)
            self.check()

    def choose(self, logits: NDArray[np.single]) -> int:
        """Choose the next token; the logits are masked in place.

        Raises:
            Exception: the error of this sequence.
        """
        request, cursor = self.request, self.cursor
        unmasked = None if request.top is None else logits.copy()
        if request.logits_processors:
            ids = np.array([*request.prompt, *self.tokens], dtype=np.intc)
            for process in request.logits_processors:
                logits[:] = process(ids, logits)
        if cursor is not None:
            apply_row(cursor, self.bits, logits)
        elif not logits.max() > -np.inf:
            raise FormatterError("the model's logits are not numbers, so no token can be chosen; check the model file")
        token = self.sampler(logits)
        if not 0 <= token < len(logits):  # llama.cpp would read past its tables
            raise InvalidArgument(f"the sampler took {token}, but the model has the tokens 0 to {len(logits) - 1}")
        if cursor is not None and not bitmask.get(self.bits, token):
            cursor.append(token)
            if cursor.error is not None:
                raise cursor.error
        if unmasked is not None:
            both = np.stack([logits, unmasked])
            self.chosen.append(chosen_token(*top_tokens(both, request.top or 0, chosen=[token] * 2, rank=False)))
        return token

    def only_token(self) -> int | None:
        """Return the token that must follow if the format allows exactly one."""
        return only_id(self.bits) if self.forces and self.stopped is None else None

    def update(self, token: int | None) -> Update:
        """Return the update since the previous one; the last update of a sample has no token, and the output."""
        events = self.new_events() if self.request.has_events else []
        if token is None:
            self.output = replace(self.generated(), cached_tokens=self.cached)
        chosen = None if token is None or not self.chosen else self.chosen[-1]
        return Update(self, token, self.new_text(), tuple(events), self.output, chosen)
