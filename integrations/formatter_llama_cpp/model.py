"""A loaded model as a `LogitsModel`: what `completion`, `choose`, `beam_search` and loops of your own take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidArgument
from formatter_core.generation import NumpyBatch, NumpyLogits
from formatter_core.generation.batches import check_prompts, leaf_paths
from formatter_core.layouts import Layout
from formatter_core.runtime.cursor import NotCopied
from formatter_core.runtime.history import shared_length
from formatter_llama_cpp._compat import check_generates
from formatter_llama_cpp._compat_chat import chat_prompt
from formatter_llama_cpp._compat_server import layout_of
from formatter_llama_cpp.context import Entry, SharedContext
from formatter_llama_cpp.open_models import in_use
from formatter_llama_cpp.prompts import continuation
from formatter_llama_cpp.vocabulary import compiler_for

__all__ = ["LlamaBatch", "LlamaModel", "llama_model"]


def llama_model(llama: Any, *, max_sequences: int = 16, context_size: int | None = None) -> LlamaModel:
    """Make a model for `formatter_core.generation`; the context of `llama` is neither used nor changed.

    Args:
        llama: a `llama_cpp.Llama`.
        max_sequences: the maximum number of sequences in a batch.
        context_size: how many tokens a batch holds, all sequences together and shared ones once; by default as many as
            the context of `llama`.

    Raises:
        InvalidArgument: `llama` is closed, or has a vocabulary and no weights.
        InvalidVocabulary: `llama` is something else.
    """
    compiler_for(llama)
    with in_use(llama):
        check_generates(llama)
        return LlamaModel(llama, max_sequences, int(llama.n_ctx()) if context_size is None else context_size)


class LlamaModel(NotCopied, NumpyLogits):
    """Made by `llama_model`. Each `start` makes a context, which is freed with its batch.

    Attributes:
        compiler: what formats are compiled with, each once.
        max_length: how many tokens a sequence has at most, including the prompt.
    """

    def __init__(self, llama: Any, max_sequences: int, context_size: int) -> None:
        self.compiler: Compiler = compiler_for(llama)
        self.max_length = context_size
        self._llama = llama
        self._max_sequences = max_sequences

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens; as many as there are logits."""
        return self.compiler.vocabulary

    @property
    def batch_grows(self) -> bool:
        """Tell whether the next sequence of a list replaces one that ends."""
        return True

    @property
    def max_batch(self) -> int:
        """The maximum number of sequences in a batch."""
        return self._max_sequences

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt, as `Llama.create_completion` reads it."""
        with in_use(self._llama):
            return [int(token) for token in self._llama.tokenize(text.encode(), add_bos=True, special=True)]

    def encode_chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> list[int]:
        """Return the ids of a conversation up to the answer, as `Llama.create_chat_completion` writes them.

        Args:
            messages: of the conversation.
            options: what else the model's chat handler takes, such as `tools`.

        Raises:
            InvalidArgument: the handler refuses the messages.
        """
        with in_use(self._llama):
            return chat_prompt(self._llama, messages, **options)[0]

    @property
    def layout(self) -> Layout | None:
        """The layout of the model's turns, from the chat template in its file; None if it is not known."""
        return layout_of(self._llama)

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Return ids that spell exactly these bytes; None if the tokenizer has none."""
        with in_use(self._llama):
            return continuation(self._llama, self.vocabulary)(text)

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> LlamaBatch:
        """Compute prompts, each once, one a row; what they begin with alike is computed once.

        Args:
            prompts: ids, at least one each, and at most `max_sequences` of them.
            room: not needed; the context has its size from the beginning.
        """
        context = SharedContext(self._llama, max_sequences=self._max_sequences, context_size=self.max_length)
        return LlamaBatch(context, prompts)


class LlamaBatch(NotCopied, NumpyBatch):
    """A batch of sequences in one context that are computed together; made by `LlamaModel.start`.

    Only one thread at a time may use it; overlapping use raises `ConcurrentUse`. Once the model is closed, everything
    raises `InvalidArgument`.
    """

    def __init__(self, context: SharedContext, prompts: Sequence[Sequence[int]]) -> None:
        check_prompts(prompts)
        self._context = context
        self._sequences: list[int] = []
        self._logits = np.zeros((0, context.width), dtype=np.single)
        self._add(prompts)

    def add(self, prompts: Sequence[Sequence[int]]) -> None:
        """Compute more prompts, as rows after the existing ones; a beginning shared with a row is not recomputed."""
        check_prompts(prompts)
        with self._context.turns.claim():
            self._add(prompts)

    def _add(self, prompts: Sequence[Sequence[int]]) -> None:
        context = self._context
        for prompt in prompts:
            shared = [shared_length(context.tokens[sequence], list(prompt[:-1])) for sequence in self._sequences]
            (target,) = self._free(1)
            if shared:
                context.share(self._sequences[int(np.argmax(shared))], target, max(shared))
            self._sequences.append(target)
            self._logits = np.concatenate([self._logits, np.zeros_like(self._logits, shape=(1, context.width))])
            have = len(context.tokens[target])
            self._forward([*([] for _ in self._sequences[:-1]), prompt[have:]], 1)

    @property
    def logits(self) -> NDArray[np.single]:
        """Float32 (rows, width): the logits after the last token of each row."""
        return self._logits

    @property
    def tokens(self) -> list[list[int]]:
        """All tokens of each row that were computed, including the prompt."""
        return [self._context.tokens[sequence] for sequence in self._sequences]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._sequences)

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> NDArray[np.single]:
        """See `SequenceBatch.forward`."""
        with self._context.turns.claim():
            return self._forward(tokens, keep)

    def _forward(self, tokens: Sequence[Sequence[int]], keep: int) -> NDArray[np.single]:
        kept = np.full((len(tokens), keep, self._context.width), np.nan, dtype=np.single)
        places = [
            (row, at - len(new), Entry(int(token), (self._sequences[row],), len(new) - at <= keep))
            for row, new in enumerate(tokens)
            for at, token in enumerate(new)
        ]
        for (row, at, entry), logits in zip(places, self._decode([entry for _, _, entry in places]), strict=True):
            if entry.wants_logits and logits is not None:
                kept[row, at] = logits
                if at == -1:
                    self._logits[row] = logits
        return kept

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> NDArray[np.single]:
        """See `SequenceBatch.forward_tree`: each leaf has a sequence, and what leaves share is computed once."""
        with self._context.turns.claim():
            return self._forward_tree(tokens, parents)

    def _forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> NDArray[np.single]:
        paths = leaf_paths(len(self), parents)
        context, (row,) = self._context, self._sequences
        length = len(context.tokens[row])
        found = np.zeros((len(tokens), context.width), dtype=np.single)
        free = [row, *self._free(context.max_sequences - 1)]
        while paths:
            owners: dict[int, list[int]] = {}
            for sequence, path in zip(free, list(paths), strict=False):
                if owners and length + len(owners.keys() | set(path)) > context.context_size:
                    break
                paths.remove(path)
                if sequence != row:
                    context.share(row, sequence, length)
                for node in path:
                    owners.setdefault(node, []).append(sequence)
            nodes = sorted(owners)
            entries = [Entry(int(tokens[node]), tuple(owners[node]), True) for node in nodes]
            for node, logits in zip(nodes, self._decode(entries), strict=True):
                found[node] = logits
            for sequence in range(context.max_sequences):
                context.truncate(sequence, length if sequence == row else 0)
        return found

    def select(self, rows: Sequence[int]) -> None:
        """See `SequenceBatch.select`: the first of equal rows keeps its cells, the others share them."""
        with self._context.turns.claim():
            self._select(rows)

    def _select(self, rows: Sequence[int]) -> None:
        old = self._sequences
        self._sequences = [old[row] for row in dict.fromkeys(rows)]
        free = iter(self._free(len(rows) - len(self._sequences)))
        kept, chosen = set(self._sequences), list[int]()
        for row in rows:
            if old[row] in kept:
                kept.remove(old[row])
                chosen.append(old[row])
            else:
                chosen.append(next(free))
                self._context.share(old[row], chosen[-1], len(self._context.tokens[old[row]]))
        self._sequences = chosen
        self._logits = self._logits[list(rows)]

    def crop(self, lengths: Sequence[int]) -> None:
        """See `SequenceBatch.crop`."""
        with self._context.turns.claim():
            for sequence, length in zip(self._sequences, lengths, strict=True):
                self._context.truncate(sequence, length)

    def _free(self, count: int) -> list[int]:
        """Empty and return sequences that no row uses, so that their cells are free."""
        context = self._context
        free = [sequence for sequence in range(context.max_sequences) if sequence not in self._sequences]
        if len(free) < count:
            raise InvalidArgument(
                f"the batch needs {len(self) + count} sequences, but max_sequences is {context.max_sequences}",
                argument="max_sequences",
            )
        for sequence in free:
            context.truncate(sequence, 0)
        return free[:count]

    def _decode(self, entries: list[Entry]) -> Iterator[NDArray[np.single] | None]:
        """Compute tokens in as many decodes as they need; the logits after each that wants them."""
        for start in range(0, len(entries), self._context.batch):
            part = entries[start : start + self._context.batch]
            self._context.decode(part)
            for place, entry in enumerate(part):
                yield self._context.logits(place) if entry.wants_logits else None
