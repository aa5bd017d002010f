"""The mlx adapter, called as mlx-lm's loops call a logits processor: one sequence, or the rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from formatter_core import Compiler
from formatter_core.errors import WrongModel
from tests.adapters.contract import END, OTHER_END, PAD, WIDTH, Request, Session

PROMPT = [PAD, ord("p"), ord("0")]
_NEVER = {
    "own ends": "the ends are those of the tokenizer, or of create_logits_processor",
    "preemption": "mlx-lm never takes a sequence out and brings it back",
}


class SequenceSession(Session):
    """A processor for each row, in a loop of one's own, which may also take tokens back."""

    cannot = _NEVER

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_mlx import FormatterLogitsProcessor

        self._processors = [
            None if request.format is None else FormatterLogitsProcessor(compiler.compile(request.format))
            for request in requests
        ]
        self._refused: dict[int, Exception] = {}
        self._has_begun = False

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        if not self._has_begun and any(kept):  # a processor is always shown the prompt alone first
            self.masks([[]] * len(kept))
        self._has_begun = True
        return [self._mask(row, list(tokens), width) for row, tokens in enumerate(kept)]

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        return [self._mask(0, [*kept, *drafts[:count]], WIDTH) for count in range(len(drafts) + 1)]

    def errors(self) -> Mapping[int, Exception]:
        found = {row: each.errors[0] for row, each in enumerate(self._processors) if each is not None and each.errors}
        return {**found, **self._refused}

    def result(self, row: int) -> Any:
        return self._processors[row].result()

    def reuse(self) -> Any:
        import mlx.core as mx

        self._processors[0](mx.array([PAD]), mx.array(np.zeros((1, WIDTH), dtype=np.float32)))

    def _mask(self, row: int, tokens: list[int], width: int) -> set[int]:
        import mlx.core as mx

        logits = mx.array(np.zeros((1, width), dtype=np.float32))
        processor = self._processors[row]
        if processor is not None:
            try:
                logits = processor(mx.array([*PROMPT, *tokens]), logits)
            except WrongModel as error:  # which ends a loop that runs one sequence
                self._refused[row] = error
                return set()
        return finite(np.array(logits)[0])


class BatchSession(Session):
    """One processor for the rows of a `BatchGenerator`, of which a row may leave and another come."""

    cannot: ClassVar = {
        **_NEVER,
        **dict.fromkeys(
            ("several", "shrinking", "cleared", "drafts", "placeholders"),
            "a batch shows each token that it keeps, one after the other",
        ),
        "result": "a batch is read by results, which give each row its error",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_mlx import FormatterLogitsProcessor
        from tests.adapters.mlx_stand_ins import BatchGenerator

        self._processor = FormatterLogitsProcessor(
            [None if request.format is None else compiler.compile(request.format) for request in requests]
        )
        self._batches = [BatchGenerator([[self._processor]] * len(requests)) for _ in range(2)]
        self._shown: list[list[int]] = []

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        # Each length between is a step of its own.
        longest = max(map(len, kept))
        first = len(self._shown[0]) + 1 if self._shown else 0
        for count in range(min(first, longest), longest + 1):
            self._shown = [list(row[:count]) for row in kept]
            shown = [[*PROMPT, *row] for row in self._shown]
            logits = self._batches[0].next(shown, np.zeros((len(kept), width), dtype=np.float32))
        return [finite(row) for row in logits]

    def errors(self) -> Mapping[int, Exception]:
        if self._processor._misuse is not None:
            return {0: self._processor._misuse}
        return self._processor.errors

    def result(self, row: int) -> Any:
        return self._processor.result()

    def reuse(self) -> Any:
        """The row of another batch may only end, for an exception would end its neighbours."""
        rows = self._batches[1].next([PROMPT], np.zeros((1, WIDTH), dtype=np.float32))
        assert finite(rows[0]) == {END, OTHER_END}
        end = SimpleNamespace(uid=0, token=END, finish_reason="stop", all_tokens=[*PROMPT, END])
        return self._processor.result(end)


def finite(logits: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.isfinite(logits)).tolist())
