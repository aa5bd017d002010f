"""The hook: a filter that leaves a job only the tokens that its format allows next."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import torch
from numpy.typing import NDArray

from formatter_core import CompiledFormat, Formatter, Result, bitmask
from formatter_core.errors import FormatterError, InvalidArgument, NoTokenLeft
from formatter_core.runtime.result import Event
from formatter_exllamav2 import _compat
from formatter_exllamav2.masks import AllowedIds, LogitsMask
from formatter_exllamav2.results import result_of
from formatter_exllamav2.sequence import Sequence
from formatter_exllamav2.vocabulary import compiler_for

__all__ = ["FormatterFilter", "NotUsed", "UsedTwice", "create_filter"]

logger = logging.getLogger(__name__)


class NotUsed(FormatterError):
    """No generator has asked the filter, so nothing was constrained."""

    def __init__(self) -> None:
        super().__init__("no generator has asked the filter, so nothing was constrained; pass it as filters=[filter]")


class UsedTwice(FormatterError):
    """A job begins with a filter whose job before still runs."""

    def __init__(self) -> None:
        super().__init__("two jobs at a time have the same filter, which holds one state; create one filter a job")


def create_filter(
    tokenizer: Any,
    format: Any,
    *,
    model: Any = None,
    end_ids: Iterable[int] | None = None,
    prefix_str: str | None = None,
    background: bool = True,
) -> FormatterFilter:
    """A filter for one job at a time of `ExLlamaV2DynamicGenerator`, or for one of the other generators.

    ::

        filter = create_filter(tokenizer, format)
        text = generator.generate(prompt, max_new_tokens=200, filters=[filter], stop_conditions=filter.end_ids)
        value = filter.result().value

    Args:
        tokenizer: the `ExLlamaV2Tokenizer` of the generator.
        format: whatever `Compiler.compile` takes.
        model: gives the width of the logits where the tokenizer was made with another model's configuration.
        end_ids: the ids that end an output, in place of those that the model's files name.
        prefix_str: the text, at the end of the prompt, that the format begins with; the output goes on from there.
        background: whether masks are worked out by the generator's threads while the model runs.

    Raises:
        InvalidFormat: an invalid format.
        TokenRejected: the format cannot begin with `prefix_str`.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    compiled = compiler_for(tokenizer, model=model, end_ids=end_ids).compile(format)
    return FormatterFilter(model, tokenizer, compiled, prefix_str=prefix_str, background=background)


