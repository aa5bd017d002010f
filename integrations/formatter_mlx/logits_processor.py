"""The hook: a logits processor that leaves each output only the tokens that its format allows next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Ordered
from typing import Any, Generic

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Result
from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.runtime.cursor import NotCopied
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.hook import wrong_model
from formatter_mlx._compat_loops import Call, Caller, caller_of
from formatter_mlx.forced_drafts import asking_drafts
from formatter_mlx.results import result_of, results_of
from formatter_mlx.sequences import HOOK, Sequence, only_ids
from formatter_mlx.vocabulary import needed_width

__all__ = ["FormatterLogitsProcessor"]

logger = logging.getLogger(__name__)


class FormatterLogitsProcessor(NotCopied, Generic[Value_co]):
    """A logits processor that allows each output only the tokens that its format allows next.

    One object serves one call of a loop, or the rows of one `BatchGenerator`, and after `reset` the next. Whatever else
    calls it gets `HookReused` before a token is chosen; in a batch, where an exception would end the other rows too,
    that row can only end, and `result` raises the cause.

    Nothing is left unconstrained: if an output cannot continue, only its end ids are allowed, and `result` raises why.

    Args:
        formats: one for all prompts; or one for each, by their numbers in the batch, None for an unconstrained prompt.
        model: the only one that it may be used with; None for any.
    """

    def __init__(
        self, formats: CompiledFormat[Value_co] | Ordered[CompiledFormat[Value_co] | None], *, model: Any = None
    ) -> None:
        self._formats = formats
        self._model = model
        self._lock = threading.Lock()
        self._needed, self._end_ids = 0, set[int]()
        for compiled in self._compiled:
            self._end_ids.update(compiled.formatter().end_ids)
            self._needed = max(self._needed, needed_width(compiled.vocabulary))
        self.reset()

    def __repr__(self) -> str:
        return f"<{HOOK} of {', '.join(map(repr, self._compiled))}>"

    @property
    def _compiled(self) -> list[CompiledFormat[Value_co]]:
        formats = [self._formats] if isinstance(self._formats, CompiledFormat) else self._formats
        return [compiled for compiled in formats if compiled is not None]

    def reset(self) -> None:
        """Get ready for another call; the outputs and errors of the last one are forgotten."""
        with self._lock:
            self._call: Call | None = None
            self._rows: dict[int, Sequence | None] = {}  # by the number of the prompt in a batch
            self._misuse: FormatterError | None = None

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return new logits, -inf wherever the format allows no token; evaluated lazily.

        Args:
            tokens: ids (length,), what the loop shows of the prompt, and what was generated.
            logits: a floating dtype, (1, width); wider than the vocabulary is fine.

        Raises:
            HookReused: another call, or another thread, unless other rows are computed in the same step.
            WrongModel: another model than the one that it was made for, likewise.
            InvalidArgument: a call whose first token no processor sees; see `caller_of`.
        """
        sequence, call = self._rows.get(0), self._call
        if sequence is not None and tokens.size == sequence.next_length and logits.size == sequence.kind.width:
            latest = None if call is None else call.latest(tokens)
            if latest is not None:
                mx.async_eval(logits)  # before the wait for the token: the model runs while the mask is made
                return sequence.masked_after(latest.item(), logits)
        return self._found(tokens, logits)

    def _found(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return new logits for a step that is not the next one of a known call."""
        caller = caller_of(tokens)
        latest = self._latest(caller, tokens)
        # The order is the point: the latest token first, then the forward pass, then the wait for the token.
        read = tokens if latest is None else latest
        mx.async_eval(read)
        mx.async_eval(logits)
        try:
            sequence = self._sequence(caller, memoryview(read), latest is not None)
            if sequence is None:
                return logits
            if logits.shape[-1] < self._needed:
                raise wrong_model(f"a tokenizer of {self._needed} ids", f"{logits.shape[-1]} logits")
        except FormatterError as error:
            if caller.before is None:
                raise
            return self._refused(error, logits)
        if caller.has_drafts and (drafts := asking_drafts()) is not None:
            return drafts.propose(sequence, logits)
        return sequence.masked(logits)

    @property
    def errors(self) -> dict[int, Exception]:
        """The errors that ended outputs early, by the numbers of their prompts in the batch."""
        found = {row: sequence.cursor.error for row, sequence in self._sequences().items() if sequence is not None}
        return {row: error for row, error in found.items() if error is not None}

    def result(self, output: Any = None) -> Result[Value_co]:
        """Return the result of the output.

        Args:
            output: what the loop returned: the text of `generate`, the last response of `stream_generate`, or the
                last one of a row of a `BatchGenerator`. Without it, what the processor was shown. In speculative
                decoding that may be more or less than what came out.

        Raises:
            HookNotCalled: the processor was never called.
            InvalidArgument: something else, or there are several outputs.
            Exception: what ended the output.
        """
        return result_of(self._sequences(), output, self._misuse)

    def results(self, outputs: Any) -> list[Result[Value_co] | None]:
        """Return the results of the outputs of a batch; for one that ended with an error, `ended` is `"error"`.

        Args:
            outputs: what `batch_generate` returned, or the last responses of a `BatchGenerator`.

        Returns:
            one for each output, in order; None where it had no format.

        Raises:
            InvalidArgument: something else, or another number of outputs than the processor has served.
        """
        return results_of(self._sequences(), outputs, self._misuse)

    def __iter__(self) -> Iterator[Any]:
        raise InvalidArgument("mlx-lm takes a list of processors; write logits_processors=[processor]")

    def _sequences(self) -> dict[int, Sequence | None]:
        return dict(sorted(self._rows.items()))

    def _latest(self, caller: Caller, tokens: mx.array) -> mx.array | None:
        """Return the latest token of each row; None if other tokens have to be read."""
        sequence = self._rows.get(caller.row)
        has_next = sequence is not None and tokens.size == sequence.next_length
        return caller.latest if has_next or caller.before is not None else None

    def _sequence(self, caller: Caller, read: memoryview, is_latest: bool) -> Sequence | None:
        """Return the state of an output after the tokens that were read; None if it has no format."""
        row, before = caller.row, caller.before
        with self._lock:
            if self._call is None:
                self._call = Call(caller, self._model)
            self._call.check(caller)
            sequence = self._rows.get(row)
            if sequence is None and row in self._rows:
                return None
            if sequence is not None and is_latest and (before is None or len(before) == len(sequence)):
                sequence.append(read[caller.index])
                return sequence
            shown = np.array(read if before is None else [*before, read[caller.index]], dtype=np.int64)
            if sequence is None:
                sequence = self._rows[row] = self._begun(row, shown, caller.has_drafts)
            else:
                sequence.follow(shown)
            return sequence

    def _begun(self, row: int, prompt: NDArray[np.int64], has_drafts: bool) -> Sequence | None:
        formats = self._formats
        if not isinstance(formats, CompiledFormat) and row >= len(formats):
            raise InvalidArgument(
                f"{len(formats)} formats were given, but there is a prompt {row}; give one for each", argument="formats"
            )
        compiled = formats if isinstance(formats, CompiledFormat) else formats[row]
        return None if compiled is None else Sequence(compiled, prompt, has_drafts)

    def _refused(self, error: FormatterError, logits: mx.array) -> mx.array:
        """Allow a refused row of a batch only its end ids: an exception would end the other rows, too."""
        if self._misuse is None:
            logger.error("row of a batch ended: %s", error)
        self._misuse = error
        return only_ids(logits, self._end_ids)
