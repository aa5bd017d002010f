"""The llama.cpp adapter, called as llama-cpp-python calls a logits processor, or a sampler in its chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from formatter_core import Compiler
from tests.adapters.contract import PAD, WIDTH, Request, Session
from tests.adapters.llama_cpp_stand_ins import ITERATED, LIST_CALLED, Llama, candidates_of

_NEVER = {
    "preemption": "a Llama object runs one sequence and never takes it out",
    "placeholders": "llama.cpp passes ids that were sampled, never placeholders",
    "own ends": "the ends are those of the loaded model, or of create_logits_processor",
}


class ProcessorSession(Session):
    """A processor that is iterated, with a strided array, as newer releases call it."""

    cannot: ClassVar = {
        **_NEVER,
        "reused": "it serves one request after the other, which it tells apart",
        "shrinking": "no token is ever taken back: a list that is shorter is the prompt of another request",
        "drafts": "a processor is called once for each token that is kept; drafts only stand behind it in the list",
    }

    version = ITERATED

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_llama_cpp import FormatterLogitsProcessor

        self._llamas = [Llama(self.version) for _ in requests]
        self._hooks = [
            None if request.format is None else FormatterLogitsProcessor(llama, compiler.compile(request.format))
            for llama, request in zip(self._llamas, requests, strict=True)
        ]
        self._is_iterated = self.version == ITERATED
        self._has_begun = False

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        if not self._has_begun and any(kept):  # a processor is always shown the prompt alone first
            self._has_begun = True
            self.masks([[]] * len(kept))
        self._has_begun = True
        masks = []
        for row, (processor, tokens) in enumerate(zip(self._hooks, kept, strict=True)):
            ids = np.array([PAD, ord("p"), ord("0") + row, *tokens], dtype=np.intc)
            # The newer releases give every third float of an array.
            scores = np.zeros(3 * width, dtype=np.single)[:: 3 if self._is_iterated else 1][:width]
            if processor is not None and self._is_iterated:
                for each in processor:
                    scores[:] = each(ids, scores)
            elif processor is not None:
                scores[:] = processor(ids, scores)
            masks.append(set(np.flatnonzero(np.isfinite(scores)).tolist()))
        return masks


class ListCalledSession(ProcessorSession):
    """A processor that older releases call in a list, with a usual array."""

    version = LIST_CALLED


class SamplerSession(Session):
    """The grammar hook: its `apply` and `accept`, as a chain calls them."""

    cannot: ClassVar = {
        **_NEVER,
        "narrow": "a chain gives it candidates, as many as samplers before it have left",
        "shrinking": "a chain accepts tokens and is reset, it takes nothing back",
        "drafts": "a chain samples one token after the other",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_llama_cpp import FormatterSampler

        self._hooks: list[Any] = [
            None if request.format is None else FormatterSampler(compiler.compile(request.format))
            for request in requests
        ]
        self._kept: list[list[int]] = [[] for _ in requests]

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        import ctypes

        masks = []
        for row, (sampler, tokens) in enumerate(zip(self._hooks, kept, strict=True)):
            array, data = candidates_of(np.zeros(width, dtype=np.single))
            if sampler is not None:
                if len(tokens) < len(self._kept[row]):
                    sampler.reset()
                    self._kept[row] = []
                for token in tokens[len(self._kept[row]) :]:
                    sampler.accept(token)
                self._kept[row] = list(tokens)
                sampler.apply(ctypes.pointer(array))
            left = data[: array.size]
            finite = set(left["id"][np.isfinite(left["logit"])].tolist())
            # One end is enough to end a sequence; the contract speaks of all of them.
            ends = set(sampler.formatter.end_ids) if sampler is not None and sampler.error else set()
            masks.append(finite | ends)
        return masks

    def reuse(self) -> Any:
        for _ in range(2):
            self._hooks[0].native()
