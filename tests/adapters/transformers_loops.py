"""The loops of transformers' `generate`, as far as a logits processor can tell, on a model that is a hash.

Where transformers itself is absent, `provide_transformers` puts the two names that the adapter imports in its place.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Result = TypeVar("Result")


def provide_transformers() -> None:
    if importlib.util.find_spec("transformers") is None and "transformers" not in sys.modules:
        module = types.ModuleType("transformers")
        module.__version__ = "4.46.0"
        module.LogitsProcessor = type("LogitsProcessor", (), {})
        module.LogitsProcessorList = _List
        module.GenerationConfig = type("GenerationConfig", (), {"stop_strings": None})
        sys.modules["transformers"] = module


class _List(list):
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class _Config:
    def __init__(self, mode: str) -> None:
        self._mode = mode

    def get_generation_mode(self, assistant_model: object = None) -> object:
        return types.SimpleNamespace(value=self._mode)


def generate(
    decode: Callable[[Processor], Result], *processors: Processor, mode: str = "sample", model: object = None
) -> Result:
    """Run a loop as `generate` does: with a list of processors of its own, kept under this name, of a model `self`."""
    from transformers import LogitsProcessorList

    prepared_logits_processor = LogitsProcessorList(processors)
    self, generation_config = model, _Config(mode)  # noqa: F841 - looked up here
    return decode(prepared_logits_processor)


class CandidateGenerator:
    """A source of drafts, as in assisted generation."""

    def __init__(self, draft: Callable[[list[int]], list[int]]) -> None:
        self._draft = draft

    def get_candidates(self, row: list[int]) -> list[int]:
        return self._draft(row)


@dataclass
class Loops:
    """A model whose logits depend on a row's tokens alone, so that every loop can be compared with every other."""

    width: int
    end_ids: Sequence[int]
    pad_id: int
    max_new_tokens: int = 200
    seed: int = 0
    temperature: float = 1.0
    before: Sequence[Processor] = field(default_factory=tuple)  # what generate puts in front of the user's processors
    after: Sequence[Processor] = field(default_factory=tuple)

    def logits(self, input_ids: torch.Tensor) -> torch.Tensor:
        def of_row(row: list[int]) -> torch.Tensor:
            generator = torch.Generator().manual_seed(hash((self.seed, *row)) % 2**31)
            return torch.randn(self.width, generator=generator) * 3

        return torch.stack([of_row(row) for row in input_ids.tolist()])

    def scores(self, processors: Processor, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        given = logits.clone()
        processed = processors(input_ids, logits)
        assert torch.equal(logits, given), "the scores were edited in place; generate returns them as its logits"
        return processed

    def generate(
        self, processor: Processor, prompts: torch.Tensor, *, returned: int = 1, sample: bool = False
    ) -> torch.Tensor:
        """Greedy search or sampling; finished rows are padded."""

        def decode(processors: Processor) -> torch.Tensor:
            return self._generate(processors, prompts.repeat_interleave(returned, dim=0), sample)

        return generate(decode, *self.before, processor, *self.after)

    def _generate(self, processors: Processor, rows: torch.Tensor, sample: bool) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        unfinished = torch.ones(len(rows), dtype=torch.bool)
        for _ in range(self.max_new_tokens):
            scores = self.scores(processors, rows, self.logits(rows))
            if sample:
                chosen = torch.multinomial((scores / self.temperature).softmax(-1), 1, generator=generator).squeeze(1)
            else:
                chosen = scores.argmax(-1)
            chosen = torch.where(unfinished, chosen, self.pad_id)
            rows = torch.cat([rows, chosen[:, None]], dim=1)
            unfinished &= ~torch.isin(chosen, torch.tensor(self.end_ids))
            if not unfinished.any():
                break
        return rows

    def beams(
        self, processor: Processor, prompts: torch.Tensor, *, beams: int, groups: int = 1, refill: bool = False
    ) -> torch.Tensor:
        """Return the first beam of each prompt that ends.

        Rows change places; with several groups, each group has calls of its own. With `refill`, the rows of a prompt
        that is done are copies of the first row, whatever its prompt, as in transformers 4.
        """

        def decode(processors: Processor) -> torch.Tensor:
            return self._beams(processors, prompts, beams, groups, refill)

        return generate(decode, *self.before, processor, *self.after, mode="beam_search")

    def _beams(
        self, processors: Processor, prompts: torch.Tensor, beams: int, groups: int, refill: bool
    ) -> torch.Tensor:
        states = [prompts.repeat_interleave(beams, dim=0).view(len(prompts), beams, -1) for _ in range(groups)]
        totals = [torch.full((len(prompts), beams), -1e9) for _ in range(groups)]
        for total in totals:
            total[:, 0] = 0
        ended: dict[int, torch.Tensor] = {}
        for _ in range(self.max_new_tokens):
            for group in range(groups):
                flat = states[group].flatten(0, 1)
                scores = self.scores(processors, flat, self.logits(flat).log_softmax(-1))
                summed = totals[group][:, :, None] + scores.view(len(prompts), beams, -1)
                top, index = summed.flatten(1).topk((1 + len(self.end_ids)) * beams)
                following = []
                for prompt in range(len(prompts)):
                    if refill and prompt in ended:
                        filler = torch.cat([states[group][0, 0], torch.tensor([self.pad_id])])
                        following.append(filler.repeat(beams, 1))
                        continue
                    going = []
                    for total, place in zip(top[prompt].tolist(), index[prompt].tolist(), strict=True):
                        beam, token = divmod(place, self.width)
                        sequence = torch.cat([states[group][prompt, beam], torch.tensor([token])])
                        if token not in self.end_ids:
                            going.append((total, sequence))
                        elif total > -1e8:
                            ended.setdefault(prompt, sequence)
                    following.append(torch.stack([sequence for _, sequence in going[:beams]]))
                    totals[group][prompt] = torch.tensor([total for total, _ in going[:beams]])
                states[group] = torch.stack(following)
            if len(ended) == len(prompts):
                break
        width = max(map(len, ended.values()))
        rows = [ended[prompt] for prompt in range(len(prompts))]
        return torch.stack([torch.nn.functional.pad(row, (0, width - len(row)), value=self.pad_id) for row in rows])

    def drafted(
        self, processor: Processor, prompt: torch.Tensor, draft: Callable[[list[int]], list[int]]
    ) -> torch.Tensor:
        """Greedy search of one row in which drafted tokens are checked; equals `generate` whatever the drafts are."""
        candidates = CandidateGenerator(draft)
        return generate(lambda processors: self._drafted(processors, prompt, candidates), *self.before, processor)

    def _drafted(self, processors: Processor, prompt: torch.Tensor, drafts: CandidateGenerator) -> torch.Tensor:
        row = prompt
        while row.shape[1] - prompt.shape[1] < self.max_new_tokens:
            candidates = torch.tensor([drafts.get_candidates(row[0].tolist())], dtype=torch.int64)
            longer = torch.cat([row, candidates], dim=1)
            chosen = [
                int(self.scores(processors, longer[:, :end], self.logits(longer[:, :end])).argmax(-1))
                for end in range(row.shape[1], longer.shape[1] + 1)
            ]
            matching = 0
            while matching < candidates.shape[1] and chosen[matching] == int(candidates[0, matching]):
                matching += 1
            for token in chosen[: matching + 1]:
                row = torch.cat([row, torch.tensor([[token]])], dim=1)
                if token in self.end_ids:
                    return row
        return row
