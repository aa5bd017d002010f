"""Which call of `generate` a batch belongs to: its prompts, and the states of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from formatter_core import CompiledFormat
from formatter_core.errors import InvalidFormat
from formatter_transformers.states import RowState, StatePool, parent_of

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
        self.is_over = False
        self._read: set[bytes] | None = None  # the outputs that were read as results
        self._latest = 0  # the length of the keys of the latest batch
        self._formats = formats
        self._pools = {compiled: StatePool(compiled) for compiled in formats if compiled is not None}

    def continued_by(self, input_ids: torch.Tensor) -> list[bytes | None] | None:
        """The generated tokens of each row, if at most the last one was not seen before; else None.

        Every loop of transformers goes on one token at a time, drafts included. The beam search of 4.x refills the
        rows of a prompt that is done from the first row of the batch, whatever that row's prompt is; what such a
        row is offered does not matter, and None stands for its tokens.
        """
        if input_ids.shape[0] != self.prompts.shape[0] or input_ids.shape[1] < self.prompts.shape[1]:
            return None
        width = self.prompts.shape[1]
        begun = (input_ids[:, :width] == self.prompts).all(dim=1).tolist()
        keys: list[bytes | None] = []
        for row, (is_own, key) in enumerate(zip(begun, _keys(input_ids[:, width:]), strict=True)):
            if self._is_new_prompt(row, key):
                return None
            if is_own and self._new_tokens(row, key) <= 1:
                keys.append(key)
            elif key and torch.equal(input_ids[row, :width], self.prompts[0]) and self._new_tokens(0, key) <= 1:
                keys.append(None)
            else:
                return None
        return keys

    def grown_to(self, input_ids: torch.Tensor) -> list[bytes | None] | None:
        """The generated tokens of each row, if its format allows them all, however many are new; else None."""
        keys = self.outputs(input_ids) if len(input_ids) == len(self.prompts) else None
        if keys is None:
            return None
        pairs = zip(keys, self._formats, strict=True)
        is_allowed = all(self._pools[compiled].allows(key) for key, compiled in pairs if compiled is not None)
        return list(keys) if is_allowed else None

    def outputs(self, sequences: torch.Tensor) -> list[bytes] | None:
        """The generated tokens of each row; None where a row does not begin with its prompt.

        There may be another number of rows than prompts were seen, as long as each prompt has its share of them.
        """
        rows, (seen, width) = len(sequences), self.prompts.shape
        prompts = self.prompts[[row * seen // rows for row in range(rows)]].to(sequences.device)
        if sequences.shape[1] < width or not torch.equal(sequences[:, :width], prompts):
            return None
        return _keys(sequences[:, width:])

    def states(self, keys: list[bytes | None]) -> list[RowState | None]:
        """The state of each row; None where the row has no format."""
        self._latest = max((len(key) for key in keys if key is not None), default=0)
        wanted: dict[CompiledFormat, list[bytes]] = {compiled: [] for compiled in self._pools}
        for key, compiled in zip(keys, self._formats, strict=True):
            if key is not None and compiled is not None:
                wanted[compiled].append(key)
        found = {compiled: self._pools[compiled].find(its_keys) for compiled, its_keys in wanted.items()}
        states: list[RowState | None] = []
        for key, compiled in zip(keys, self._formats, strict=True):
            if compiled is None:
                states.append(None)
            else:
                states.append(RowState.off_format(compiled) if key is None else found[compiled][key])
        return states

    def end(self, outputs: Sequence[bytes]) -> None:
        """What comes next continues one of these outputs, or is a new call, even where it goes on from the prompt."""
        self._read = set(outputs)

    def error_in(self, compiled: CompiledFormat, key: bytes) -> Exception | None:
        """What ended the row with these generated tokens, if something went wrong with it."""
        return self._pools[compiled].error_in(key)

    def _is_new_prompt(self, row: int, key: bytes) -> bool:
        """Whether these tokens were never generated, although at most one of them is new.

        A loop goes back only to drop drafts, and then to a token that the format allowed.
        """
        if self.is_over and self._read is not None:
            return key not in self._read and parent_of(key) not in self._read
        compiled = self._formats[row]
        return compiled is not None and len(key) < self._latest and self._pools[compiled].forbids_last(key)

    def _new_tokens(self, row: int, key: bytes) -> int:
        compiled = self._formats[row]
        return 0 if compiled is None else self._pools[compiled].new_tokens(key)


def _keys(generated: torch.Tensor) -> list[bytes]:
    ids = generated.cpu().numpy().astype(np.int64, order="C", copy=False)
    return [row.tobytes() for row in ids]


class Generations:
    """The calls of `generate` that a processor has seen, newest first."""

    def __init__(self, formats: Sequence[CompiledFormat | None]) -> None:
        self._formats = formats
        self._generations: list[Generation] = []

    def clear(self) -> None:
        """Forget all of them: what comes next is a new call."""
        self._generations.clear()

    def end(self, finished: Generation, outputs: Sequence[bytes]) -> None:
        """The outputs of a call were read: a batch with several new tokens is a new call, whatever the tokens are."""
        for generation in self._generations:
            generation.is_over = True
        finished.end(outputs)

    def states(self, input_ids: torch.Tensor) -> list[RowState | None]:
        """The state of each row of a batch, which continues a call that was seen, or begins a new one."""
        generation, keys = self._find(input_ids)
        generation.is_over = False
        self._generations = [generation, *(other for other in self._generations if other is not generation)]
        del self._generations[_REMEMBERED:]
        return generation.states(keys)

    def outputs(self, sequences: torch.Tensor) -> tuple[Generation, list[bytes]] | None:
        """The call that these finished sequences come from, and their generated tokens; None if none begins them."""
        for generation in sorted(self._generations, key=lambda generation: -generation.prompts.shape[1]):
            keys = generation.outputs(sequences)
            if keys is not None:
                return generation, keys
        return None

    def _find(self, input_ids: torch.Tensor) -> tuple[Generation, list[bytes | None]]:
        for generation in self._generations:
            keys = generation.continued_by(input_ids)
            if keys is not None:
                return generation, keys
        for generation in self._generations:
            keys = None if generation.is_over else generation.grown_to(input_ids)
            if keys is not None:
                return generation, keys
        rows = len(input_ids)
        return Generation(input_ids, formats_of_rows(self._formats, rows)), [b""] * rows
