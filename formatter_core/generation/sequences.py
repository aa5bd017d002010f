"""Write outputs for prompts: `completion` and `continuation`, with a model that gives logits or one behind an API.

::

    write = completion(model, Person)
    person = write("Ivo is 41 years old.").value
    two_lists = write(["Ivo is 41.", "Ann is 7."], samples=4, seed=1)

    go_on = continuation(model, stop_strings=["\\n"], sampling=multinomial(temperature=0.8))
    text = go_on(person_output + " Together with ").text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from formatter_core.errors import BudgetTooSmall, FormatterError, InvalidArgument, UnsupportedByEngine
from formatter_core.errors.arguments import one_of, shown, token_ids_of, true_or_false, whole_number
from formatter_core.generation.api_writers import ApiWriter, AsyncApiWriter, api_writer
from formatter_core.generation.call_settings import (
    LOGPROBS,
    CallSettings,
    CompletionSettings,
    ContinuationSettings,
    asked_scores,
    calls_settings,
    check_names,
    drawing_of,
    no_positional,
    sampling_of,
)
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.choosing import branches
from formatter_core.generation.deadlines import Cancelled
from formatter_core.generation.draws import sequence_key
from formatter_core.generation.faithful import Faithful, run_faithful
from formatter_core.generation.loop import LoopSettings, Row, Runner, run_batches, run_together
from formatter_core.generation.lost_mass import LostMass
from formatter_core.generation.models import (
    ApiModel,
    AsyncApiModel,
    BatchSampler,
    Finished,
    GenerationEvent,
    LogitsModel,
    weighing,
)
from formatter_core.generation.particles import Particles, run_particles
from formatter_core.generation.progress import progress as shown_progress
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

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["AsyncWriter", "LogitsWriter", "Writer", "completion", "continuation"]

Writer: TypeAlias = "LogitsWriter[Value_co] | ApiWriter[Value_co]"
AsyncWriter: TypeAlias = "ThreadWriter[Value_co] | AsyncApiWriter[Value_co]"

Method: TypeAlias = Faithful | Particles

_T = TypeVar("_T")

GREEDY = Sampling()
#: How many sequences are computed together, unless the call or the model says otherwise.
_MAX_ROWS = 64
FORCED_TEXT = ("exact", "canonical", "drafts", "off")


@overload
def completion(
    model: LogitsModel | ApiModel, format: type[_T] | CompiledFormat[_T], **settings: Unpack[CompletionSettings]
) -> Writer[_T]: ...
@overload
def completion(
    model: LogitsModel | ApiModel, format: Any = None, **settings: Unpack[CompletionSettings]
) -> Writer[Any]: ...
@overload
def completion(
    model: AsyncModel | AsyncApiModel, format: type[_T] | CompiledFormat[_T], **settings: Unpack[CompletionSettings]
) -> AsyncWriter[_T]: ...
@overload
def completion(
    model: AsyncModel | AsyncApiModel, format: Any = None, **settings: Unpack[CompletionSettings]
) -> AsyncWriter[Any]: ...
def completion(model: Any, format: Any = None, **settings: Any) -> Any:
    """Make a writer that writes until a format is complete or, without a format, until the model ends its text.

    Args:
        model: the model that writes. For an `async_model`, or a model of an asynchronous client, the outputs are
            awaited.
        format: a format that `Compiler.compile` accepts, or a format that the model's own compiler has compiled.
        max_tokens: the maximum number of tokens of each output, including the end id; 1,024 by default. An output that
            is cut there is not complete, and can be continued.
        stop_strings: the text ends before the first of these strings, whether or not it is complete.
        sampling: `greedy()`, `multinomial(...)`, any `Sampling`, or your own `BatchSampler`; by default the model's own
            (`model.sampling`; for transformers its `generation_config`), and greedy if it has none.
        temperature, top_p, top_k, min_p: change single fields of the sampling; see `Sampling`. With one of them, a
            model that is greedy by default draws its tokens.
        seed: the seed of calls that give none.
        scores: what to compute for each token, by default its log-probability; what you turn off is not computed.
        top_logprobs: the number of best tokens to list, short for `ScoreSettings.top`.
        logprobs: True for log-probabilities alone, a number for `top_logprobs`, False for nothing.
        forced_text: `"exact"` computes runs of tokens without an alternative in one forward pass; `"canonical"` also
            takes the tokenizer's own tokens where the text is certain; `"drafts"` proposes those tokens to the model,
            which keeps the ones that it draws itself; `"off"` asks the model for each token.
        faithful: True, or a `Faithful`, draws from the model's own distribution over complete outputs of the format
            within `max_tokens` (docs/faithful.md): drafts that leave the format are rejected, and the next drafts use
            what they showed. By default `sampling` is then the model's own, at temperature 1 if that is greedy.
        particles: True, or `Particles`, makes the samples of a prompt particles of sequential Monte Carlo, for the same
            distribution and for your own score; `Generated.log_weight` is the weight of each.
        batch: the maximum number of sequences that are computed together; by default 64, or the maximum of the model.
        fit: whether a `max_tokens` that you give is a budget: each output is complete within it, if the engine supports
            budgets (docs/budgets.md). False cuts outputs there instead.

    A model behind an API gets only the options that you give here; its server has its own defaults.

    Raises:
        InvalidArgument: the object is not a model, the format is invalid, or a number is out of range. Or `faithful`
            and `particles` are used together, or one of them is used for a model behind an API, or with an option that
            changes the model's distribution or requests more than log-probabilities (`forced_text="canonical"`,
            temperature 0, your own sampler, lists of best tokens).
        FormatterError: any other error of `Compiler.compile`.
    """
    check_names(settings, CompletionSettings.__annotations__, "completion")
    if isinstance(model, AsyncModel):
        return ThreadWriter(model, completion(model.model, format, **settings))
    how = _method(settings.get("faithful", False), settings.get("particles", False))
    if not isinstance(model, LogitsModel):
        if how is not None:
            raise InvalidArgument("a model behind an API samples by itself; leave out faithful and particles")
        return api_writer(model, settings, format)
    compiled = _compiled(model, format)
    fits = true_or_false(settings.get("fit", True), "fit")
    loop = LoopSettings(settings.get("forced_text", "exact"), stops=stop_bytes(settings.get("stop_strings", ())))
    return LogitsWriter(model, compiled, settings, loop, most=1024, fits=fits, method=how)


@overload
def continuation(model: LogitsModel | ApiModel, **settings: Unpack[ContinuationSettings]) -> Writer[str]: ...
@overload
def continuation(model: AsyncModel | AsyncApiModel, **settings: Unpack[ContinuationSettings]) -> AsyncWriter[str]: ...
def continuation(model: Any, **settings: Any) -> Any:
    """Make a writer of free text that ends at a stop string, a stop token, an end id of the model, or a maximum length.

    Args:
        model: the model that writes.
        max_tokens: the maximum number of tokens of each output, 128 by default.
        stop_strings: the text ends before the first of these strings.
        stop_ids: ids that end the text and are not part of it.
        ignore_eos: never choose the model's own end ids.
        sampling, temperature, top_p, top_k, min_p, seed: see `completion`.
        scores, logprobs, top_logprobs: see `completion`.
        batch: see `completion`.

    Raises:
        InvalidArgument: the object is not a model, a stop string is empty, a number is out of range, or the model does
            not have an id in `stop_ids`; or `stop_ids` or `ignore_eos` is used for a model behind an API, which
            supports neither.
    """
    check_names(settings, ContinuationSettings.__annotations__, "continuation")
    if isinstance(model, AsyncModel):
        return ThreadWriter(model, continuation(model.model, **settings))
    ids = frozenset(token_ids_of(settings.get("stop_ids", ()), "stop_ids"))
    ignore_eos = true_or_false(settings.get("ignore_eos", False), "ignore_eos")
    if not isinstance(model, LogitsModel):
        if ids or ignore_eos:
            raise InvalidArgument("a model behind an API has no token ids; use stop_strings")
        return api_writer(model, settings)
    _check_ids(ids, len(model.vocabulary))
    loop = LoopSettings("off", ids, stop_bytes(settings.get("stop_strings", ())), ignore_eos)
    return LogitsWriter(model, None, settings, loop, most=128)


@dataclass(frozen=True)
class _Options:
    """The options that apply to one prompt.

    Attributes:
        compiled: its format.
        sampling: chooses its tokens.
        scores: what is computed for each token.
        max_tokens: the maximum number of tokens.
        has_budget: whether the user gave `max_tokens` as a budget, so that a budget that is too small is an error.
        seed: the seed of its draws.
        stops: its stop strings.
    """

    compiled: CompiledFormat | None
    sampling: BatchSampler
    scores: ScoreSettings
    max_tokens: int
    has_budget: bool
    seed: int | None
    stops: tuple[bytes, ...]


class LogitsWriter(Generic[Value_co]):
    """A writer for a model that gives its logits; `completion` and `continuation` make it.

    You may call it any number of times, from one thread at a time. A copy, even a deep copy, shares the model.
    """

    def __init__(
        self,
        model: LogitsModel,
        compiled: CompiledFormat[Value_co] | None,
        settings: Mapping[str, Any],
        loop: LoopSettings,
        *,
        most: int,
        fits: bool = False,
        method: Method | None = None,
    ) -> None:
        given, sampling = settings.get("max_tokens"), settings.get("sampling")
        scores = asked_scores(settings.get("scores"), settings.get("top_logprobs"), settings.get("logprobs"), LOGPROBS)
        one_of(loop.forced_text, "forced_text", FORCED_TEXT)
        if scores.prompt and not hasattr(model, "score_prompt"):
            raise InvalidArgument(
                f"{type(model).__name__} cannot score a prompt's tokens; leave out ScoreSettings.prompt"
            )
        if scores.branches and compiled is None:
            raise InvalidArgument("ScoreSettings.branches needs a format; give one, or leave it out")
        self.model = model
        self.compiled = compiled
        self.max_tokens = most if given is None else whole_number(given, "max_tokens", 1)
        most_rows = min(_MAX_ROWS, getattr(model, "max_batch", _MAX_ROWS))
        self.batch = whole_number(settings.get("batch", most_rows), "batch", 1)
        self.fits = fits  # whether a `max_tokens` that is given is a budget
        self.seed = None if settings.get("seed") is None else whole_number(settings["seed"], "seed")
        drawing = drawing_of(settings)
        own = getattr(model, "sampling", GREEDY) if sampling is None else sampling
        self.sampling: BatchSampler = sampling_of(own, drawing)
        self.scores = scores
        self._has_budget = given is not None
        self._settings = loop
        self._method = method
        self._grows = method is None and bool(getattr(model, "batch_grows", False))
        self.lost_mass = LostMass(method.memory_bytes if isinstance(method, Faithful) else 0)
        """The `LostMass` that the drafts of the latest call have learnt, for faithful samples."""
        if method is not None:
            weighing(model)
            _check_own_distribution(loop, scores)
            if sampling is None and self.sampling == GREEDY and not drawing:
                self.sampling = Sampling(1.0)

    def __deepcopy__(self, memo: dict[int, Any]) -> LogitsWriter[Value_co]:
        return copy(self)

    @overload
    def __call__(
        self, prompts: str | Generated | Prompt, *, seed: int | None = None, max_tokens: int | None = None
    ) -> Generated[Value_co]: ...
    @overload
    def __call__(
        self, prompts: list[str], *, seed: int | None = None, max_tokens: int | None = None
    ) -> list[Generated[Value_co]]: ...
    @overload
    def __call__(
        self,
        prompts: Prompts,
        *,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        progress: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Any: ...
    def __call__(
        self,
        prompts: Prompts,
        *more: Any,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        progress: bool = True,
        **settings: Any,
    ) -> Any:
        """Write outputs, and return them in the shape of the prompts.

        Args:
            prompts: one prompt or a list of them. A prompt is text, token ids (a list, a tensor, the output of a
                tokenizer), a conversation (a list of messages, for the model's chat template), an earlier output, or
                `output + "text"`. An output in the same format that was cut by its length is continued: the result
                contains all of it. If a prompt has opened the reasoning of a chat answer, the output continues the
                reasoning.
            more: not allowed; options must be named.
            cancelled: called before each token, for example `threading.Event().is_set`; True ends the outputs that are
                not finished, with `stopped == "cancelled"`. You can continue such an output.
            timeout: seconds for the whole call; outputs that are not finished by then end as if they were cancelled.
            progress: whether a terminal shows how many outputs are finished, if there are several and they take longer
                than a second; pipes and notebooks show nothing.
            settings: `n` or `samples`, `seed`, `format` or `formats`, `max_tokens`, `stop_strings`, `sampling` or
                `temperature`, `top_p`, `top_k` and `min_p`, `logprobs` or `top_logprobs`: one value for all prompts, or
                a list with one for each; see `CallSettings`.

        Returns:
            a `Generated` for one prompt and one sample, a list of them for several samples or for a list of prompts,
            and for both a list of lists. A failed output has its `error`; the others are returned as usual.
        """
        no_positional(more)
        given, is_one = as_list(prompts)
        samples, options = self._options(len(given), settings)
        outputs: list[list[Any]] = [[None] * samples for _ in given]
        rows = self._rows(given, options, samples, raises=is_one)
        events = self._events(rows, self._settings.until(cancelled, timeout))
        for event in shown_progress(events, len(rows), "outputs") if progress and len(rows) > 1 else events:
            if isinstance(event, Finished):
                outputs[event.prompt][event.sample] = event.output
        return in_shape(outputs, is_one, samples)

    def stream(
        self,
        prompts: Prompts,
        *,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        snapshots: Snapshots = False,
        deltas: bool = False,
        **settings: Unpack[CallSettings],
    ) -> Iterator[GenerationEvent]:
        """Stream the outputs as events, as soon as these are certain. `Finished` has the whole output.

        Args:
            prompts, cancelled, timeout, settings: the same as in a call.
            snapshots: whether to send a `Snapshot` of the value after each token; `"plain"` gives JSON data, whatever
                the Python type.
            deltas: whether to send a `ValueDelta` for each change of the value, as JSON data.
        """
        given, is_one = as_list(prompts)
        samples, options = self._options(len(given), settings)
        values = streamed_values(snapshots, deltas)
        rows = self._rows(given, options, samples, raises=is_one)
        return self._events(rows, replace(self._settings.until(cancelled, timeout), streams=True, values=values))

    def _options(self, prompts: int, given: Mapping[str, Any]) -> tuple[int, list[_Options]]:
        """Return the number of samples of each prompt, and the options of each prompt."""
        samples, settings = calls_settings(given, prompts)
        return samples, [
            _Options(
                _compiled(self.model, one.format[0]) if one.format else self.compiled,
                one.sampling_instead_of(self.sampling),
                one.scores_instead_of(self.scores),
                self.max_tokens if one.max_tokens is None else one.max_tokens,
                self._has_budget or one.max_tokens is not None,
                self.seed if one.seed is None else one.seed,
                self._settings.stops if one.stops is None else one.stops,
            )
            for one in settings
        ]

    def _events(self, rows: list[Row], settings: LoopSettings) -> Iterator[GenerationEvent]:
        if self._grows:
            settings = replace(settings, most_rows=self.batch)
        for event in run_batches(self.model, self._parts(rows), settings, self._runner(rows)):
            if isinstance(event, Finished) and self.scores.branches:
                event = replace(event, output=self._with_branches(event.output))
            yield event

    def _parts(self, rows: list[Row]) -> list[list[Row]]:
        """Group the rows that are computed together: `batch` rows, or the particles of one prompt."""
        if self._grows:
            return [rows]
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
        except FormatterError as error:  # the other prompts continue
            return replace(output, error=error)

    def _within(self, formatter: Formatter, own: _Options, room: int) -> Formatter:
        """Return the formatter, limited to outputs that are complete within this many more tokens.

        Raises:
            BudgetTooSmall: there is no such output, and the user gave the budget.
        """
        formatter.set_budget(None)
        if self.fits and room > 0 and (own.has_budget or self._method is not None):
            try:
                formatter.set_budget(room)
            except UnsupportedByEngine:
                pass
            except BudgetTooSmall:  # a context that is too short cuts the output
                if own.has_budget and room == own.max_tokens:
                    raise
        return formatter

    def _rows(self, prompts: list[OnePrompt], options: list[_Options], samples: int, *, raises: bool) -> list[Row]:
        """Return a row for each sample. The rows of a bad prompt have failed, or it `raises`, as it does if no prompt
        is good.
        """
        seen: dict[tuple[int, ...], int] = {}
        rows: list[Row] = []
        is_any_good = False
        for index, (prompt, own) in enumerate(zip(prompts, options, strict=True)):
            try:
                begins = beginning(self.model, prompt, own.compiled)
                room = min(own.max_tokens, self.model.max_length - len(begins.tokens))
                compiled = own.compiled and self.model.compiler.after_prompt(own.compiled, begins.tokens)
                earlier_one = None if begins.resumed is None else begins.resumed.formatter
                start: Formatter | None = None
                if earlier_one is not None:
                    start = self._within(earlier_one.fork(), own, room)
                elif compiled is not None:
                    start = self._within(compiled.formatter(), own, room)
            except FormatterError as error:
                if raises or (not is_any_good and index == len(prompts) - 1):
                    raise
                rows += [self._failed_row(index, sample, own, error) for sample in range(samples)]
                continue
            is_any_good = True
            # The same prompt given twice is like two samples of it.
            earlier = seen.get(begins.tokens, 0)
            seen[begins.tokens] = earlier + samples
            seed = own.sampling.seed if own.seed is None and isinstance(own.sampling, Sampling) else own.seed
            for sample in range(samples):
                key = sequence_key(seed, begins.tokens, earlier + sample)
                text = TextStream(own.stops)
                if begins.resumed is not None and earlier_one is not None:
                    text.begin(begins.resumed.bytes)
                formatter = start if start is None or not sample else start.fork()
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
        text = TextStream(own.stops)
        row = Row((), 0, None, text, prompt=prompt, sample=sample, key=0, sampler=own.sampling, scores=own.scores)
        row.fail(error)
        return row


def _compiled(model: LogitsModel, format: Any) -> CompiledFormat[Any] | None:
    if format is None:
        return None
    if not isinstance(format, CompiledFormat):
        return model.compiler.compile(format)
    if format.vocabulary is not model.vocabulary:
        raise InvalidArgument("the format was compiled for another vocabulary; compile it with model.compiler")
    return format


def _method(faithful: bool | Faithful, particles: bool | Particles) -> Method | None:
    """Return how samples are drawn, if not simply under the masks."""
    exact = faithful if isinstance(faithful, Faithful) else Faithful() if true_or_false(faithful, "faithful") else None
    if not isinstance(particles, Particles):
        if not true_or_false(particles, "particles"):
            return exact
        particles = Particles()
    if exact is not None:
        raise InvalidArgument("samples are either faithful or particles; leave out one", argument="particles")
    return particles


def _check_own_distribution(settings: LoopSettings, scores: ScoreSettings) -> None:
    """Check that no option changes the model's distribution, or needs more than its probabilities."""
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
