"""The hook: a filter that leaves a job only the tokens that its format allows next."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import torch

from formatter_core import CompiledFormat, Formatter, Result, bitmask
from formatter_core.errors import FormatterError, InvalidVocabulary, NoTokenLeft, TokenRejected
from formatter_core.runtime.result import Event
from formatter_exllamav3 import _compat
from formatter_exllamav3.masks import MaskBuffer
from formatter_exllamav3.results import result_of
from formatter_exllamav3.vocabulary import compiler_for

__all__ = ["FormatterFilter", "NotUsed", "UsedTwice", "create_filter"]

logger = logging.getLogger(__name__)

_NO_MASK_ASKED = (
    "; ExLlamaV3 asked for no mask before it sampled this token (releases before 0.0.32 ask for none behind a draft)"
)


class NotUsed(FormatterError):
    """No job has asked the filter, so nothing was constrained."""

    def __init__(self, trigger_token: int | None) -> None:
        reason = (
            "pass it in a list, Job(..., filters=[filter])"
            if trigger_token is None
            else f"its trigger token {trigger_token} may never have come"
        )
        super().__init__(f"no job has asked the filter, so nothing was constrained; {reason}")


class UsedTwice(FormatterError):
    """A second job has begun with a filter whose first job still runs; both are ended."""

    def __init__(self) -> None:
        super().__init__("two jobs at a time have the same filter, which holds one state; create one filter a job")


def create_filter(
    tokenizer: Any,
    format: Any,
    *,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    trigger_token: int | None = None,
    prefix_str: str | None = None,
    eos_after_completed: bool = True,
    background: bool = True,
) -> FormatterFilter:
    """A filter for one job at a time of `exllamav3.Generator` or `AsyncGenerator`.

    ::

        filter = create_filter(tokenizer, format)
        job = Job(input_ids=ids, max_new_tokens=200, stop_conditions=filter.end_ids, filters=[filter])
        ...  # once the job is done
        value = filter.result().value

    Args:
        tokenizer: the `exllamav3.Tokenizer` of the generator.
        format: whatever `Compiler.compile` takes.
        model: gives the width of the logits where the tokenizer was made with another model's configuration.
        end_ids: the ids that end an output, in place of those that the model's files name.
        trigger_token: the output is free up to this id, and again the next time that it comes.
        prefix_str: the text, at the end of the prompt, that the format begins with; the output goes on from there.
        eos_after_completed: whether the job ends where nothing more may follow. Otherwise the rest of its output is
            free; an id that ends an output ends it all the same.
        background: whether masks are worked out by the generator's threads while the model runs.

    Raises:
        InvalidFormat: an invalid format.
        TokenRejected: the format cannot begin with `prefix_str`.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    compiled = compiler_for(tokenizer, model=model, end_ids=end_ids).compile(format)
    return FormatterFilter(
        tokenizer,
        compiled,
        trigger_token=trigger_token,
        prefix_str=prefix_str,
        eos_after_completed=eos_after_completed,
        background=background,
    )


