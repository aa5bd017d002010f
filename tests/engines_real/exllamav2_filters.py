"""Filters of other kinds, and a grammar engine that fails, for the scenarios of ExLlamaV2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from exllamav2.generator.filters import ExLlamaV2Filter

from examples import exllamav2_simulated as simulated
from formatter_core.errors import LimitExceeded
from formatter_exllamav2 import create_vocabulary
from tests.adapters.contract import FailingEngine


class FailsOnce(FailingEngine):
    """A grammar engine that fails at the fourth token, the first time."""

    def check(self, method: str, steps: int) -> None:
        try:
            super().check(method, steps)
        except LimitExceeded:
            self._after = sys.maxsize
            raise


class Naive(ExLlamaV2Filter):  # type: ignore[misc]
    """Does what comes to mind first: allows the ids given, in that order, and masks or lists them."""

    def __init__(
        self, made: simulated.Parts, allowed: Sequence[int], *, masks: bool = False, background: bool = True
    ) -> None:
        super().__init__(made.model, made.tokenizer)
        self._allowed, self._masks, self._background = list(allowed), masks, background

    def begin(self, prefix_str: Any) -> None: ...

    def feed(self, token: Any) -> None: ...

    def next(self) -> Any:
        return self._allowed, []

    def use_background_worker(self) -> bool:
        return self._background

    def can_mask_logits(self) -> bool:
        return self._masks

    def prepare_logit_mask(self) -> bool:
        return True

    def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
        masked = torch.full_like(logits, -torch.inf)
        masked[self._allowed] = logits[self._allowed]
        return masked


class OwnMask(Naive):
    """A filter that bans digits, by a mask made in the foreground where the release has masks."""

    def __init__(self, made: simulated.Parts, *, masks: bool, background: bool) -> None:
        tokens = create_vocabulary(made.tokenizer).tokens
        digits = {n for n, data in enumerate(tokens) if data and any(byte in b"0123456789" for byte in data)}
        super().__init__(made, sorted({*range(len(tokens))} - digits), masks=masks, background=background)

    def next(self) -> Any:
        return set(self._allowed), set()
