"""A loaded model as a `LogitsModel`: what `completion`, `choose`, `beam_search` and loops of your own take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation import NumpyBatch, NumpyLogits
from formatter_core.generation.batches import check_prompts, common_length, leaf_paths
from formatter_core.generation.tokenizer_prompts import TokenizerPrompts
from formatter_mlx import _compat
from formatter_mlx.key_values import KeyValues
from formatter_mlx.vocabulary import compiler_for

__all__ = ["MlxBatch", "MlxModel", "mlx_model"]

#: Tokens that are computed at once, over all rows; this bounds the memory of their logits.
_AT_ONCE = 512
#: Branches of a tree that are computed at once.
_BRANCHES = 16


def mlx_model(model: Any, tokenizer: Any) -> MlxModel:
    """Make a model for `formatter_core.generation`.

    Args:
        model: the first value that `mlx_lm.load` returns.
        tokenizer: the second.

    Raises:
        UnsupportedEngineVersion: the model caches something other than keys and values for each token.
        InvalidVocabulary: the tokenizer cannot be read.
    """
    return MlxModel(model, tokenizer)


class MlxModel(TokenizerPrompts, NumpyLogits):
    """Made by `mlx_model`; only one thread at a time may use it.

    Attributes:
        compiler: what formats are compiled with, each once.
        tokenizer: the one that it was made with.
        max_length: how many tokens a sequence has at most, including the prompt.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        if model is None:
            raise InvalidArgument("model is missing; pass the first value that mlx_lm.load returns", argument="model")
        self.compiler = compiler_for(tokenizer, model=model)
        self.max_length = _compat.max_length(model)
        self._model = model
        self.tokenizer = tokenizer
        self._layers = _compat.key_value_layers(model)

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> MlxBatch:
        """Compute prompts, one per row; their common beginning is computed once.

        Args:
            prompts: ids, at least one each.
            room: not needed; caches grow by themselves.
        """
        check_prompts(prompts)
        batch = MlxBatch(self._model, len(self.vocabulary), self._layers)
        common = min(common_length(prompts), min(map(len, prompts)) - 1)
        if len(prompts) > 1 and common:
            batch.forward([prompts[0][:common]])
        batch.select([0] * len(prompts))
        done = len(batch.tokens[0])
        batch.forward([prompt[done:] for prompt in prompts])
        return batch


class MlxBatch(NumpyBatch):
    """A batch of sequences that are computed together; made by `MlxModel.start`.

    Attributes:
        logits: float32 (rows, width), those after the last token of each row.
        tokens: all tokens of each row that were computed, including the prompt.
    """

    def __init__(self, model: Any, width: int, layers: int) -> None:
        self._model = model
        self._kept = KeyValues(layers, [0])
        self._logits = np.zeros((1, width), dtype=np.single)
        self._tokens: list[list[int]] = [[]]

    @property
    def logits(self) -> NDArray[np.single]:
        """Float32 (rows, width): the logits after the last token of each row."""
        return self._logits

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens of each row that were computed, including the prompt."""
        return self._tokens

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._tokens)

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> NDArray[np.single]:
        """See `SequenceBatch.forward`; the rows are computed together, in as many pieces as memory requires."""
        counts, lengths = [len(new) for new in tokens], [len(old) for old in self._tokens]
        found = np.full((len(tokens), keep, self._logits.shape[1]), np.nan, dtype=np.single)
        ids = np.zeros((len(tokens), max(counts)), dtype=np.int32)
        for row, new in enumerate(tokens):
            ids[row, : len(new)] = new
        firsts = [max(0, count - keep) for count in counts]  # of the new tokens whose logits are wanted
        step = max(1, _AT_ONCE // len(tokens))
        cuts = sorted({*range(0, max(counts), step), *firsts, max(counts)})
        for start, end in pairwise(cuts):
            self._kept.lengths = [length + start for length in lengths]
            logits = self._model(mx.array(ids[:, start:end]), cache=self._kept.layers)
            rows, places = np.nonzero(
                [[first <= at < count for at in range(start, end)] for first, count in zip(firsts, counts, strict=True)]
            )
            if len(rows):
                wanted = np.array(logits[mx.array(rows), mx.array(places)].astype(mx.float32))
                found[rows, keep + start + places - np.array(counts)[rows]] = wanted
            else:
                mx.eval(self._kept.arrays)
        self._kept.lengths = [length + count for length, count in zip(lengths, counts, strict=True)]
        for row, new in enumerate(tokens):
            self._tokens[row].extend(map(int, new))
            if len(new):
                self._logits[row] = found[row, -1]
        return found

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> NDArray[np.single]:
        """See `SequenceBatch.forward_tree`: each leaf is a row of a copy."""
        paths = leaf_paths(len(self), parents)
        found = np.zeros((len(tokens), self._logits.shape[1]), dtype=np.single)
        for start in range(0, len(paths), _BRANCHES):
            part = paths[start : start + _BRANCHES]
            longest = max(map(len, part))
            branches = self._copy([0] * len(part))
            after = branches.forward([[tokens[node] for node in path] for path in part], keep=longest)
            for row, path in enumerate(part):
                found[path] = after[row, longest - len(path) :]
        return found

    def select(self, rows: Sequence[int]) -> None:
        """See `SequenceBatch.select`."""
        if list(rows) != list(range(len(self))):
            chosen = self._copy(rows)
            self._kept, self._logits, self._tokens = chosen._kept, chosen._logits, chosen._tokens

    def crop(self, lengths: Sequence[int]) -> None:
        """See `SequenceBatch.crop`."""
        for row, length in zip(self._tokens, lengths, strict=True):
            del row[length:]
        self._kept.lengths = [len(row) for row in self._tokens]

    def _copy(self, rows: Sequence[int]) -> MlxBatch:
        made = MlxBatch(self._model, self._logits.shape[1], 0)
        made._kept = self._kept.selected(rows)
        made._logits = self._logits[list(rows)]
        made._tokens = [list(self._tokens[row]) for row in rows]
        return made