class FormatterFilter(_compat.Filter):  # type: ignore[misc]  # exllamav3 is not there when types are checked
    """Leaves a job only the tokens that its format allows next.

    ExLlamaV3 calls it inside the loop that drives all jobs, where an exception would take the others down. So whatever
    goes wrong is kept as `error`, the job is offered nothing but its end, and `result` raises.
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
        self.error: Exception | None = None
        """Why the job was ended; None while all is well."""
        self._start = compiled.formatter()
        if prefix_str:
            self._start.accept_bytes(prefix_str.encode("utf-8"))
        self.formatter: Formatter = self._start.fork()
        super().__init__(tokenizer, trigger_token, prefix_str, eos_after_completed)
        self._background = background
        self._buffer: MaskBuffer | None = None
        self._misuse: Exception | None = None
        self._is_used = False
        self._is_masked = False  # whether a mask was asked for since the last token

    @property
    def end_ids(self) -> list[int]:
        """The ids that end an output, for the `stop_conditions` of its job."""
        return list(self.formatter.end_ids)

    def events(self) -> list[Event]:
        """What is new of the captures since the last call, see `Formatter.events`; call it between two iterations."""
        return self.formatter.events()

    def result(self, output: Any = None) -> Result:
        """What the output turned out to be, once its job is done.

        Args:
            output: the job's last result, which holds `eos_reason`; it tells an output that was cut off from one that
                goes on.

        Raises:
            NotUsed: no job has asked the filter.
            InvalidArgument: `output` is something else.
            Exception: what ended the job early.
        """
        if self.error is not None:
            raise self.error
        if not self._is_used:
            raise NotUsed(self.trigger_token)
        return result_of(self.formatter, (self.prefix_str or "").encode("utf-8"), output)

    # --- what ExLlamaV3 calls ----------------------------------------------------------------------------------

    @property
    def eos_after_completed(self) -> bool:
        """Whether the job ends where the filter is completed: always so by an end id, or by an error."""
        return self._ends_job or self.error is not None or self.formatter.is_finished

    @eos_after_completed.setter
    def eos_after_completed(self, value: bool) -> None:
        self._ends_job = value

    @property
    def is_active(self) -> bool:
        """Whether the job asks for masks: always so after an error, or the rest of its output would be free."""
        return self._is_active or self.error is not None

    @is_active.setter
    def is_active(self, value: bool) -> None:
        self._is_active = value

    def attach(self, job: Any) -> None:
        """A job begins with this filter."""
        before = self.job
        super().attach(job)
        self._misuse = None
        self._is_used = False
        vocabulary = self.compiled.vocabulary
        if before is not None and before is not job and _compat.runs(before):
            self._misuse = UsedTwice()
        elif len(vocabulary) > self.vocab_size:
            self._misuse = InvalidVocabulary(
                f"the filter has {len(vocabulary)} token ids, but the model {self.vocab_size} logits; create it with "
                "the tokenizer of this generator"
            )

    def reset(self) -> None:
        """Begin the format anew."""
        self.formatter = self._start.fork()
        self.error = None
        self._is_masked = False
        if self._misuse is not None:
            self._fail(self._misuse)

    def use_background_worker(self) -> bool:
        """Whether masks are worked out by the generator's threads."""
        return self._background

    def get_next_logit_mask(self) -> torch.Tensor:
        """The mask for the next token: int32 (1, words), before 1.4.1 half (1, width)."""
        buffer = self._mask_buffer()
        self._is_used = self._is_masked = True
        try:
            if self.error is None:
                self.formatter.fill_bitmask(buffer.row)
                self._leave_room(buffer)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this job, and this one alone
            self._fail(error)
        return buffer.tensor() if self.error is None else self._only_the_end(buffer.width)

    def accept_token(self, token: int) -> None:
        """Take a token that was sampled."""
        self._is_used = True
        if self.error is not None:
            return
        try:
            self.formatter.accept_token(token)
        except TokenRejected as error:
            reason = error.reason if self._is_masked else error.reason + _NO_MASK_ASKED
            self._fail(TokenRejected(token, position=error.position, reason=reason))
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        self._is_masked = False

    def is_completed(self) -> bool:
        """Whether nothing may follow: the text is complete and cannot go on, it has ended, or it has failed."""
        if self.error is None:
            try:
                return self.formatter.must_stop
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)
        return True

    def rollback_tokens(self, num_tokens: int) -> bool:
        """Take back the last tokens; False where the sequence has failed, and is to be made anew from its tokens."""
        if self.error is not None:
            return False
        try:
            self.formatter.rollback(num_tokens)
        except Exception:  # noqa: BLE001 - as above; what is wrong shows when its tokens come again
            return False
        return True

    # --- inside ------------------------------------------------------------------------------------------------

    def _mask_buffer(self) -> MaskBuffer:
        width = len(self.compiled.vocabulary) if self.vocab_size is None else int(self.vocab_size)
        if self._buffer is None or self._buffer.width != width:
            self._buffer = MaskBuffer(width, packed=_compat.PACKED_MASKS)
        return self._buffer

    def _leave_room(self, buffer: MaskBuffer) -> None:
        """See to it that something is left once the job has taken out what it refuses.

        Raises:
            NoTokenLeft: the format only allows what leads to a banned string.
        """
        if self.job is None:
            return
        refused, stops = _compat.refused_ids(self.job), _compat.stop_ids(self.job)
        if not refused and not stops:
            return
        left = buffer.row.copy()
        bitmask.clear_ids(left, refused)
        if not left.any():
            raise NoTokenLeft(self.formatter.bytes)
        bitmask.clear_ids(left, stops)
        if not left.any():  # the format must end here, however short the output is
            _compat.lift_minimum(self.job)

    def _only_the_end(self, width: int) -> torch.Tensor:
        # Memory of its own, for two jobs may ask at a time where they have the same filter.
        buffer = MaskBuffer(width, packed=_compat.PACKED_MASKS)
        inside = [end for end in self.formatter.end_ids if end < width]
        # With the tokens of another model there may be none. The job ends after any other token as well.
        bitmask.set_ids(buffer.row, inside or [0])
        if self.job is not None:
            _compat.lift_minimum(self.job)
        return buffer.tensor()

    def _fail(self, error: Exception) -> None:
        self.error = error
        logger.warning("a job is ended after %d tokens: %s", len(self.formatter.tokens), error)
