"""Run the generation loop: compute sequences together, one token after the other, on any `LogitsModel`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import PromptTooLong
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.deadlines import Cancelled, is_to_end
from formatter_core.generation.draws import uniforms
from formatter_core.generation.forced import LoopForcedText, only_id
from formatter_core.generation.models import (
    NO_VALUES,
    BatchSampler,
    Finished,
    FormatEvent,
    GenerationEvent,
    LogitsModel,
    MixedSampling,
    Picked,
    SequenceBatch,
    StreamedValues,
    TextDelta,
)
from formatter_core.generation.results import ChosenToken, Generated, TokenScore
from formatter_core.generation.sampling import SamplingRows
from formatter_core.generation.written import Written, no_token
from formatter_core.runtime import bitmask
from formatter_core.runtime.cursor import Cursor

__all__ = ["ENOUGH_LEFT", "LoopSettings", "Row", "Runner", "ended", "news", "open_rows", "run_batches", "run_together"]

#: The number of steps for which a batch reserves room at once.
_ROOM = 256
#: The size limit of the logits of drafts, in bytes of float32.
_MAX_DRAFT_BYTES = 64 * 2**20
#: Finished rows are dropped once at most this share of the rows is unfinished, because dropping copies the unfinished
#: rows.
ENOUGH_LEFT = 0.75


@dataclass(frozen=True)
class LoopSettings:
    """The settings that all sequences of a call share.

    Attributes:
        forced_text: which tokens are taken without asking the model.
        stop_ids: ids that end an output.
        stops: byte strings that end an output.
        ignore_eos: whether to forbid the end ids.
        streams: whether to send events other than `Finished`.
        values: the events to send about values while they are written.
        cancelled: tells whether to end the unfinished outputs.
        most_rows: the maximum number of sequences computed together, if others can follow them in the same batch; 0
            means all.
    """

    forced_text: LoopForcedText
    stop_ids: frozenset[int] = frozenset()
    stops: tuple[bytes, ...] = ()
    ignore_eos: bool = False
    streams: bool = False
    values: StreamedValues = NO_VALUES
    cancelled: Cancelled = lambda: False
    most_rows: int = 0

    def until(self, cancelled: Cancelled | None, timeout: float | None = None) -> LoopSettings:
        """Return the same settings with a function that tells when to stop, and a time limit that starts now.

        Raises:
            InvalidArgument: an argument is of another kind.
        """
        ends = is_to_end(cancelled, timeout)
        return self if ends is None else replace(self, cancelled=ends)


@dataclass(eq=False, kw_only=True)
class Row(Written):
    """A sequence of the loop.

    Attributes:
        prompt: the index of its prompt in the call.
        sample: the index of the sample among those of its prompt.
        key: determines its draws.
        sampler: chooses its tokens.
        scores: the scores to compute for each token.
        resumed: the output that it continues.
        forced: the number of pending tokens that were taken without asking the model.
        drafts: tokens that may follow, which the next pass verifies.
        passes: the number of forward passes that it took part in.
        prompt_chosen: the requested scores of the prompt's tokens.
        draws: the number of its drafts so far.
        log_weight: see `Generated`.
        cached: the number of prompt tokens that came from the model's cache.
    """

    prompt: int
    sample: int
    key: int
    sampler: BatchSampler
    scores: ScoreSettings
    resumed: Generated | None = None
    forced: int = 0
    drafts: list[int] = field(default_factory=list)
    passes: int = 0
    prompt_chosen: tuple[ChosenToken | None, ...] = ()
    reported_tokens: int = 0
    reported_scores: int = 0
    draws: int = 1
    log_weight: float | None = None
    cached: int = 0

    def fork(self) -> Row:
        """Return a copy that continues independently."""
        return replace(
            self,
            cursor=None if self.cursor is None else Cursor(self.cursor.formatter.fork()),
            text=self.text.fork(),
            tokens=[*self.tokens],
            chosen=[*self.chosen],
            pending=[*self.pending],
            drafts=[],
        )

    def generated(self) -> Generated:
        """Return the output, which begins with the output that it continues."""
        new, earlier = super().generated(), self.resumed or Generated((), b"", "length", prompt=self.before)
        return replace(
            new,
            tokens=(*earlier.tokens, *new.tokens),
            chosen=(*earlier.chosen, *new.chosen),
            prompt=earlier.prompt,
            passes_saved=earlier.passes_saved + max(0, len(self.tokens) - 1 - self.passes),
            prompt_chosen=earlier.prompt_chosen or self.prompt_chosen[: len(earlier.prompt)],
            passes=earlier.passes + self.passes,
            draws=self.draws,
            log_weight=self.log_weight,
            cached_tokens=earlier.cached_tokens if self.resumed else self.cached,
        )


#: Writes open sequences to their ends, together.
Runner: TypeAlias = "Callable[[LogitsModel, Sequence[Row], LoopSettings], Iterator[GenerationEvent]]"


def open_rows(model: LogitsModel, rows: Sequence[Row]) -> list[Row]:
    """Return the sequences that can be written; the other ones have failed."""
    for row in rows:
        if row.stopped is None and row.room < 1:
            row.fail(PromptTooLong(len(row.before), model.max_length))
    return [row for row in rows if row.stopped is None]


def run_together(model: LogitsModel, rows: Sequence[Row], settings: LoopSettings) -> Iterator[GenerationEvent]:
    """Write sequences to their ends; each ends with a `Finished` event."""
    if rows:
        yield from _Together(model, rows, settings).run()


def run_batches(
    model: LogitsModel, parts: Sequence[Sequence[Row]], settings: LoopSettings, runner: Runner = run_together
) -> Iterator[GenerationEvent]:
    """Write sequences to their ends, one part after the other; each ends with a `Finished`, at once if it has failed.

    An error of the model or the sampler is raised only while no output is finished. Later, it ends the unfinished
    sequences of the batch, so that the finished outputs are kept.
    """
    finished: set[tuple[int, int]] = set()
    for part in parts:
        if settings.cancelled():
            yield from ended(part, settings)
            continue
        try:
            ready = open_rows(model, part)
            failed = [event for row in part if row.stopped is not None for event in news(row, settings)]
            for event in chain(failed, runner(model, ready, settings)):
                if isinstance(event, Finished):
                    finished.add((event.prompt, event.sample))
                yield event
        except Exception as error:  # any error of the model or the sampler
            if not finished:
                raise
            for row in part:
                if (row.prompt, row.sample) not in finished:
                    if row.stopped is None:
                        row.fail(error)
                    yield from news(row, settings)


class Drafted:
    """A row with its drafts, and the mask before each draft and after the last one."""

    def __init__(self, index: int, row: Row, mask: NDArray[np.int32]) -> None:
        self.index = index
        self.row = row
        self.masks = [mask.copy()]
        self.drafts = row.drafts
        if row.drafts and row.cursor is not None:
            trial = Cursor(row.cursor.formatter.fork())
            for token in row.drafts:
                trial.append(token)
                self.masks.append(np.zeros_like(mask))
                trial.fill_bitmask(self.masks[-1])


class _Together:
    """The sequences of one batch: `rows[i]` is row `i` of the batch, or None once that sequence has ended."""

    def __init__(self, model: LogitsModel, rows: Sequence[Row], settings: LoopSettings) -> None:
        self._model = model
        self._settings = settings
        self._has_formats = any(row.cursor is not None for row in rows)
        asked = [row.scores for row in rows]
        most = max(asked, key=lambda scores: scores.top)
        #: The scores that any row needs; a row that needs fewer gets fewer.
        self._scores = replace(most, logprob=any(scores.logprob for scores in asked))
        self._is_mixed = any(scores != self._scores for scores in asked)
        # A model may offer spans, which name for a profiler the work between forward passes.
        self._span: Callable[[str], AbstractContextManager[Any]] = getattr(model, "span", nullcontext)
        self._most_rows = settings.most_rows or len(rows)
        self._waiting = deque(rows[self._most_rows :])
        first = rows[: self._most_rows]
        if self._scores.prompt:
            score_prompt: Callable[..., Sequence[ChosenToken | None]] = getattr(model, "score_prompt")  # noqa: B009
            found: dict[Any, tuple[ChosenToken | None, ...]] = {}
            for row in rows:
                key = row.before, row.scores
                if key not in found:
                    found[key] = tuple(score_prompt(row.before, row.scores))
                row.prompt_chosen = found[key]
        prompts = list(dict.fromkeys(row.before for row in first))
        place = {prompt: index for index, prompt in enumerate(prompts)}
        self._batch: SequenceBatch = model.start(prompts, room=min(_ROOM, max(row.room for row in first)))
        cached: Sequence[int] = getattr(self._batch, "cached", ())  # models may omit it
        for row in first:
            row.cached = cached[place[row.before]] if cached else 0
        self._batch.select([place[row.before] for row in first])
        self._rows: list[Row | None] = list(first)
        self._bits = self._masks(len(first))

    def _masks(self, rows: int) -> NDArray[np.int32]:
        """Return masks for rows without a format."""
        masks = bitmask.allocate(rows, len(self._model.vocabulary), fill="all")
        if self._settings.ignore_eos:
            for bits in masks:
                bitmask.clear_ids(bits, self._model.vocabulary.end_ids)
        return masks

    def run(self) -> Iterator[GenerationEvent]:
        settings = self._settings
        while True:
            if settings.cancelled():
                yield from ended([row for row in (*self._rows, *self._waiting) if row is not None], settings)
                return
            self._admit()
            self._look_ahead()
            for index, row in enumerate(self._rows):
                if row is not None:
                    is_over = row.stopped is not None and not (row.forced and _scores_forced(row))
                    yield from news(row, settings, is_over)
                    if is_over:
                        self._batch.remember(index)
                        self._rows[index] = None
            if not any(self._rows):
                if not self._waiting:
                    return
                continue
            self._drop()
            self._step()

    def _admit(self) -> None:
        """Let waiting sequences take the places of those that have ended."""
        free = self._most_rows - sum(row is not None for row in self._rows)
        if not self._waiting or not free:
            return
        self._keep([index for index, row in enumerate(self._rows) if row is not None])
        new = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        add: Callable[[Sequence[Sequence[int]]], None] = getattr(self._batch, "add")  # noqa: B009
        add([row.before for row in new])
        self._rows += new
        self._bits = np.concatenate([self._bits, self._masks(len(new))])

    def _look_ahead(self) -> None:
        """Compute what each sequence may take next, after it has taken the tokens that need no model."""
        open_rows = [(index, row) for index, row in enumerate(self._rows) if row is not None and row.stopped is None]
        if not self._has_formats:
            return
        forcing = [pair for pair in open_rows if self._forces(pair[1])]
        if self._settings.forced_text == "canonical":
            for _, row in forcing:
                for canonical in row.canonical(self._model.encode_continuation):
                    if row.stopped is None:
                        self._take(row, canonical, forced=True)
        self._fill([(index, row) for index, row in open_rows if row.stopped is None])
        for index, row in forcing:
            bits = self._bits[index]
            while row.stopped is None and (token := only_id(bits)) is not None:
                self._take(row, token, forced=True)
                if row.stopped is None:
                    self._fill([(index, row)])
        if self._settings.forced_text == "drafts":
            most = max(0, _MAX_DRAFT_BYTES // (4 * len(self._model.vocabulary) * len(self._rows)) - 1)
            for _, row in forcing:
                # In the first pass nothing is pending: the logits after the prompt are already computed.
                row.drafts = row.canonical(self._model.encode_continuation)[:most] if row.pending else []

    def _forces(self, row: Row) -> bool:
        """Return whether forced text is taken without the model; lists of best tokens need scores at every position."""
        is_scored = row.scores.top or row.scores.rank
        return self._settings.forced_text != "off" and row.cursor is not None and not is_scored

    def _fill(self, rows: Sequence[tuple[int, Row]]) -> None:
        """Write the masks of these sequences."""
        cursors = [(index, row, row.cursor) for index, row in rows if row.cursor is not None]
        if cursors:
            with self._span("formatter: masks"):
                Cursor.step_batch([cursor for *_, cursor in cursors], self._bits, [index for index, *_ in cursors])
            for _, row, cursor in cursors:
                if cursor.has_failed:
                    row.check()

    def _drop(self) -> None:
        left = [index for index, row in enumerate(self._rows) if row is not None]
        if len(left) <= ENOUGH_LEFT * len(self._rows):
            self._keep(left)

    def _keep(self, rows: list[int]) -> None:
        self._batch.select(rows)
        self._rows = [self._rows[index] for index in rows]
        self._bits = self._bits[rows]

    def _step(self) -> None:
        """Compute the pending tokens, then choose a token for each sequence that continues."""
        settings, rows = self._settings, self._rows
        if any(row is not None and row.drafts for row in rows) and not any(
            row is not None and row.stopped is None and (not row.pending or (row.forced and _scores_forced(row)))
            for row in rows
        ):
            self._step_with_drafts()
            return
        pending = [[] if row is None else row.pending for row in rows]
        scored = None
        if any(pending):
            if any(row.forced and _scores_forced(row) for row in rows if row is not None):
                scored = self._batch.forward_scored(pending)
            else:
                self._batch.forward(pending)
        picked = self._model.pick(
            self._batch.logits,
            self._bits if self._has_formats or settings.ignore_eos else None,
            _sampler_of(rows),
            _sampling_rows([(row, () if row is None else row.tokens) for row in rows]),
            scores=self._scores,
            scored=scored,
        )
        for index, row in enumerate(rows):
            if row is None:
                continue
            if row.pending:
                if picked.scored is not None and _scores_forced(row):
                    _score_forced(row, picked.scored[index])
                row.passes += 1
                row.pending, row.forced = [], 0
            if row.stopped is None:
                self._take_picked(row, picked, index)

    def _step_with_drafts(self) -> None:
        """Do a `_step` in which each row also computes its drafts, and keeps them as long as its sampler draws the same
        tokens.
        """
        drafted = [
            Drafted(index, row, self._bits[index])
            for index, row in enumerate(self._rows)
            if row is not None and row.stopped is None
        ]
        new: list[list[int]] = [[] if row is None else [*row.pending] for row in self._rows]
        for one in drafted:
            new[one.index] += one.drafts
        keep = max(len(one.masks) for one in drafted)
        logits = self._batch.forward(new, keep=keep)
        places = [(one, at) for one in drafted for at in range(len(one.masks))]
        at_rows = [one.index for one, _ in places]
        at_places = [keep - len(one.masks) + at for one, at in places]
        picked = self._model.pick(
            logits[at_rows, at_places],
            np.stack([one.masks[at] for one, at in places]),
            _sampler_of([one.row for one, _ in places]),
            _sampling_rows([(one.row, (*one.row.tokens, *one.drafts[:at])) for one, at in places]),
            scores=self._scores,
        )
        lengths = [len(tokens) for tokens in self._batch.tokens]
        start = 0
        for one in drafted:
            kept = self._keep_drawn(one, picked, start)
            lengths[one.index] -= len(one.drafts) - kept
            start += len(one.masks)
        if any(one.row.stopped is None for one in drafted) and lengths != [len(one) for one in self._batch.tokens]:
            self._batch.crop(lengths)

    def _keep_drawn(self, one: Drafted, picked: Picked, start: int) -> int:
        """Take the tokens of a row up to the first that differs from its draft; return how many drafts were kept."""
        row = one.row
        row.passes += 1
        row.pending, row.forced, row.drafts = [], 0, []
        for at in range(len(one.masks)):
            token = self._take_picked(row, picked, start + at)
            if token is None:
                return at
            row.pending = [token]
            if row.stopped is not None or at == len(one.drafts) or token != one.drafts[at]:
                return at
        return len(one.drafts)

    def _take_picked(self, row: Row, picked: Picked, index: int) -> int | None:
        """Take the token that was picked for a row, and return it; a row fails if no token could be picked."""
        if not picked.is_sound[index]:
            row.fail(no_token())
            return None
        token = int(picked.tokens[index])
        chosen = picked.chosen[index] if picked.chosen else None
        if chosen is not None and self._is_mixed:
            chosen = _as_asked(chosen, row.scores)
        self._take(row, token, chosen)
        return token

    def _take(self, row: Row, token: int, chosen: ChosenToken | None = None, *, forced: bool = False) -> None:
        row.take(token, self._model.vocabulary, self._settings.stop_ids)
        row.forced += forced
        if forced and row.scores.logprob:
            chosen = ChosenToken(token, 0.0, None)
        if chosen is not None:
            row.chosen.append(chosen)


def news(row: Row, settings: LoopSettings, is_over: bool = True) -> Iterator[GenerationEvent]:
    """Yield the new events of a sequence."""
    events = row.new_events() if settings.streams else []
    values: list[GenerationEvent] = []
    if settings.values and (is_over or row.reported_tokens < len(row.tokens)):
        values = row.new_values(row.prompt, row.sample, settings.values)
    output = row.generated() if is_over else None
    if settings.streams:
        tokens = tuple(row.tokens[row.reported_tokens :])
        row.reported_tokens = len(row.tokens)
        known = len(row.chosen) - (row.forced if _scores_forced(row) and not is_over else 0)
        chosen = tuple(row.chosen[row.reported_scores : known])
        row.reported_scores += len(chosen)
        if (text := row.new_text()) or tokens or chosen:
            yield TextDelta(row.prompt, row.sample, text, tokens, chosen)
        for event in events:
            yield FormatEvent(row.prompt, row.sample, event)
        yield from values
    if output is not None:
        yield Finished(row.prompt, row.sample, output)


def ended(rows: Sequence[Row], settings: LoopSettings) -> Iterator[GenerationEvent]:
    """End the sequences that were cancelled."""
    for row in rows:
        if row.stopped is None:
            row.stop("cancelled")
        yield from news(row, settings)


def _sampler_of(rows: Sequence[Row | None]) -> BatchSampler:
    """Return the sampler of all rows; a row that has ended may have any sampler."""
    some = next(row.sampler for row in rows if row is not None)
    samplers = [some if row is None else row.sampler for row in rows]
    return some if all(sampler is some for sampler in samplers) else MixedSampling(samplers)


def _sampling_rows(places: Sequence[tuple[Row | None, Sequence[int]]]) -> SamplingRows:
    """Describe the rows that tokens are drawn for: None for one that has ended, and the tokens of each so far."""
    return SamplingRows(
        uniforms(
            [0 if row is None else row.key for row, _ in places],
            [0 if row is None else len(row.before) + len(tokens) for row, tokens in places],
        ),
        [-1 if row is None else row.prompt for row, _ in places],
        [-1 if row is None else row.sample for row, _ in places],
        [tokens for _, tokens in places],
    )


def _scores_forced(row: Row) -> bool:
    """Return whether the model's own scores of forced tokens are needed."""
    return row.scores.logprob and row.scores.unmasked


def _as_asked(chosen: ChosenToken, scores: ScoreSettings) -> ChosenToken | None:
    """Return the scores that this row requested, out of those computed for all rows."""
    if not scores:
        return None

    def cut(top: Sequence[TokenScore]) -> Sequence[TokenScore]:
        if scores.ties == "none":
            return top[: scores.top]
        return top[: sum(score.rank <= scores.top for score in top)]

    return replace(chosen, top=cut(chosen.top), unmasked_top=cut(chosen.unmasked_top))


def _score_forced(row: Row, scored: NDArray[np.float32]) -> None:
    """Record the model's scores of the forced tokens among the pending ones: the last ones of `scored`."""
    count = len(row.pending)
    for place, logprob in zip(range(-count, 0), scored[len(scored) - count :].tolist(), strict=True):
        if row.chosen[place].unmasked_logprob is None:
            row.chosen[place] = replace(row.chosen[place], unmasked_logprob=logprob)
