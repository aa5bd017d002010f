"""Which call of `generate` a batch belongs to: its prompts, and the states of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from formatter_core import CompiledFormat
from formatter_core.errors import InvalidFormat
from formatter_transformers.states import RowState, StatePool

__all__ = ["Generation", "Generations", "formats_of_rows"]

#: Generations remembered: the one that runs, and an assistant with a tokenizer of its own, with room to spare.
_REMEMBERED = 4


def formats_of_rows(formats: Sequence[CompiledFormat | None], rows: int) -> list[CompiledFormat | None]:
    """The format of each row: beams and returned sequences of one prompt stand side by side."""
    if rows % len(formats):
        raise InvalidFormat(
            f"{len(formats)} formats were given for {rows} rows; give one for all prompts, or one for each prompt"
        )
    return [formats[row // (rows // len(formats))] for row in range(rows)]


class Generation:
    """One call of `generate`: the prompts as the first call of the processor saw them, padding included."""

    def __init__(self, prompts: torch.Tensor, formats: list[CompiledFormat | None]) -> None:
        self.prompts = prompts.clone()
        self._formats = formats
        self._pools = {compiled: StatePool(compiled) for compiled in formats if compiled is not None}

    def keys(self, input_ids: torch.Tensor) -> list[bytes] | None:
        """The generated tokens of each row; None where a row does not begin with its prompt.

        There may be fewer or more rows than prompts were seen, as long as each prompt has its share of them.
        """
        rows, width = input_ids.shape
        seen, prompt_width = self.prompts.shape
        if width < prompt_width:
            return None
        prompts = self.prompts
        if rows != seen:
            prompts = prompts[torch.arange(rows, device=prompts.device) * seen // rows]
        if not torch.equal(input_ids[:, :prompt_width], prompts):
            return None
        generated = input_ids[:, prompt_width:].cpu().numpy().astype(np.int64, order="C", copy=False)
        return [row.tobytes() for row in generated]

    def continues(self, keys: list[bytes]) -> bool:
        """Whether each row has at most one token that was not seen before, as every loop of transformers has it."""
        return all(pool.new_tokens(key) <= 1 for pool, key in self._with_pools(keys))

    def allows(self, keys: list[bytes]) -> bool:
        """Whether each row's tokens are in its format, so that a loop may have appended several at once."""
        return all(pool.allows(key) for pool, key in self._with_pools(keys))

    def states(self, keys: list[bytes]) -> list[RowState | None]:
        """The state of each row; None where the row has no format."""
        found = {
            compiled: pool.find(key for key, other in zip(keys, self._formats, strict=True) if other is compiled)
            for compiled, pool in self._pools.items()
        }
        return [
            None if compiled is None else found[compiled][key]
            for key, compiled in zip(keys, self._formats, strict=True)
        ]

    def error_in(self, compiled: CompiledFormat, key: bytes) -> Exception | None:
        """What ended the row of this key, if something went wrong with it."""
        return self._pools[compiled].error_in(key)

    def _with_pools(self, keys: list[bytes]) -> list[tuple[StatePool, bytes]]:
        pairs = zip(keys, self._formats, strict=True)
        return [(self._pools[compiled], key) for key, compiled in pairs if compiled is not None]


class Generations:
    """The calls of `generate` that a processor has seen, newest first."""

    def __init__(self, formats: Sequence[CompiledFormat | None]) -> None:
        self._formats = formats
        self._generations: list[Generation] = []

    def clear(self) -> None:
        """Forget all of them: what comes next is a new call."""
        self._generations.clear()

    def states(self, input_ids: torch.Tensor) -> list[RowState | None]:
        """The state of each row of a batch, which continues a call that was seen, or begins a new one."""
        generation, keys = self._find(input_ids)
        self._generations = [generation, *(other for other in self._generations if other is not generation)]
        del self._generations[_REMEMBERED:]
        return generation.states(keys)

    def outputs(self, sequences: torch.Tensor) -> tuple[Generation, list[bytes]] | None:
        """The call that these finished sequences come from, and their generated tokens; None if none begins them."""
        longest_first = sorted(self._generations, key=lambda generation: -generation.prompts.shape[1])
        found = ((generation, generation.keys(sequences)) for generation in longest_first)
        return next(((generation, keys) for generation, keys in found if keys is not None), None)

    def _find(self, input_ids: torch.Tensor) -> tuple[Generation, list[bytes]]:
        begun = [
            (generation, keys)
            for generation in self._generations
            if len(generation.prompts) == len(input_ids) and (keys := generation.keys(input_ids)) is not None
        ]
        for generation, keys in begun:
            if generation.continues(keys):
                return generation, keys
        for generation, keys in begun:
            if generation.allows(keys):
                return generation, keys
        generation = Generation(input_ids, formats_of_rows(self._formats, len(input_ids)))
        return generation, [b""] * len(input_ids)
