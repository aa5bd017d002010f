"""A causal model of transformers as a `LogitsModel`: sequences that share prompts, keys and values.

The shape of it, for loops of your own::

    model = transformers_model("some/model")                # model.vocabulary, .compiler, .max_length, .prefix_cache
    ids = model.encode("Once upon a time")                  # list[int]; encode_continuation(b" there") for what follows
    batch = model.start([ids, other_ids])                   # one prefill, a row for each prompt
    batch.logits                                            # tensor (rows, width): what follows the last token
    batch.select([0, 0, 0, 1])                              # fan out, reorder, drop rows: beams, samples, particles
    batch.forward([[5], [6, 7], [8], []])                   # more tokens, any number a row, in one forward pass
    batch.forward(tokens, keep=3)                           # returns logits (rows, 3, width) after the last 3 of them
    batch.forward_tree([5, 6, 7], [-1, 0, 0])               # logits (nodes, width) of a tree behind the only row
    batch.crop([9, 9, 10, 9])                               # back to so many tokens a row
    batch.tokens, len(batch)                                # all tokens of each row; the number of rows

Logits stay on the model's device; `model.pick` masks, samples and makes one small copy to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import Compiler, Vocabulary, torch_bitmask
from formatter_core.errors import InvalidFormat
from formatter_core.generation import (
    NO_SCORES,
    BatchSampler,
    Branches,
    ChosenToken,
    Generated,
    Picked,
    Sampling,
    SamplingRows,
    ScoreSettings,
)
from formatter_transformers import torch_sampling
from formatter_transformers._compat_cache import ModelForward, loaded
from formatter_transformers.choosing import branches
from formatter_transformers.key_values import KeyValues
from formatter_transformers.prefix_cache import PrefixCache
from formatter_transformers.prompt_scores import score_prompt
from formatter_transformers.token_scores import score_step
from formatter_transformers.vocabulary import compiler_for

__all__ = ["TransformersBatch", "TransformersModel", "transformers_model"]

NOT_CHOSEN = ChosenToken(-1, None, None)

#: What a model without a stated length may take.
_LONGEST = 2**20
#: Logits of one forward pass whose log-probabilities are wanted at most, in bytes; more are computed in several passes.
_MOST_LOGITS = 256 * 2**20
#: Prompts of one call that begin with so many same tokens have these computed once.
_WORTH_SHARING = 32


def transformers_model(
    name_or_model: Any,
    device: Any = None,
    dtype: Any = None,
    *,
    tokenizer: Any = None,
    cache_bytes: int = 256 * 2**20,
) -> TransformersModel:
    """A causal model of transformers, for `completion`, `continuation`, `choose` and loops of your own.

    Args:
        name_or_model: a name or folder, loaded by `AutoModelForCausalLM.from_pretrained` with its own defaults, or a
            model that is loaded.
        device: where it runs; by default where transformers put it.
        dtype: of its weights; by default what transformers chooses.
        tokenizer: by default that of the model's name.
        cache_bytes: bytes of keys and values kept for prompts that begin alike, on the model's device; 0 for none.

    Raises:
        UnsupportedEngineVersion: the model keeps something else than keys and values for each token.
        InvalidVocabulary: the tokenizer cannot be read.
    """
    model, tokenizer = loaded(name_or_model, dtype, tokenizer)
    if device is not None or (dtype is not None and not isinstance(name_or_model, str)):
        model = model.to(device=device, dtype=dtype)
    return TransformersModel(model.eval(), tokenizer, cache_bytes)


class TransformersModel:
    """A causal model of transformers with its tokenizer; made by `transformers_model`. One thread's at a time.

    Call `prefix_cache.clear()` when the weights have changed (training, another adapter) or were moved.

    Attributes:
        model: the model itself.
        tokenizer: its tokenizer.
        compiler: what formats are compiled with, each once.
        prefix_cache: keys and values of earlier sequences.
    """

    def __init__(self, model: Any, tokenizer: Any, cache_bytes: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.compiler: Compiler = compiler_for(tokenizer, model=model)
        self.prefix_cache = PrefixCache(cache_bytes)
        self.forward = ModelForward(model)
        self.passes = 0
        """Forward passes so far."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens; as many as there are logits."""
        return self.compiler.vocabulary

    @property
    def max_length(self) -> int:
        """How many tokens a sequence has at most, prompt included."""
        return self.forward.max_length or _LONGEST

    @property
    def device(self) -> torch.device:
        """Where the logits are."""
        device: torch.device = self.model.device
        return device

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, with what the tokenizer puts before a text."""
        return list(self.tokenizer(text)["input_ids"])

    def encode_chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> list[int]:
        """The ids of a conversation, up to where the model's answer begins, by the tokenizer's chat template.

        Args:
            messages: as `tokenizer.apply_chat_template` takes them.
            options: more of its arguments, for example `tools` or those of the template itself.
        """
        wanted = {"add_generation_prompt": True, **options, "tokenize": True, "return_dict": True}
        return list(self.tokenizer.apply_chat_template(list(messages), **wanted)["input_ids"])

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Ids that spell exactly these bytes; None where the tokenizer has none, or the bytes are no whole characters.

        A tokenizer may put a space before a text, so where the bytes alone are spelt differently, they are read
        behind a line break.
        """
        try:
            characters = text.decode("utf-8")
        except UnicodeDecodeError:
            return None
        for before in ("", "\n"):
            ids = list(self.tokenizer(before + characters, add_special_tokens=False)["input_ids"])
            spelt = [self.vocabulary.text_token(token) or b"" for token in ids]
            for start in range(len(ids) + 1 if before else 1):
                if b"".join(spelt[start:]) == text:
                    return ids[start:]
        return None

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> TransformersBatch:
        """Compute prompts, each once, one a row; what the prefix cache has of them is taken from there.

        Args:
            prompts: ids, at least one each.
            room: how many more tokens each of them will probably get, so that the steps to come copy nothing.
        """
        if not prompts or not all(len(prompt) for prompt in prompts):
            raise InvalidFormat("a sequence begins with at least one token; give the model's first token at least")
        common = _common([tuple(prompt) for prompt in prompts])
        if len(prompts) > 1 and self.prefix_cache.limit and common >= _WORTH_SHARING:
            head = tuple(prompts[0])[:common]
            if self.prefix_cache.covered(head) + _WORTH_SHARING <= common:
                TransformersBatch(self, 1).begin([head])
        batch = TransformersBatch(self, len(prompts))
        batch.begin(prompts)
        batch.reserve(room)
        return batch

    def empty_batch(self) -> TransformersBatch:
        """One sequence without a token, to compute a prompt in steps of your own."""
        return TransformersBatch(self, 1)

    def score_prompt(self, tokens: Sequence[int], settings: ScoreSettings) -> list[ChosenToken | None]:
        """What `settings` ask about each token of a prompt; see `formatter_transformers.score_prompt`."""
        return score_prompt(self, tokens, settings)

    def branches(self, output: Generated) -> list[Branches]:
        """Each named `choice` hole of an output as it was met; see `formatter_transformers.branches`."""
        return branches(self, output)

    @staticmethod
    def span(name: str) -> AbstractContextManager[Any]:
        """A context that torch's profiler shows by this name; next to nothing where none runs."""
        context: AbstractContextManager[Any] = torch.profiler.record_function(name)
        return context

    def pick(
        self,
        logits: torch.Tensor,
        allowed: NDArray[np.int32] | None,
        sampler: BatchSampler,
        rows: SamplingRows,
        *,
        scores: ScoreSettings = NO_SCORES,
        scored: torch.Tensor | None = None,
    ) -> Picked:
        """Mask the logits, choose a token for each row, and copy what was chosen to the host, once.

        Lists of best tokens and ranks come in a copy of their own.
        """
        with torch.inference_mode(), self.span("formatter: pick"):
            exact = logits.float()
            masked = exact if allowed is None else torch_bitmask.apply(exact, allowed)
            if isinstance(sampler, Sampling):
                ids = torch_sampling.draw(sampler, masked, rows.uniforms)
            else:
                # A row without numbers ends its own sequence; another's sampler must not trip over it.
                best = masked.amax(dim=-1, keepdim=True)
                given = masked.masked_fill(best.isnan() | (best == -torch.inf), 0.0)
                ids = torch.as_tensor(sampler(given, rows), device=logits.device).to(torch.int64)
            columns = [masked.gather(1, ids[:, None])]
            is_simple = not (scores.top or scores.rank)
            if is_simple and scores.logprob:
                columns.append(columns[0] - masked.logsumexp(dim=-1, keepdim=True))
                if scores.unmasked:
                    columns.append(columns[-1] if masked is exact else _logprobs(exact, ids[:, None]))
            if scored is not None:
                columns.append(scored)
            packed = torch.cat([ids.to(torch.int32)[:, None], *(column.view(torch.int32) for column in columns)], dim=1)
            host = packed.cpu().numpy()  # the one copy of a step
            numbers = host.view(np.float32)
            is_sound = np.isfinite(numbers[:, 1])
            if is_simple:
                chosen = _chosen(host[:, 0], numbers, scores)
            else:
                before = masked if allowed is None else logits  # the same object is measured once
                if is_sound.all():
                    chosen = score_step(before, masked, ids, scores)
                else:
                    sound = torch.from_numpy(np.flatnonzero(is_sound)).to(logits.device)
                    left = masked[sound]
                    found = iter(score_step(left if before is masked else before[sound], left, ids[sound], scores))
                    chosen = [next(found) if ok else NOT_CHOSEN for ok in is_sound]
        known = numbers[:, numbers.shape[1] - scored.shape[1] :] if scored is not None else None
        return Picked(host[:, 0].astype(np.int64), is_sound, chosen, known)


