"""Sequences that are computed together: rows that fork, grow, shrink and are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation.batches import leaf_paths
from formatter_transformers.key_values import KeyValues

if TYPE_CHECKING:
    from formatter_transformers.model import TransformersModel

__all__ = ["TransformersBatch", "logprobs_of"]

#: Logits of one forward pass whose log-probabilities are wanted at most, in bytes; more are computed in several passes.
_MAX_LOGITS_BYTES = 256 * 2**20


class TransformersBatch:
    """A batch of sequences that are computed together; made by `TransformersModel.start`."""

    def __init__(self, model: TransformersModel, rows: int) -> None:
        self._model = model
        # Measured only on a CPU: a GPU computes rows in parallel anyway.
        can_share = model.device.type == "cpu" and model.forward.takes_trees(0)
        self._key_values = KeyValues(rows, model.forward.layers, model.device, can_share)
        self._logits: torch.Tensor | None = None
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        """All tokens of each row that were computed, prompt included."""
        self.cached = [0] * rows
        """The number of tokens of each prompt that were in the prefix cache."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.tokens)

    @property
    def logits(self) -> torch.Tensor:
        """Floats (rows, width): the logits after the last token of each row."""
        if self._logits is None:
            raise InvalidArgument("the last tokens of the batch were dropped; compute one more token of each row first")
        return self._logits

    def begin(self, prompts: Sequence[Sequence[int]]) -> None:
        """Compute the prompts of an empty batch."""
        cache = self._model.prefix_cache
        # The last token is computed anyway, for the logits after it.
        found = [cache.find(prompt[:-1]) for prompt in prompts]
        self._key_values.begin(found)
        have = self._key_values.lengths if self._key_values.columns else np.zeros(len(prompts), dtype=np.int64)
        self.cached = [int(count) for count in have]
        self.tokens = [list(prompt[:count]) for prompt, count in zip(prompts, have, strict=True)]
        self.forward([prompt[count:] for prompt, count in zip(prompts, have, strict=True)])
        for row in range(len(self)):
            self.remember(row)

    def reserve(self, tokens: int) -> None:
        """Make room for this many more tokens of each row, also of those that `select` makes of it."""
        self._key_values.reserve(self._key_values.columns + tokens)

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> torch.Tensor:
        """See `SequenceBatch.forward`; a row without new tokens keeps its logits."""
        return self._forward(*_block(tokens), keep)

    def forward_scored(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """See `SequenceBatch.forward_scored`."""
        ids, used = _block(tokens)
        rows, columns = ids.shape
        part = max(1, _MAX_LOGITS_BYTES // (4 * rows * len(self._model.vocabulary)))
        scores = []
        for start in range(0, columns, part):
            chunk = slice(start, start + part)
            before = self.logits.float()[:, None]
            logits = self._forward(ids[:, chunk], used[:, chunk], min(part, columns - start))
            # Rows with fewer tokens begin later in the block, after the logits that they have from before.
            begins = torch.from_numpy(used[:, chunk].argmax(axis=1)).to(logits.device)
            shifted = torch.cat([before, logits[:, :-1].float()], dim=1)
            shifted[torch.arange(rows, device=logits.device), begins] = before[:, 0]
            new_ids = torch.from_numpy(ids[:, chunk, None].copy()).to(logits.device)
            scores.append(logprobs_of(shifted, new_ids)[..., 0])
        return torch.cat(scores, dim=1)

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """See `SequenceBatch.forward_tree`."""
        paths = leaf_paths(len(self), parents)
        model, key_values = self._model, self._key_values
        length, columns, nodes = int(key_values.lengths[0]), key_values.columns, len(tokens)
        if not model.forward.takes_trees(length + nodes):
            return self._after_paths(tokens, paths)
        ancestors = np.eye(nodes, dtype=np.bool_)
        for node, parent in enumerate(parents):
            if parent >= 0:
                ancestors[node] |= ancestors[parent]
        seen = np.concatenate([np.broadcast_to(key_values.used, (nodes, columns)), ancestors], axis=1)
        with torch.inference_mode():
            ids = np.array(tokens, dtype=np.int64)
            logits = self._compute_seeing(ids, length - 1 + ancestors.sum(axis=1), seen, nodes)
            key_values.wrote(np.zeros((1, nodes), dtype=np.bool_))
            key_values.crop([length])
        return logits

    def select(self, rows: Sequence[int]) -> None:
        """See `SequenceBatch.select`."""
        with torch.inference_mode():
            self._key_values.select(rows)
            if self._logits is not None:
                self._logits = self._logits[torch.tensor(list(rows), dtype=torch.int64, device=self._logits.device)]
        self.tokens = [list(self.tokens[row]) for row in rows]

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget the tokens of each row past this many."""
        self._key_values.crop(lengths)
        self.tokens = [tokens[:length] for tokens, length in zip(self.tokens, lengths, strict=True)]
        self._logits = None

    def remember(self, row: int) -> None:
        """Keep what was computed of a row for later sequences that begin alike."""
        with torch.inference_mode():
            self._model.prefix_cache.add(
                self.tokens[row], lambda start, stop: self._key_values.segment(row, start, stop)
            )

    def _forward(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        """Call `forward` for a block of places; `used` says which of them are tokens."""
        logits = self._run(ids, used, keep)
        for tokens, new, is_token in zip(self.tokens, ids, used, strict=True):
            tokens.extend(new[is_token].tolist())
        last = logits[:, -1]
        if self._logits is not None and not used[:, -1].all():
            is_new = torch.from_numpy(used[:, -1].copy()).to(last.device)[:, None]
            last = torch.where(is_new, last, self._logits)
        self._logits = last
        return logits

    def _run(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        model, key_values = self._model, self._key_values
        with torch.inference_mode(), model.span("formatter: forward"):
            columns, new = key_values.columns, ids.shape[1]
            shares = (
                key_values.is_shared
                and model.forward.takes_trees(columns + ids.size)
                and not key_values.is_too_wide(ids.size, new)
            )
            counts_columns = model.forward.counts_columns(columns + new)
            key_values.pack(always=shares != key_values.is_shared or (counts_columns and key_values.has_gaps))
            if shares:
                return self._compute_shared(ids, used, keep)
            if not counts_columns or used.all():
                return self._compute(ids, used, keep)
            # A layer that attends to a limited number of columns must find no unused ones among a row's tokens: new
            # tokens then come directly after the old ones, and unused columns after them are dropped at once.
            order = np.argsort(~used, axis=1, kind="stable")
            first = np.take_along_axis(used, order, axis=1)
            logits = self._compute(np.take_along_axis(ids, order, axis=1), first, ids.shape[1])
            key_values.pack(always=True)
            at = torch.from_numpy(np.argsort(first, axis=1, kind="stable")[:, -keep:]).to(logits.device)
            return logits.gather(1, at[:, :, None].expand(-1, -1, logits.shape[2]))

    def _compute(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        model, key_values = self._model, self._key_values
        logits = model.forward(
            torch.from_numpy(np.ascontiguousarray(ids)).to(model.device),
            torch.from_numpy(self._positions(used)).to(model.device),
            key_values.mask_with(used),
            key_values,
            keep,
        )
        key_values.wrote(used)
        model.passes += 1
        return logits

    def _compute_shared(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        """Do `_compute` for rows that share columns: one row of tokens, which see the columns of their own rows.

        They are written one column of all rows after the other, so that the last ones of all rows are the last.
        """
        key_values, (rows, columns) = self._key_values, ids.shape
        writes = np.eye(rows, dtype=np.bool_)[:, None] & used[:, :, None]
        new = (np.tri(columns, dtype=np.bool_)[:, None, :, None] & writes).reshape(ids.size, ids.size)
        new |= np.eye(ids.size, dtype=np.bool_)  # what is no token sees itself, for something it must see
        seen = np.concatenate([np.tile(key_values.used, (columns, 1)), new], axis=1)
        logits = self._compute_seeing(ids.T.ravel(), self._positions(used).T.ravel(), seen, keep * rows)
        key_values.wrote(writes.reshape(rows, -1))
        return logits.view(keep, rows, -1).transpose(0, 1)

    def _compute_seeing(
        self, ids: NDArray[np.int64], positions: NDArray[np.int64], seen: NDArray[np.bool_], keep: int
    ) -> torch.Tensor:
        """Compute logits (keep, width) of tokens in a single row; `seen` says which columns each token sees."""
        model = self._model
        dtype = model.model.dtype
        mask = torch.zeros((1, 1, *seen.shape), dtype=dtype)
        mask.masked_fill_(torch.from_numpy(~seen), torch.finfo(dtype).min)
        logits = model.forward(
            torch.from_numpy(ids)[None].to(model.device),
            torch.from_numpy(positions)[None].to(model.device),
            mask.to(model.device),
            self._key_values,
            keep,
        )
        model.passes += 1
        return logits[0]

    def _positions(self, used: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the positions of new tokens in their rows, int64 (rows, columns); 0 in columns without a token."""
        return np.where(used, self._key_values.lengths[:, None] + np.cumsum(used, axis=1) - 1, 0)

    def _after_paths(self, tokens: Sequence[int], paths: Sequence[list[int]]) -> torch.Tensor:
        """Write the tree as one row per leaf, for models that take no two-dimensional mask."""
        copy = TransformersBatch(self._model, len(paths))
        copy._key_values.begin([[self._key_values.segment(0, 0, len(self.tokens[0]))]] * len(paths))
        copy.tokens = [list(self.tokens[0]) for _ in paths]
        longest = max(map(len, paths))
        logits = copy.forward([[tokens[node] for node in path] for path in paths], keep=longest)
        found = logits.new_empty((len(tokens), logits.shape[2]))
        for path, after in zip(paths, logits, strict=True):
            found[path] = after[longest - len(path) :]
        return found


def _block(tokens: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return new tokens as a right-aligned block, int64 (rows, columns), and which places are tokens."""
    columns = max((len(new) for new in tokens), default=0)
    if not columns:
        raise InvalidArgument("there is no new token to compute; give at least one row a token")
    ids = np.zeros((len(tokens), columns), dtype=np.int64)
    used = np.zeros((len(tokens), columns), dtype=np.bool_)
    for row, new in enumerate(tokens):
        if len(new):
            ids[row, columns - len(new) :] = new
            used[row, columns - len(new) :] = True
    return ids, used


def logprobs_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of ids (..., n) in logits (..., width)."""
    return logits.gather(-1, ids) - logits.logsumexp(dim=-1, keepdim=True)
