"""The hook: a filter that leaves a job only the tokens that its format allows next."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Cursor, Event, Formatter, Result, bitmask
from formatter_core.errors import NoTokenLeft
from formatter_core.errors.arguments import utf8
from formatter_core.generation.jobs import job_result
from formatter_core.runtime.cursor import FailureLog
from formatter_core.runtime.hook import SequenceHook
from formatter_core.runtime.torch_bitmask import RowMasker
from formatter_exllamav2 import _compat, _compat_jobs, healing
from formatter_exllamav2.background import BackgroundFilter
from formatter_exllamav2.job_binding import JobBinding, fail_where_exclusive
from formatter_exllamav2.masks import AllowedIds, check_logits, masked_logits, only_these

__all__ = ["FormatterFilter"]

_failures = FailureLog(logging.getLogger(__name__))


class FormatterFilter(SequenceHook, BackgroundFilter):
    """A filter that allows a job only the tokens that its format allows next; `create_filter` explains the arguments.

    ExLlamaV2 calls it in the loop of all jobs, so nothing raises there: an error is kept, and `result` raises it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        compiled: CompiledFormat,
        *,
        end_ids: Iterable[int] | None = None,
        prefix_str: str | None = None,
        background: bool = True,
    ) -> None:
        super().__init__(model, tokenizer)
        start = compiled.formatter(end_ids)
        if prefix_str is not None:
            start.accept_bytes(utf8(prefix_str, "prefix_str"))
        self._size, self._row = len(compiled.vocabulary), np.zeros(compiled.vocabulary.words, dtype=np.int32)
        start.fill_bitmask(self._row)  # raises where nothing can come first
        self._start = Cursor(start)
        self._background = background
        self._cursor = self._start.fork()
        self._healed, self.is_written, self._may_mask = b"", False, _compat.MASKS_LOGITS
        self._own()

    @property
    def error(self) -> Exception | None:
        """The error that aborted the job; None if it was not aborted."""
        with self._lock:
            return self._cursor.error

    @property
    def formatter(self) -> Formatter:
        """A copy of the state after the tokens so far."""
        with self._lock:
            return self._cursor.formatter.fork()

    @property
    def end_ids(self) -> list[int]:
        """The ids that end an output, for the `stop_conditions` of its job."""
        return list(self._start.end_ids)

    def events(self) -> list[Event]:
        """Return the events of captures since the last call, see `Formatter.events`."""
        with self._lock:
            return self._cursor.formatter.events()

    def result(self, output: Any = None) -> Result:
        """Return the result, once the job is done.

        Args:
            output: the job's last result, with `eos_reason`, which tells whether the output was cut off.

        Raises:
            HookNotCalled: no job has called the filter.
            InvalidArgument: `output` is something else.
            Exception: what aborted the job.
        """
        self.raise_error()
        self._cursor.check_used("pass the filter in a list, generate(..., filters=[filter])")
        return job_result(self.formatter, self._start.bytes, output)

    # --- what ExLlamaV2 calls ----------------------------------------------------------------------------------

    def clone(self, c: Any = None) -> Any:
        """Return an independent copy, at the same place of the output."""
        copy = super().clone(type(self).__new__(type(self)) if c is None else c)
        with self._lock:
            copy.__dict__.update({name: value for name, value in self.__dict__.items() if name not in copy.__dict__})
            copy._cursor, copy._row = self._cursor.fork(), self._row.copy()
        copy._own()
        return copy

    def begin(self, prefix_str: Any) -> None:
        """Begin with an empty output; `healing.healed_text` says what may be given, and raises."""
        with self._lock:
            misuse = self._binding.bind_caller()
            self._healed = healing.healed_text(prefix_str)
            self._cursor, self.is_written = self._start.fork(), bool(self._healed)
            if self._healed:
                healing.fill_bitmask(self._start, self._healed, self._row)
            if misuse is not None:
                self.fail(misuse)
            self._may_mask = self._binding.may_mask and not self._cursor.has_failed

    def feed(self, token: Any) -> None:
        """Note a token that was sampled: a tensor with one element, or an int. It is accepted with the next mask."""
        with self._lock:
            token_id = _compat.token_id(token)
            if self._healed:
                self._cursor = healing.continued(self._start, self._healed, token_id)
                self._healed = b""
            else:
                self._cursor.append(token_id)
            self.is_written = False
            # Decided here, so that the next token is queued and sampled alike: lists end a job, masks cannot.
            if self._cursor.has_failed or token_id in self._start.end_ids:
                self._may_mask = False

    def can_mask_logits(self) -> bool:
        """Tell whether `mask_logits` applies the next mask, instead of `next` returning it."""
        return self._may_mask and (self._binding.has_job or not _compat_jobs.sampler_prefers_end())

    def next(self) -> tuple[Any, Any]:
        """Return the ids that may come next, sorted, and those of them that end the output: two lists, or two sets.

        None allows every id: the logits of a sampler that knows no masks are masked where it keeps them.
        """
        fail_where_exclusive(filters := self._binding.filters(FormatterFilter))
        # A filter that stands inside of another one is asked by that one, which reads lists.
        masks = self in filters and self.masks_in_next() and self.prepare_logit_mask()
        if not masks or (logits := _compat_jobs.sampled_logits()) is None:
            return self.answer()
        logits.set_(self.mask_logits(logits[0][0]).view(1, 1, -1))  # type: ignore[call-overload]
        return None, set()

    def answer(self) -> tuple[Any, Any]:
        """Return the result of `next`; a thread of the generator calls this."""
        as_lists = getattr(self, "allow_return_type_list", False)
        with self._lock:
            return self._ids.answer(self.write_row(), self._start.end_ids, self._binding.width, as_lists=as_lists)

    def prepare_logit_mask(self) -> bool:
        """Make the next mask; return True, by which ExLlamaV2 knows that it was made."""
        self.write_row()
        return True

    def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Return masked logits: float32 (width,), or as many as the sampler needs; written in place if that is safe."""
        try:
            check_logits(logits, self._size)
            least = self._binding.least_logits(self) if type(self) is FormatterFilter else None
            if (left := masked_logits(self._mask, logits, may_write=self._binding.may_write, least=least)) is not None:
                return left
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this job, and this one alone
            self.fail(error)
        fail_where_exclusive(self._binding.filters(FormatterFilter))  # others would reject the end that comes now
        if not bitmask.get(self._row, self._start.end_ids[0]):
            self.fail(NoTokenLeft(self._cursor.bytes))
        return only_these(self._start.end_ids, len(logits))  # by force: all that may come next is forbidden elsewhere

    def write_row(self) -> NDArray[np.int32]:
        """Accept the latest token and write the mask, in one call into the grammar engine, unless that was done."""
        with self._lock:
            if not self.is_written:
                self._cursor.fill_bitmask(self._row)
                self.is_written = True
                _failures.report(self._cursor, "job")
            return self._row

    def fail(self, error: Exception) -> None:
        """Allow the job only its end."""
        with self._lock:
            self._cursor.fail(error)
            self._healed, self.is_written = b"", False
            self.write_row()

    # --- inside ------------------------------------------------------------------------------------------------

    def _own(self) -> None:
        """Make what no two filters share."""
        self._lock = RLock()
        self._binding = JobBinding(self.tokenizer, self._size, self._start.end_ids, background=self._background)
        self._ids, self._mask = AllowedIds(self._row), RowMasker(self._row)