def _chosen(ids: NDArray[np.int32], numbers: NDArray[np.float32], scores: ScoreSettings) -> list[ChosenToken]:
    if not scores.logprob:
        return []
    among_allowed = numbers[:, 2].tolist()
    among_all = numbers[:, 3].tolist() if scores.unmasked else [None] * len(ids)
    return list(map(ChosenToken, ids.tolist(), among_allowed, among_all))


class TransformersBatch:
    """Sequences that are computed together; made by `TransformersModel.start`."""

    def __init__(self, model: TransformersModel, rows: int) -> None:
        self._model = model
        self._key_values = KeyValues(rows, model.forward.layers, model.device)
        self._logits: torch.Tensor | None = None
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        """All tokens of each row that were computed, prompt included."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.tokens)

    @property
    def logits(self) -> torch.Tensor:
        """Floats (rows, width): the logits after the last token of each row."""
        if self._logits is None:
            raise InvalidFormat("the last tokens of the batch were dropped; compute one more token of each row first")
        return self._logits

    def begin(self, prompts: Sequence[Sequence[int]]) -> None:
        """Compute the prompts of an empty batch."""
        cache = self._model.prefix_cache
        # The last token is computed anyway, for the logits after it.
        found = [cache.find(prompt[:-1]) for prompt in prompts]
        self._key_values.begin(found)
        have = self._key_values.lengths if self._key_values.columns else np.zeros(len(prompts), dtype=np.int64)
        self.tokens = [list(prompt[:count]) for prompt, count in zip(prompts, have, strict=True)]
        self.forward([prompt[count:] for prompt, count in zip(prompts, have, strict=True)])
        for row in range(len(self)):
            self.remember(row)

    def reserve(self, tokens: int) -> None:
        """Make room for so many more tokens of each row, also of those that `select` makes of it."""
        self._key_values.reserve(self._key_values.columns + tokens)

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> torch.Tensor:
        """Compute more tokens in one forward pass; logits (rows, keep, width) after the last `keep` of them.

        Those of a row with fewer new tokens are right-aligned; a row without any keeps its logits.
        """
        ids, used = _block(tokens)
        logits = self._run(ids, used, keep)
        for row, new in zip(self.tokens, tokens, strict=True):
            row.extend(map(int, new))
        self._keep_last(logits[:, -1], used)
        return logits

    def forward_scored(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """`forward`, and the log-probability of each new token after those before it.

        Returns:
            float32 (rows, most new tokens), right-aligned.
        """
        ids, used = _block(tokens)
        rows, columns = ids.shape
        part = max(1, _MOST_LOGITS // (4 * rows * len(self._model.vocabulary)))
        scores = []
        for start in range(0, columns, part):
            chunk = slice(start, start + part)
            before = self.logits.float()[:, None]
            logits = self._run(ids[:, chunk], used[:, chunk], min(part, columns - start))
            # Rows with fewer tokens begin later in the block, after the logits that they have from before.
            begins = torch.from_numpy(used[:, chunk].argmax(axis=1)).to(logits.device)
            shifted = torch.cat([before, logits[:, :-1].float()], dim=1)
            shifted[torch.arange(rows, device=logits.device), begins] = before[:, 0]
            scores.append(_logprobs(shifted, torch.from_numpy(ids[:, chunk].copy()).to(logits.device)))
            self._keep_last(logits[:, -1], used[:, chunk])
        for row, new in zip(self.tokens, tokens, strict=True):
            row.extend(map(int, new))
        return torch.cat(scores, dim=1)

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """Logits (nodes, width) after each node of a tree that continues the only row, in one forward pass.

        The row is left as it is.

        Args:
            tokens: the id of each node, a parent before its children.
            parents: the index of each node's parent, -1 where it follows the row's last token.
        """
        if len(self) != 1:
            raise InvalidFormat(f"a tree continues one sequence, but the batch has {len(self)}; select one row first")
        model, key_values = self._model, self._key_values
        length, columns, nodes = int(key_values.lengths[0]), key_values.columns, len(tokens)
        ancestors = np.zeros((nodes, nodes), dtype=np.bool_)
        for node, parent in enumerate(parents):
            if parent >= 0:
                ancestors[node] = ancestors[parent]
            ancestors[node, node] = True
        if not model.forward.takes_trees(length + nodes):
            return self._paths(tokens, ancestors)
        seen = np.concatenate([np.broadcast_to(key_values.used, (nodes, columns)), ancestors], axis=1)
        with torch.inference_mode():
            dtype = model.model.dtype
            mask = torch.zeros((1, 1, *seen.shape), dtype=dtype)
            mask.masked_fill_(torch.from_numpy(~seen), torch.finfo(dtype).min)
            ids = torch.tensor([list(tokens)], device=model.device)
            positions = torch.from_numpy(length - 1 + ancestors.sum(axis=1))[None].to(model.device)
            logits = model.forward(ids, positions, mask.to(model.device), key_values, nodes)
            model.passes += 1
            key_values.wrote(np.zeros((1, nodes), dtype=np.bool_))
            key_values.crop([length])
        return logits[0]

    def select(self, rows: Sequence[int]) -> None:
        """Make the batch consist of these rows, in this order; a row may be there several times, or not at all."""
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

    def _run(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        model, key_values = self._model, self._key_values
        with torch.inference_mode(), model.span("formatter: forward"):
            key_values.pack()
            if not model.forward.counts_columns(key_values.columns + ids.shape[1]) or used.all():
                return self._compute(ids, used, keep)
            # A layer that looks back so many columns must find no unused ones among a row's tokens: new tokens then
            # come directly after the old ones, and what is unused behind them is dropped at once.
            order = np.argsort(~used, axis=1, kind="stable")
            first = np.take_along_axis(used, order, axis=1)
            logits = self._compute(np.take_along_axis(ids, order, axis=1), first, ids.shape[1])
            key_values.pack(always=True)
            at = torch.from_numpy(np.argsort(first, axis=1, kind="stable")[:, -keep:]).to(logits.device)
            return logits.gather(1, at[:, :, None].expand(-1, -1, logits.shape[2]))

    def _compute(self, ids: NDArray[np.int64], used: NDArray[np.bool_], keep: int) -> torch.Tensor:
        model, key_values = self._model, self._key_values
        places = key_values.lengths[:, None] + np.cumsum(used, axis=1) - 1
        logits = model.forward(
            torch.from_numpy(np.ascontiguousarray(ids)).to(model.device),
            torch.from_numpy(np.where(used, places, 0)).to(model.device),
            key_values.mask_with(used),
            key_values,
            keep,
        )
        key_values.wrote(used)
        model.passes += 1
        return logits

    def _keep_last(self, logits: torch.Tensor, used: NDArray[np.bool_]) -> None:
        if self._logits is not None and not used[:, -1].all():
            is_new = torch.from_numpy(used[:, -1].copy()).to(logits.device)[:, None]
            logits = torch.where(is_new, logits, self._logits)
        self._logits = logits

    def _paths(self, tokens: Sequence[int], ancestors: NDArray[np.bool_]) -> torch.Tensor:
        """The tree as one row for each leaf: for models that take no mask of two dimensions."""
        leaves = [node for node in range(len(tokens)) if not ancestors[node + 1 :, node].any()]
        paths = [np.flatnonzero(ancestors[leaf]) for leaf in leaves]
        copy = TransformersBatch(self._model, 1)
        copy._key_values = self._key_values.copy()
        copy.tokens = [list(self.tokens[0])]
        copy.select([0] * len(leaves))
        longest = max(map(len, paths))
        logits = copy.forward([[tokens[node] for node in path] for path in paths], keep=longest)
        where = {
            int(node): (row, longest - len(path) + at) for row, path in enumerate(paths) for at, node in enumerate(path)
        }
        return torch.stack([logits[where[node]] for node in range(len(tokens))])


def _block(tokens: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """New tokens as a right-aligned block, int64 (rows, columns), and which of its places are tokens."""
    columns = max((len(new) for new in tokens), default=0)
    if not columns:
        raise InvalidFormat("there is no new token to compute; give at least one row a token")
    ids = np.zeros((len(tokens), columns), dtype=np.int64)
    used = np.zeros((len(tokens), columns), dtype=np.bool_)
    for row, new in enumerate(tokens):
        if len(new):
            ids[row, columns - len(new) :] = new
            used[row, columns - len(new) :] = True
    return ids, used


def _logprobs(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of ids (...) in logits (..., width), or of several ids (..., n) of the same logits."""
    several = ids if ids.ndim == logits.ndim else ids.unsqueeze(-1)
    logprobs = logits.gather(-1, several) - logits.logsumexp(dim=-1, keepdim=True)
    return logprobs if ids.ndim == logits.ndim else logprobs[..., 0]


def _common(prompts: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with."""
    low, high = min(prompts), max(prompts)
    return next((index for index, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