class FormatterFilter(_compat.Filter):  # type: ignore[misc]  # exllamav2 is not there when types are checked
    """Leaves a job only the tokens that its format allows next, in the way that this release of ExLlamaV2 asks for.

    It is asked inside the loop that drives all jobs, where an exception would take the others down. So whatever goes
    wrong with an output is kept as `error`, the job is offered nothing but its end, and `result` raises. Only misuse
    that shows when a job begins is raised there.

    Args:
        model: kept for other code that asks a filter for it; may be None.
        tokenizer: the `ExLlamaV2Tokenizer` of the generator.
        compiled: the format, compiled with `create_vocabulary(tokenizer)`.
        end_ids: the ids that end an output, in place of the vocabulary's.
        prefix_str: see `create_filter`.
        background: see `create_filter`.
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
        self.background_result: Future[Any] | None = None
        super().__init__(model, tokenizer)
        start = compiled.formatter(end_ids)
        if prefix_str:
            start.accept_bytes(prefix_str.encode("utf-8"))
        self._background = background
        self._job: ReferenceType[Any] | None = None
        self._is_alone = True
        self._may_write = False
        self._is_told = False
        self._width = _compat.padded_width(tokenizer, model, len(compiled.vocabulary))
        self._use(Sequence(start))

    # --- what ExLlamaV2 calls ----------------------------------------------------------------------------------

    def clone(self, c: Any = None) -> Any:
        """An independent copy, in the same place of the output."""
        self.background_drop()
        copy = super().clone(type(self).__new__(type(self)) if c is None else c)
        copy.__dict__.update({name: value for name, value in self.__dict__.items() if name not in copy.__dict__})
        copy.background_result = None  # which upstream leaves out
        copy._job = None
        copy._use(self._sequence.fork())
        return copy

    def begin(self, prefix_str: Any) -> None:
        """Begin with an empty output.

        Args:
            prefix_str: the text of the prompt's last token where a generator heals it, otherwise "" or None; or a list
                with one such text.

        Raises:
            UsedTwice: the job before still runs.
            InvalidArgument: no such text, or one that cannot be healed.
        """
        self.background_drop()
        self._join(_compat.calling_job())
        self._sequence.begin(_healed(prefix_str))
        self._by_list = False

    def feed(self, token: Any) -> None:
        """Note a token that was sampled: a tensor with one element, or an int."""
        try:
            self._sequence.append(int(token))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
            self._sequence.fail(error)
        # Decided here, so that the next token is queued and sampled alike: lists end a job, masks cannot.
        self._by_list = self._sequence.can_only_end

    def use_background_worker(self) -> bool:
        """Whether masks are worked out beside the forward pass."""
        return self._background

    def can_mask_logits(self) -> bool:
        """Whether the next mask is applied by `mask_logits`, not returned by `next`."""
        # What is queued beside a filter that stays in the foreground is read as a list.
        return _compat.MASKS_LOGITS and not self._by_list and (self._background or self._is_alone)

    def next(self) -> tuple[Any, Any]:
        """The ids that may come next, sorted, and those of them that end the output.

        Two lists, or two sets where this release takes nothing else.
        """
        self._fail_where_filters_exclude_each_other()
        row = self._sequence.advance()
        ends = [token_id for token_id in self._sequence.end_ids if bitmask.get(row, token_id)]
        if getattr(self, "allow_return_type_list", False):
            return self._ids.as_list(row), ends
        return self._ids.as_set(row), set(ends)

    def prepare_logit_mask(self) -> bool:
        """Work out the next mask; always True, which is how ExLlamaV2 knows that it was done."""
        row = self._sequence.advance()
        self._mask.prepare(row, self._sequence.version, self._width)
        return True

    def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits with -inf for what is not allowed.

        Args:
            logits: float32 (width,), on the CPU; written to where the job has no other filter and does not return
                its logits.

        Returns:
            float32 (width,): `logits`, or memory that the next call uses again.
        """
        try:
            values = _values(logits)
            self._width = len(values)
            self._mask.prepare(self._sequence.row, self._sequence.version, self._width)
            masked = self._mask.apply(values, in_place=self._may_write)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
            self._sequence.fail(error)
            masked = None
        if masked is None:
            return self._only_ends(len(logits))
        return logits if masked is values else torch.from_numpy(masked)

    def background_next(self, pool: Executor) -> None:
        """Call `next` in a thread of the pool."""
        # Behind drafts, releases before 0.2.7 ask once for each token that was kept, and the first time is enough.
        if self.background_result is None:
            self.background_result = pool.submit(self.next)

    def background_prepare_logit_mask(self, pool: Executor) -> None:
        """Call `prepare_logit_mask` in a thread of the pool."""
        if self.background_result is None:
            self.background_result = pool.submit(self.prepare_logit_mask)

    def background_drop(self) -> None:
        """Wait for what runs in a thread, and forget it."""
        running = self.background_result
        if running is not None:
            running.exception()
            self.background_result = None

    def get_next(self, mask: bool = False) -> Any:
        """What `next` or `prepare_logit_mask` gives.

        Whichever of them a thread was asked for, as another filter of the job can make them differ: what takes long is
        the same.
        """
        running = self.background_result
        if running is not None:
            self.background_result = None
            if running.exception() is None and mask and running.result() is True:
                return True
        return self.prepare_logit_mask() if mask else self.next()

    # --- what a user asks --------------------------------------------------------------------------------------

    @property
    def error(self) -> Exception | None:
        """Why the output was ended; None while all is well."""
        return self._sequence.error

    @property
    def end_ids(self) -> list[int]:
        """The ids that end an output, sorted: what `stop_conditions` must hold."""
        return list(self._sequence.end_ids)

    @property
    def formatter(self) -> Formatter:
        """A copy of the state after all tokens of the output."""
        return self._sequence.formatter()

    def events(self) -> list[Event]:
        """What is new in the output since the last call: holes opened, text added, values completed."""
        return self._sequence.events()

    def result(self, output: Any = None) -> Result:
        """What the output turned out to be.

        Args:
            output: the job's last result, which holds `eos_reason`; it tells an output that was cut off from one that
                goes on.

        Raises:
            NotUsed: no generator has asked the filter.
            BaseException: what ended the output early.
        """
        if not self._sequence.is_used:
            raise NotUsed
        result = result_of(self._sequence, output)
        if self._sequence.error is not None:
            raise self._sequence.error
        return result

    # --- inside ------------------------------------------------------------------------------------------------

    def _use(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self._mask = LogitsMask(len(sequence.row))
        self._ids = AllowedIds(sequence.row)
        self._by_list = sequence.can_only_end

    def _join(self, job: Any) -> None:
        before = None if self._job is None else self._job()
        if before is not None and before is not job and _compat.runs(before):
            raise UsedTwice
        self._job = None if job is None else ref(job)
        self._is_alone = job is None or len(job.filters) == 1
        self._may_write = job is not None and self._is_alone and not _compat.returns_logits(job)
        if job is not None and not self._is_told and _compat.stop_tokens(job).isdisjoint(self._sequence.end_ids):
            self._is_told = True
            logger.warning(
                "stop_conditions holds none of the ids %s that end an output, so each job takes a token more to end; "
                "pass stop_conditions=filter.end_ids",
                self.end_ids,
            )

    def _fail_where_filters_exclude_each_other(self) -> None:
        """Of lists that have nothing in common ExLlamaV2 raises, so the formats of one job are looked at together."""
        job = None if self._job is None else self._job()
        formats = [] if job is None else [each for each in job.filters if isinstance(each, FormatterFilter)]
        if len(formats) < 2:
            return
        rows = [each._sequence.advance() for each in formats]
        if len({len(row) for row in rows}) == 1 and not np.bitwise_and.reduce(rows).any():
            for each in formats:
                each._sequence.fail(NoTokenLeft(self._sequence.formatter().bytes))

    def _only_ends(self, width: int) -> torch.Tensor:
        """Where all that may come next is forbidden elsewhere: the end, by force; with an error unless it may come."""
        sequence = self._sequence
        if not bitmask.get(sequence.row, sequence.end_ids[0]):
            sequence.fail(NoTokenLeft(sequence.formatter().bytes))
        masked = torch.full((width,), -torch.inf)
        masked[[token_id for token_id in sequence.end_ids if token_id < width]] = 0
        return masked


def _values(logits: torch.Tensor) -> NDArray[np.float32]:
    if logits.dtype != torch.float32:
        raise InvalidArgument(f"the logits are {logits.dtype}, but the sampler of ExLlamaV2 takes float32")
    values: NDArray[np.float32] = logits.numpy()
    return values


def _healed(prefix: Any) -> str:
    """The text that a generator passes to `begin`."""
    if isinstance(prefix, (list, tuple)):
        if len(prefix) > 1:
            raise InvalidArgument(f"a filter follows one output, not {len(prefix)}; create one filter for each prompt")
        prefix = prefix[0] if prefix else None
    if prefix is None or isinstance(prefix, str):
        return prefix or ""
    raise InvalidArgument(f"begin takes the text of the prompt's last token or None, not a {type(prefix).__name__}")
