"""The hook: a filter that leaves a job only the tokens that its format allows next."""

from __future__ import annotations

import logging
from typing import Any

import torch

from formatter_core import CompiledFormat, Cursor, Result, bitmask
from formatter_core.errors import NoTokenLeft, TokenRejected
from formatter_core.errors.arguments import utf8
from formatter_core.generation.jobs import job_result, misuse_of
from formatter_core.runtime.cursor import FailureLog
from formatter_core.runtime.hook import SequenceHook, ids_within
from formatter_core.runtime.result import Event
from formatter_exllamav3 import _compat
from formatter_exllamav3.job_rules import is_alone, leaves_token, mask_memory
from formatter_exllamav3.masks import MaskBuffer

__all__ = ["FormatterFilter"]

_failures = FailureLog(logging.getLogger(__name__))
_NO_MASK_ASKED = (
    "ExLlamaV3 asked for no mask before it sampled this token (releases before 0.0.32 ask for none behind a draft)"
)


class FormatterFilter(SequenceHook, _compat.Filter):  # type: ignore[misc]  # exllamav3 is not there when types are checked
    """A filter that allows a job only the tokens that its format allows next; `create_filter` explains the arguments.

    ExLlamaV3 calls the filter in the loop that drives all jobs, where an exception would end the other jobs, too. So
    the filter stores an error in `error`, allows the job only to end, and `result` raises.
    """

    def __init__(
        self,
        tokenizer: Any,
        compiled: CompiledFormat,
        *,
        trigger_token: int | None = None,
        prefix_str: str | None = None,
        eos_after_completed: bool = True,
        background: bool = True,
    ) -> None:
        self.compiled = compiled
        start = compiled.formatter()
        if prefix_str is not None:
            start.accept_bytes(utf8(prefix_str, "prefix_str"))
        self._start = Cursor(start)
        self._cursor = self._start.fork()
        super().__init__(tokenizer, trigger_token, prefix_str, eos_after_completed)
        self._background = background
        self._buffer: MaskBuffer | None = None
        self._misuse: Exception | None = None
        self._is_masked = False  # whether a mask was requested since the last token
        self._is_ready = False  # whether the next mask is known, and only has to be written

    @property
    def end_ids(self) -> list[int]:
        """The ids that end an output, for the `stop_conditions` of its job."""
        return list(self._cursor.end_ids)

    def events(self) -> list[Event]:
        """Return the events of captures since the last call, see `Formatter.events`; call it between two iterations."""
        return self._cursor.formatter.events()

    def result(self, output: Any = None) -> Result:
        """Return the result once the job is done.

        Args:
            output: the job's last result, which holds `eos_reason`: it tells whether the output was cut off.

        Raises:
            HookNotCalled: no job has called the filter.
            InvalidArgument: `output` is not a job's result.
            Exception: the error that aborted the job.
        """
        self.raise_error()
        trigger = self.trigger_token
        never = "" if trigger is None else f"; or its trigger token {trigger} never came"
        self._cursor.check_used(f"pass the filter in a list, Job(..., filters=[filter]){never}")
        formatter = self._cursor.formatter
        return job_result(formatter, self._start.bytes, output, is_over=formatter.must_stop)

    # --- what ExLlamaV3 calls ----------------------------------------------------------------------------------

    @property
    def eos_after_completed(self) -> bool:
        """Tell whether the job ends when the filter is completed; it always does after an end id or an error."""
        return self._ends_job or self.error is not None or self._cursor.formatter.is_finished

    @eos_after_completed.setter
    def eos_after_completed(self, value: bool) -> None:
        self._ends_job = value

    @property
    def is_active(self) -> bool:
        """Tell whether the job asks for masks; it does after an error, or the rest of its output would be free."""
        return self._is_active or self._cursor.has_failed

    @is_active.setter
    def is_active(self, value: bool) -> None:
        self._is_active = value
        if not value:  # then the job does with its memory what it likes
            self._is_ready, self._buffer = False, None

    def attach(self, job: Any) -> None:
        """Attach the filter to a job that begins."""
        before = self.job
        super().attach(job)
        self._cursor.is_used = False
        self._misuse = misuse_of(
            job,
            self.tokenizer,
            size=len(self.compiled.vocabulary),
            width=self.vocab_size,
            is_busy=before is not None and before is not job and _compat.runs(before),
            keeps_silent=None if _compat.PACKED_MASKS else "ExLlamaV3 before 1.4.1",
        )

    def reset(self) -> None:
        """Begin the format again."""
        is_used, self._is_masked, self._is_ready = self._cursor.is_used, False, False
        self._cursor = self._start.fork()
        self._cursor.is_used = is_used
        if self._misuse is not None:
            self._cursor.fail(self._misuse)

    def use_background_worker(self) -> bool:
        """Tell whether a thread of the generator makes the next mask.

        The generator asks three times per mask and gets one answer.
        """
        return self._background and not self._is_ready

    def get_next_logit_mask(self) -> torch.Tensor:
        """Return the mask for the next token: int32 (1, words), before 1.4.1 half (1, width)."""
        cursor, buffer = self._cursor, self._mask_buffer()
        self._is_masked = True
        if not cursor.has_failed:
            cursor.fill_bitmask(buffer.text)
            try:
                if not leaves_token(self.job, buffer.row):
                    cursor.fail(NoTokenLeft(cursor.bytes))
            except Exception as error:  # noqa: BLE001 - any error ends this job and no other
                cursor.fail(error)
        return self._only_the_end(buffer.width) if cursor.has_failed else buffer.tensor(mask_memory(self.job))

    def accept_token(self, token: int) -> None:
        """Take a token that was sampled."""
        cursor = self._cursor
        if not self._is_masked and not cursor.has_failed and not cursor.count_valid([token]):
            cursor.fail(TokenRejected(token, position=cursor.length, reason=_NO_MASK_ASKED))
        cursor.append(token)
        self._is_masked = self._is_ready = False

    def is_completed(self) -> bool:
        """Tell whether nothing may follow: the text is complete and cannot continue, it has ended, or it has failed."""
        cursor = self._cursor
        must_stop = cursor.must_stop_or_wait()
        self._is_ready = must_stop is False and is_alone(self.job)
        if cursor.has_failed:
            _failures.report(cursor, "job")
        return must_stop is True

    def rollback_tokens(self, num_tokens: int) -> bool:
        """Take back the last tokens; False after a failure: ExLlamaV3 then resets the filter and feeds the tokens."""
        self._is_ready = False
        if self.error is None:
            self._cursor.rollback(num_tokens)
            return not self._cursor.has_failed
        return False

    # --- inside ------------------------------------------------------------------------------------------------

    def _mask_buffer(self) -> MaskBuffer:
        width = len(self.compiled.vocabulary) if self.vocab_size is None else int(self.vocab_size)
        if self._buffer is None or self._buffer.width != width:
            words = self.compiled.vocabulary.words
            self._buffer = MaskBuffer(width, packed=_compat.PACKED_MASKS, words=words)
        return self._buffer

    def _only_the_end(self, width: int) -> torch.Tensor:
        _failures.report(self._cursor, "job")
        # Separate memory: two jobs with the same filter may call at the same time.
        buffer = MaskBuffer(width, packed=_compat.PACKED_MASKS)
        bitmask.set_ids(buffer.row, ids_within(self._cursor.end_ids, width))
        if self.job is not None:
            _compat.lift_minimum(self.job)
        return buffer.tensor()
