"""Prompts in, outputs out: `completion` and `continuation`, on a model with logits or behind an API.

::

    write = completion(model, Person)
    person = write("Ivo is 41 years old.").value
    two_lists = write(["Ivo is 41.", "Ann is 7."], samples=4, seed=1)

    go_on = continuation(model, stop_strings=["\\n"], sampling=multinomial(temperature=0.8))
    text = go_on(person_output + " Together with ").text
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeAlias, TypeVar, overload

from formatter_core.errors import BudgetTooSmall, FormatterError, InvalidArgument, UnsupportedByEngine
from formatter_core.errors.arguments import one_of, sample_count, shown, token_ids_of, true_or_false, whole_number
from formatter_core.generation.api_writers import ApiWriter, AsyncApiWriter, api_writer
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.choosing import branches
from formatter_core.generation.draws import sequence_key
from formatter_core.generation.faithful import Faithful, run_faithful
from formatter_core.generation.forced import LoopForcedText
from formatter_core.generation.loop import LoopSettings, Row, Runner, run_batches, run_together
from formatter_core.generation.lost_mass import LostMass
from formatter_core.generation.models import (
    NO_SCORES,
    ApiModel,
    AsyncApiModel,
    BatchSampler,
    Finished,
    GenerationEvent,
    LogitsModel,
    weighing,
)
from formatter_core.generation.particles import Particles, run_particles
from formatter_core.generation.prompts import OnePrompt, Prompts, as_list, beginning, in_shape
from formatter_core.generation.results import Generated, Prompt
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.stopping import TextStream, stop_bytes
from formatter_core.generation.streamed import Snapshots, streamed_values
from formatter_core.generation.threads import AsyncModel, ThreadWriter
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.cursor import Cursor
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.generics import Value_co

__all__ = ["AsyncWriter", "LogitsWriter", "Writer", "completion", "continuation"]

Writer: TypeAlias = "LogitsWriter[Value_co] | ApiWriter[Value_co]"
AsyncWriter: TypeAlias = "ThreadWriter[Value_co] | AsyncApiWriter[Value_co]"

Method: TypeAlias = Faithful | Particles

_T = TypeVar("_T")

GREEDY = Sampling()
FORCED_TEXT = ("exact", "canonical", "drafts", "off")
#: Of each token its log-probability among what was allowed.
LOGPROBS = ScoreSettings(logprob=True, unmasked=False)


@overload
def completion(
    model: LogitsModel | ApiModel,
    format: type[_T] | CompiledFormat[_T],
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    forced_text: LoopForcedText = "exact",
    faithful: bool | Faithful = False,
    particles: bool | Particles = False,
    batch: int = 64,
    fit: bool = True,
) -> Writer[_T]: ...
@overload
def completion(
    model: LogitsModel | ApiModel,
    format: Any = None,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    forced_text: LoopForcedText = "exact",
    faithful: bool | Faithful = False,
    particles: bool | Particles = False,
    batch: int = 64,
    fit: bool = True,
) -> Writer[Any]: ...
@overload
def completion(
    model: AsyncModel | AsyncApiModel,
    format: type[_T] | CompiledFormat[_T],
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    forced_text: LoopForcedText = "exact",
    faithful: bool | Faithful = False,
    particles: bool | Particles = False,
    batch: int = 64,
    fit: bool = True,
) -> AsyncWriter[_T]: ...
@overload
def completion(
    model: AsyncModel | AsyncApiModel,
    format: Any = None,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    forced_text: LoopForcedText = "exact",
    faithful: bool | Faithful = False,
    particles: bool | Particles = False,
    batch: int = 64,
    fit: bool = True,
) -> AsyncWriter[Any]: ...
def completion(
    model: LogitsModel | ApiModel | AsyncModel | AsyncApiModel,
    format: Any = None,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    forced_text: LoopForcedText = "exact",
    faithful: bool | Faithful = False,
    particles: bool | Particles = False,
    batch: int = 64,
    fit: bool = True,
) -> Any:
    """Writes until a format is complete, or, without one, until the model ends its text.

    Args:
        model: the model that writes; with an `async_model`, or one of an asynchronous client, what is returned is
            awaited.
        format: whatever `Compiler.compile` takes, or a format that was compiled by the model's own compiler.
        max_tokens: the most tokens of each output, including the end id; by default 1,024. An output that is cut
            there is not complete, and can be continued.
        stop_strings: the text ends before the first of these, complete or not.
        sampling: `greedy()`, `multinomial(...)`, any `Sampling`, or a `BatchSampler` of your own; by default the
            model's own (`model.sampling`; for transformers its `generation_config`), and greedy if it has none.
        scores: what to compute for each token, by default its log-probability; what you turn off is not computed.
        top_logprobs: how many of the best tokens to list, short for `ScoreSettings.top`.
        forced_text: `"exact"` computes runs of tokens without a choice in one forward pass; `"canonical"` also takes
            the tokenizer's own tokens where the text is certain; `"drafts"` proposes
            those to the model, which keeps what it draws itself; `"off"` asks the model for each.
        faithful: True, or a `Faithful`, draws from the distribution that the model's outputs have given that they are
            complete outputs of the format within `max_tokens` (docs/faithful.md): drafts that leave the format are
            thrown away, with what they showed kept for the next. By default `sampling` is then the model's own, at
            temperature 1 if that is greedy.
        particles: True, or `Particles`, makes the samples of a prompt particles of sequential Monte Carlo for the same
            distribution, and for a score of your own; `Generated.log_weight` is the weight of each.
        batch: the most sequences that are computed together.
        fit: if you give `max_tokens`, it is a budget: each output is complete within it, if the format has outputs that
            short and the engine supports budgets (docs/budgets.md). False cuts outputs there instead.

    A model behind an API gets only what you give here; its server has defaults of its own.

    Raises:
        InvalidArgument: an object that is not a model, an invalid format, or a number out of range; `faithful` or
            `particles` together, for a model behind an API, or beside what changes the model's distribution or asks for
            more than log-probabilities (`forced_text="canonical"`, temperature 0, a sampler of your own, lists of best
            tokens).
        FormatterError: whatever else `Compiler.compile` raises.
    """
    if isinstance(model, AsyncModel):
        options: dict[str, Any] = {"max_tokens": max_tokens, "stop_strings": stop_strings, "sampling": sampling}
        options |= {"scores": scores, "top_logprobs": top_logprobs, "forced_text": forced_text, "faithful": faithful}
        options |= {"particles": particles, "batch": batch, "fit": fit}
        return ThreadWriter(model, completion(model.model, format, **options))
    stops, how = stop_bytes(stop_strings), _method(faithful, particles)
    if isinstance(model, LogitsModel):
        compiled = None if format is None else _compiled(model, format)
        asked = _asked(scores, top_logprobs, LOGPROBS)
        fits = true_or_false(fit, "fit") and (max_tokens is not None or how is not None)
        most = 1024 if max_tokens is None else max_tokens
        settings = LoopSettings(forced_text, stops=stops)
        return LogitsWriter(model, compiled, most, sampling, asked, batch, settings, fits, how)
    if how is not None:
        raise InvalidArgument("a model behind an API samples by itself; leave out faithful and particles")
    texts = tuple(stop.decode() for stop in stops)
    asked = _asked(scores, top_logprobs, NO_SCORES)
    return api_writer(model, max_tokens, sampling, asked, format=format, stop_strings=texts)


@overload
def continuation(
    model: LogitsModel | ApiModel,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    stop_ids: Iterable[int] = (),
    ignore_eos: bool = False,
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    batch: int = 64,
) -> Writer[str]: ...
@overload
def continuation(
    model: AsyncModel | AsyncApiModel,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    stop_ids: Iterable[int] = (),
    ignore_eos: bool = False,
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    batch: int = 64,
) -> AsyncWriter[str]: ...
def continuation(
    model: LogitsModel | ApiModel | AsyncModel | AsyncApiModel,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    stop_ids: Iterable[int] = (),
    ignore_eos: bool = False,
    sampling: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    top_logprobs: int | None = None,
    batch: int = 64,
) -> Any:
    """Writes free text until a stop string, a stop token, an end of the model's own, or a length.

    Args:
        model: the model that writes.
        max_tokens: the most tokens of each output, by default 128.
        stop_strings: the text ends before the first of these.
        stop_ids: ids that end the text and are not part of it.
        ignore_eos: never choose the model's own end ids.
        sampling: see `completion`.
        scores: see `completion`.
        top_logprobs: see `completion`.
        batch: see `completion`.

    Raises:
        InvalidArgument: an object that is not a model, an empty stop string, a number out of range, an id in `stop_ids`
            that the model lacks; `stop_ids` or `ignore_eos` for a model behind an API, which supports neither.
    """
    if isinstance(model, AsyncModel):
        options: dict[str, Any] = {"max_tokens": max_tokens, "stop_strings": stop_strings, "stop_ids": stop_ids}
        options |= {"ignore_eos": ignore_eos, "sampling": sampling, "scores": scores, "top_logprobs": top_logprobs}
        return ThreadWriter(model, continuation(model.model, batch=batch, **options))
    stops, ids = stop_bytes(stop_strings), frozenset(token_ids_of(stop_ids, "stop_ids"))
    if isinstance(model, LogitsModel):
        _check_ids(ids, len(model.vocabulary))
        most = 128 if max_tokens is None else max_tokens
        settings = LoopSettings("off", ids, stops, true_or_false(ignore_eos, "ignore_eos"))
        return LogitsWriter(model, None, most, sampling, _asked(scores, top_logprobs, LOGPROBS), batch, settings)
    if ids or ignore_eos:
        raise InvalidArgument("a model behind an API has no token ids; use stop_strings")
    texts = tuple(stop.decode() for stop in stops)
    return api_writer(model, max_tokens, sampling, _asked(scores, top_logprobs, NO_SCORES), stop_strings=texts)


@dataclass(frozen=True)
class _Options:
    """What counts for one prompt."""

    compiled: CompiledFormat | None
    sampling: BatchSampler
    scores: ScoreSettings


class LogitsWriter(Generic[Value_co]):
    """Writes outputs for prompts on a model that gives its logits; made by `completion` and `continuation`.

    You may call it any number of times, by one thread at a time. A copy, a deep one too, shares the model.
    """

    def __init__(
        self,
        model: LogitsModel,
        compiled: CompiledFormat[Value_co] | None,
        max_tokens: int,
        sampling: BatchSampler | None,
        scores: ScoreSettings,
        batch: int,
        settings: LoopSettings,
        fits: bool = False,
        method: Method | None = None,
    ) -> None:
        whole_number(max_tokens, "max_tokens", 1)
        whole_number(batch, "batch", 1)
        one_of(settings.forced_text, "forced_text", FORCED_TEXT)
        if scores.prompt and not hasattr(model, "score_prompt"):
            raise InvalidArgument(
                f"{type(model).__name__} cannot score a prompt's tokens; leave out ScoreSettings.prompt"
            )
        if scores.branches and compiled is None:
            raise InvalidArgument("ScoreSettings.branches needs a format; give one, or leave it out")
        self.model = model
        self.compiled = compiled
        self.max_tokens = max_tokens
        self.batch = batch
        self.fits = fits  # whether `max_tokens` is a budget
        self.sampling = _sampler(getattr(model, "sampling", GREEDY) if sampling is None else sampling)
        self.scores = scores
        self._settings = settings
        self._method = method
        self.lost_mass = LostMass(method.memory_bytes if isinstance(method, Faithful) else 0)
        """What the drafts of the latest call have shown, where samples are faithful."""
        if method is not None:
            weighing(model)
            _check_own_distribution(settings, scores)
            if sampling is None and self.sampling == GREEDY:
                self.sampling = Sampling(1.0)

    def __deepcopy__(self, memo: dict[int, Any]) -> LogitsWriter[Value_co]:
        return copy(self)

    @overload
    def __call__(self, prompts: str | Generated | Prompt, *, seed: int | None = None) -> Generated[Value_co]: ...
    @overload
    def __call__(self, prompts: list[str], *, seed: int | None = None) -> list[Generated[Value_co]]: ...
    @overload
    def __call__(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        seed: int | None = None,
        formats: Sequence[Any] | None = None,
        sampling: Sequence[BatchSampler] | None = None,
        top_logprobs: Sequence[int] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Any: ...
    def __call__(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        seed: int | None = None,
        formats: Sequence[Any] | None = None,
        sampling: Sequence[BatchSampler] | None = None,
        top_logprobs: Sequence[int] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Any:
        """The outputs, shaped like the prompts.

        Args:
            prompts: one prompt or a list of them. A prompt is text, token ids (a list, a tensor, what a tokenizer
                returns), a conversation (a list of messages, for the model's chat template), an earlier output, or
                `output + "text"`. An output that was cut by its length in the same format is continued with: the result
                holds all of it. A chat answer behind a prompt that has opened the reasoning continues with it.
            samples: outputs for each prompt.
            seed: makes sampling repeatable: each sample has draws of its own, whatever else is in the call or
                the batch. By default that of the `Sampling`, if it has one.
            formats: instead of the writer's own format one for each prompt, None for free text.
            sampling: one for each prompt.
            top_logprobs: how many of the best tokens to list, one number for each prompt.
            cancelled: asked before each token, for example `threading.Event().is_set`; True ends what is not finished,
                with `stopped == "cancelled"`. Such an output can be continued.

        Returns:
            a `Generated` for one prompt and one sample, a list of them for several samples or for a list of prompts,
            and for both a list of lists. An output that went wrong carries its `error`; the others are there.
        """
        given, is_one = as_list(prompts)
        outputs: list[list[Any]] = [[None] * sample_count(samples) for _ in given]
        options = self._options(len(given), formats, sampling, top_logprobs)
        rows = self._rows(given, options, samples, seed, raises=is_one)
        for event in self._events(rows, self._settings.until(cancelled)):
            if isinstance(event, Finished):
                outputs[event.prompt][event.sample] = event.output
        return in_shape(outputs, is_one, samples)

    def stream(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        seed: int | None = None,
        formats: Sequence[Any] | None = None,
        sampling: Sequence[BatchSampler] | None = None,
        top_logprobs: Sequence[int] | None = None,
        cancelled: Callable[[], bool] | None = None,
        snapshots: Snapshots = False,
        deltas: bool = False,
    ) -> Iterator[GenerationEvent]:
        """The same as events, as soon as they are certain. `Finished` has the whole output.

        Args:
            prompts, samples, seed, formats, sampling, top_logprobs, cancelled: as in a call.
            snapshots: whether there is a `Snapshot` of the value after each token; `"plain"` shows JSON as JSON data,
                whatever its type.
            deltas: whether there is a `ValueDelta` for each change of the value, as JSON data.
        """
        given, is_one = as_list(prompts)
        options = self._options(len(given), formats, sampling, top_logprobs)
        values = streamed_values(snapshots, deltas)
        rows = self._rows(given, options, samples, seed, raises=is_one)
        return self._events(rows, replace(self._settings.until(cancelled), streams=True, values=values))

    def _options(
        self,
        prompts: int,
        formats: Sequence[Any] | None,
        sampling: Sequence[BatchSampler] | None,
        top_logprobs: Sequence[int] | None,
    ) -> list[_Options]:
        """What counts for each prompt."""
        for name, given in (("formats", formats), ("sampling", sampling), ("top_logprobs", top_logprobs)):
            if given is not None and (not isinstance(given, (list, tuple)) or len(given) != prompts):
                raise InvalidArgument(
                    f"{name} is a list with one entry for each of the {prompts} prompts", argument=name
                )
        compiled = [self.compiled] * prompts
        if formats is not None:
            compiled = [None if one is None else _compiled(self.model, one) for one in formats]
        samplings = [self.sampling] * prompts if sampling is None else map(_sampler, sampling)
        tops = [None] * prompts if top_logprobs is None else top_logprobs
        scores = [_asked(self.scores, top, self.scores) for top in tops]
        return [_Options(*one) for one in zip(compiled, samplings, scores, strict=True)]

    def _events(self, rows: list[Row], settings: LoopSettings) -> Iterator[GenerationEvent]:
        for event in run_batches(self.model, self._parts(rows), settings, self._runner(rows)):
            if isinstance(event, Finished) and self.scores.branches:
                event = replace(event, output=self._with_branches(event.output))
            yield event

    def _parts(self, rows: list[Row]) -> list[list[Row]]:
        """What is computed together: `batch` rows, or the particles of one prompt."""
        if not isinstance(self._method, Particles):
            return [rows[start : start + self.batch] for start in range(0, len(rows), self.batch)]
        parts = [list(part) for _, part in groupby(rows, key=lambda row: row.prompt)]
        if max(map(len, parts), default=0) > self.batch:
            raise InvalidArgument(
                f"{max(map(len, parts))} particles are computed together, but batch is {self.batch}; give fewer "
                "samples, or raise batch",
                argument="samples",
            )
        return parts

    def _runner(self, rows: Sequence[Row]) -> Runner:
        if self._method is None:
            return run_together
        for row in rows:
            _check_draws(row.sampler)
        if isinstance(self._method, Particles):
            return partial(run_particles, how=self._method)
        if not self._method.keep:
            self.lost_mass.clear()
        return partial(run_faithful, how=self._method, known=self.lost_mass)

    def _with_branches(self, output: Generated) -> Generated:
        if output.error is not None or output.formatter is None:
            return output
        try:
            return replace(output, branches=tuple(branches(self.model, output)))
        except FormatterError as error:  # the others are there all the same
            return replace(output, error=error)

    def _within(self, formatter: Formatter, room: int) -> Formatter:
        """The formatter, whose output is complete within this many more tokens where it can be."""
        formatter.set_budget(None)
        if self.fits and room > 0:
            with suppress(BudgetTooSmall, UnsupportedByEngine):
                formatter.set_budget(room)
        return formatter

    def _rows(
        self, prompts: list[OnePrompt], options: list[_Options], samples: int, seed: int | None, *, raises: bool
    ) -> list[Row]:
        """A row for each sample; those of a bad prompt have failed, unless that `raises`, or no prompt is good."""
        sample_count(samples)
        seen: dict[tuple[int, ...], int] = {}
        rows: list[Row] = []
        is_any_good = False
        for index, (prompt, own) in enumerate(zip(prompts, options, strict=True)):
            try:
                begins = beginning(self.model, prompt, own.compiled)
            except FormatterError as error:
                if raises or (not is_any_good and index == len(prompts) - 1):
                    raise
                rows += [self._failed_row(index, sample, own, error) for sample in range(samples)]
                continue
            is_any_good = True
            compiled = own.compiled and self.model.compiler.after_prompt(own.compiled, begins.tokens)
            # The same prompt twice is like two samples of it.
            earlier = seen.get(begins.tokens, 0)
            seen[begins.tokens] = earlier + samples
            room = min(self.max_tokens, self.model.max_length - len(begins.tokens))
            own_seed = own.sampling.seed if seed is None and isinstance(own.sampling, Sampling) else seed
            for sample in range(samples):
                key = sequence_key(own_seed, begins.tokens, earlier + sample)
                text = TextStream(self._settings.stops)
                formatter = None if compiled is None else self._within(compiled.formatter(), room)
                if begins.resumed is not None and begins.resumed.formatter is not None:
                    formatter = self._within(begins.resumed.formatter.fork(), room)
                    text.begin(begins.resumed.bytes)
                rows.append(
                    Row(
                        begins.tokens,
                        room,
                        None if formatter is None else Cursor(formatter),
                        text,
                        prompt=index,
                        sample=sample,
                        key=key,
                        sampler=own.sampling,
                        scores=own.scores,
                        resumed=begins.resumed,
                    )
                )
        return rows

    def _failed_row(self, prompt: int, sample: int, own: _Options, error: FormatterError) -> Row:
        text = TextStream(self._settings.stops)
        row = Row((), 0, None, text, prompt=prompt, sample=sample, key=0, sampler=own.sampling, scores=own.scores)
        row.fail(error)
        return row


def _compiled(model: LogitsModel, format: Any) -> CompiledFormat[Any]:
    if not isinstance(format, CompiledFormat):
        return model.compiler.compile(format)
    if format.vocabulary is not model.vocabulary:
        raise InvalidArgument("the format was compiled for another vocabulary; compile it with model.compiler")
    return format


def _sampler(sampling: Any) -> BatchSampler:
    if not callable(sampling):
        raise InvalidArgument(
            f"sampling is {shown(sampling)}; give greedy(), multinomial(...) or a function of your own",
            argument="sampling",
        )
    chosen: BatchSampler = sampling
    return chosen


def _method(faithful: bool | Faithful, particles: bool | Particles) -> Method | None:
    """How samples are drawn where they are not just drawn under the masks."""
    exact = faithful if isinstance(faithful, Faithful) else Faithful() if true_or_false(faithful, "faithful") else None
    if not isinstance(particles, Particles):
        if not true_or_false(particles, "particles"):
            return exact
        particles = Particles()
    if exact is not None:
        raise InvalidArgument("samples are either faithful or particles; leave out one", argument="particles")
    return particles


def _check_own_distribution(settings: LoopSettings, scores: ScoreSettings) -> None:
    """Whether a writer asks for nothing that changes or needs more than the distribution of the model."""
    if settings.forced_text == "canonical":
        raise InvalidArgument(
            'forced_text="canonical" changes the distribution of the model; leave it out', argument="forced_text"
        )
    if scores.top or scores.rank or scores.prompt:
        raise InvalidArgument(
            "these samples have log-probabilities alone; leave out lists of best tokens, ranks and the prompt's scores",
            argument="scores",
        )


def _check_draws(sampler: BatchSampler) -> None:
    if not isinstance(sampler, Sampling) or sampler.temperature == 0:
        raise InvalidArgument(
            f"{shown(sampler)} has no distribution to draw from; give multinomial(...) with a temperature above 0",
            argument="sampling",
        )


def _check_ids(stop_ids: Iterable[int], size: int) -> None:
    for token in sorted(stop_ids):
        if not 0 <= token < size:
            reason = f"stop_ids holds {token}, but the model has the tokens 0 to {size - 1}; give ids of this model"
            raise InvalidArgument(reason, argument="stop_ids")


def _asked(scores: ScoreSettings | None, top_logprobs: int | None, default: ScoreSettings) -> ScoreSettings:
    if scores is not None and not isinstance(scores, ScoreSettings):
        raise InvalidArgument(f"scores is {shown(scores)}; give a ScoreSettings", argument="scores")
    if top_logprobs is None:
        return default if scores is None else scores
    whole_number(top_logprobs, "top_logprobs")
    base = LOGPROBS if scores is None else scores
    return replace(base, top=top_logprobs, logprob=base.logprob or top_logprobs > 0)
