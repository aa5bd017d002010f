"""The transformers adapter, called as the loops of `generate` call a logits processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from tests.adapters.contract import PAD, WIDTH, Request, Session
from tests.adapters.transformers_loops import Processor, generate, provide_transformers

provide_transformers()

from formatter_core import Compiler  # noqa: E402
from formatter_transformers import FormatterLogitsProcessor  # noqa: E402


class TransformersSession(Session):
    cannot: ClassVar = {
        "preemption": "generate never takes a row out of its batch",
        "placeholders": "generate passes ids that were sampled, never placeholders",
        "own ends": "one call of generate has one set of end ids, which are the vocabulary's",
        "not called": "results takes sequences, and says of others that they are not its own",
        "off the format": "generate passes such a token only as a draft, which it then takes back",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        formats = [None if request.format is None else compiler.compile(request.format) for request in requests]
        self._processor = FormatterLogitsProcessor(formats)
        self._prompts = [[PAD, ord("p"), ord("0") + row] for row in range(len(requests))]
        generate(self._begin, self._processor)

    def _begin(self, processors: Processor) -> None:
        self._processors = processors
        self.masks([[]] * len(self._prompts))

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        rows = torch.tensor([[*prompt, *tokens] for prompt, tokens in zip(self._prompts, kept, strict=True)])
        scores = torch.linspace(-3, 3, width).repeat(len(rows), 1)
        masked = self._processors(rows, scores)
        return [set(row.isfinite().nonzero().flatten().tolist()) for row in masked]

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        return [self.masks([[*kept, *drafts[:count]]])[0] for count in range(len(drafts) + 1)]

    def errors(self) -> Mapping[int, Exception]:
        return self._processor.errors

    def reuse(self) -> Any:
        generate(self._begin, self._processor)
