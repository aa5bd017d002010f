"""Many sequences in one context of llama.cpp, which share the cells of what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.errors.arguments import whole_number
from formatter_core.runtime.cursor import NotCopied
from formatter_core.runtime.history import shared_length
from formatter_llama_cpp import _compat, _compat_context
from formatter_llama_cpp.open_models import close_before_the_model, in_use
from formatter_llama_cpp.turns import Turns

__all__ = ["DecodeFailed", "Entry", "SharedContext"]


#: The default number of tokens per sequence, if the context of the `Llama` is not larger.
_SHARE = 512


class DecodeFailed(FormatterError):
    """`llama_decode` could not compute a batch; nothing of the batch is kept. `code` is what it returned."""

    def __init__(self, code: int) -> None:
        self.code = code
        reason = "there is no room for it in the context" if code == 1 else "its input or the backend is at fault"
        super().__init__(f"llama_decode returned {code}: {reason}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One token of a batch: it is appended to all `sequences`, which are equal up to it."""

    token_id: int
    sequences: tuple[int, ...]
    wants_logits: bool = False


class SharedContext(NotCopied):
    """A separate context on the model of a `Llama`; the weights are shared, the cells are new.

    `tokens[s]` are the tokens that sequence `s` holds. A cell holds one token of one or more sequences; `used` counts
    cells. A caller takes `turns` while it needs exclusive use; closing the context, or its model, waits for that.

    Args:
        llama: a `llama_cpp.Llama`; its own context is not touched.
        max_sequences: at most this many sequences.
        context_size: at most this many tokens, by default as many as the context of `llama` holds, and at least 512 for
            each sequence as far as the model was trained for that.
        batch: how many tokens one decode takes, by default as many as `llama` takes.

    Raises:
        InvalidArgument: the model cannot be used so, or a number is out of range.
        UnsupportedEngineVersion: llama-cpp-python is too old.
    """

    def __init__(
        self, llama: Any, *, max_sequences: int, context_size: int | None = None, batch: int | None = None
    ) -> None:
        self.turns = Turns()
        with in_use(llama):
            self._create(llama, max_sequences, context_size, batch)
            close_before_the_model(llama, self)

    def _create(self, llama: Any, max_sequences: int, context_size: int | None, batch: int | None) -> None:
        _compat.check_generates(llama)
        most = _compat_context.max_sequences()
        if whole_number(max_sequences, "max_sequences", 1) > most:
            raise InvalidArgument(
                f"max_sequences is {max_sequences}; a context of llama.cpp holds 1 to {most} sequences"
            )
        for argument, value in (("context_size", context_size), ("batch", batch)):
            if value is not None:
                whole_number(value, argument, 1)
        longest = max(int(llama.n_ctx()), _compat_context.trained_size(llama))
        if context_size is not None and context_size > longest * max_sequences:
            raise InvalidArgument(
                f"context_size is {context_size}, but {max_sequences} sequences of at most {longest} tokens, which is "
                f"what the Llama or its model holds, never fill more than {longest * max_sequences}",
                argument="context_size",
            )
        self.width = _compat.size(llama)
        self.batch = max(int(llama.n_batch if batch is None else batch), max_sequences)
        self.max_sequences = max_sequences
        self._llama = llama  # keeps the model
        wanted = _default_size(llama, max_sequences) if context_size is None else context_size
        # With more sequences than tokens llama.cpp aborts the process.
        self._context = _compat_context.new_context(
            llama, context_size=max(wanted, max_sequences), batch=self.batch, max_sequences=max_sequences
        )
        self.context_size = min(wanted, int(_compat.library.llama_n_ctx(self._context)))
        self._copy, self._drop = _compat_context.memory_of(self._context)
        self._batch = _compat.library.llama_batch_init(self.batch, 0, max_sequences)
        self._fields = {
            name: np.ctypeslib.as_array(getattr(self._batch, name), (self.batch,))
            for name in ("token", "pos", "n_seq_id", "logits")
        }
        self.tokens: list[list[int]] = [[] for _ in range(max_sequences)]
        self._held: list[list[int]] = [[] for _ in range(max_sequences)]  # the cells of each sequence, counted here
        self._holders: dict[int, int] = {}
        self._next_cell = 0
        self._row = np.zeros(self.width, dtype=np.single)

    @property
    def used(self) -> int:
        """The number of cells that hold a token."""
        return len(self._holders)

    def cells_of(self, parts: Iterable[tuple[int, int]]) -> int:
        """Return how many distinct cells hold the first tokens of some sequences; parts are (sequence, length)."""
        return len({cell for sequence, length in parts for cell in self._held[sequence][:length]})

    def check_open(self) -> None:
        """Refuse a closed context: its memory is freed.

        Raises:
            InvalidArgument: it was closed, by itself or with its model.
        """
        if self._context is None:
            raise InvalidArgument("the context is closed, by itself or with its model; make another one")

    def decode(self, entries: Sequence[Entry]) -> None:
        """Compute a batch, at most `batch` tokens of it; the sequences of each continue by the token.

        Raises:
            DecodeFailed: nothing of the batch is kept.
            InvalidArgument: the context is closed. So say all methods that use it.
            ConcurrentUse: another thread is using it. So say they all.
        """
        with self._used():
            fields, before = self._fields, [len(tokens) for tokens in self.tokens]
            for place, entry in enumerate(entries):
                fields["token"][place] = entry.token_id
                fields["pos"][place] = len(self.tokens[entry.sequences[0]])
                fields["n_seq_id"][place] = len(entry.sequences)
                fields["logits"][place] = entry.wants_logits
                ids = self._batch.seq_id[place]
                for index, sequence in enumerate(entry.sequences):
                    ids[index] = sequence
                    self.tokens[sequence].append(entry.token_id)
                    self._held[sequence].append(self._next_cell)
                self._holders[self._next_cell] = len(entry.sequences)
                self._next_cell += 1
            self._batch.n_tokens = len(entries)
            code = int(_compat.library.llama_decode(self._context, self._batch))
            if code:
                for sequence, length in enumerate(before):
                    self.truncate(sequence, length)
                raise DecodeFailed(code)

    def logits(self, place: int) -> NDArray[np.single]:
        """Return the logits after the batch's token at `place`, float32 (width,), valid until the next call.

        They are copied, because llama.cpp's own are freed with the context, which a sampler may close.

        Raises:
            InvalidArgument: the batch requested no logits there.
        """
        with self._used():
            pointer = _compat.library.llama_get_logits_ith(self._context, place)
            if not pointer:
                raise InvalidArgument(f"there are no logits for token {place} of the batch")
            self._row[:] = np.ctypeslib.as_array(pointer, (self.width,))
            return self._row

    def truncate(self, sequence: int, length: int) -> None:
        """Keep the first `length` tokens of a sequence."""
        if length >= len(self.tokens[sequence]):
            return
        with self._used():
            self._drop(sequence, length)
            for cell in self._held[sequence][length:]:
                self._holders[cell] -= 1
                if not self._holders[cell]:
                    del self._holders[cell]
            del self.tokens[sequence][length:], self._held[sequence][length:]

    def share(self, source: int, target: int, length: int) -> None:
        """Make `target` hold the first `length` tokens of `source`, in the same cells."""
        with self._used():
            kept = shared_length(self.tokens[target], self.tokens[source][:length])
            if self._held[target][:kept] != self._held[source][:kept] or kept < length:
                self.truncate(target, 0)
                self._copy(source, target, length)
                self.tokens[target] = self.tokens[source][:length]
                self._held[target] = self._held[source][:length]
                for cell in self._held[target]:
                    self._holders[cell] += 1
            else:
                self.truncate(target, length)

    def close(self) -> None:
        """Free the context once it is not in use; nothing but `close` may be called afterwards."""
        if self.turns.is_mine:
            self._free()
        else:
            with self.turns.wait():
                self._free()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None:
            self.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        with nullcontext() if self.turns.is_mine else self.turns.claim():
            self.check_open()
            yield

    def _free(self) -> None:
        if self._context is not None:
            self._fields = {}
            _compat.library.llama_batch_free(self._batch)
            _compat.library.llama_free(self._context)
            self._context = self._llama = None


def _default_size(llama: Any, max_sequences: int) -> int:
    return max(int(llama.n_ctx()), min(_compat_context.trained_size(llama), _SHARE * max_sequences))
