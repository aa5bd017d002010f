"""Prompts in, outputs out: `completion` and `continuation`, on a model with logits or behind an API.

::

    write = completion(model, Person)
    person = write("Ivo is 41 years old.").value
    two_lists = write(["Ivo is 41.", "Ann is 7."], samples=4, seed=1)

    go_on = continuation(model, stop_strings=["\\n"], sampler=multinomial(temperature=0.8))
    text = go_on(person_output + " Together with ").text
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, get_args

from formatter_core.compiled import CompiledFormat
from formatter_core.errors import FormatterError, InvalidFormat
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.draws import sequence_key
from formatter_core.generation.forced import ForcedText
from formatter_core.generation.loop import LoopSettings, Row, run_together
from formatter_core.generation.models import (
    ApiModel,
    BatchSampler,
    Finished,
    GenerationEvent,
    LogitsModel,
    TextRequest,
)
from formatter_core.generation.prompts import OnePrompt, as_list, as_text, beginning
from formatter_core.generation.results import Generated
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.stopping import TextStream, stop_bytes
from formatter_core.generation.tries import Branches

__all__ = ["ApiWriter", "LogitsWriter", "Prompts", "Writer", "completion", "continuation"]

#: One prompt, or a list of them.
Prompts: TypeAlias = "OnePrompt | list[OnePrompt]"
Writer: TypeAlias = "LogitsWriter | ApiWriter"

GREEDY = Sampling()
#: Of each token its log-probability among what was allowed.
LOGPROBS = ScoreSettings(logprob=True, unmasked=False)
NO_SCORES = ScoreSettings()


def completion(
    model: LogitsModel | ApiModel,
    format: Any = None,
    *,
    max_tokens: int | None = None,
    sampler: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    forced_text: ForcedText = "exact",
    batch: int = 64,
) -> Writer:
    """Writes until a format is complete, or, without one, until the model ends its text.

    Args:
        model: what writes.
        format: whatever `Compiler.compile` takes, or a format that was compiled by the model's own compiler.
        max_tokens: of each output at most, by default 1,024; what is cut there is not complete, and can be continued.
        sampler: `greedy()`, which is the default, `multinomial(...)`, any `Sampling`, or a `BatchSampler` of your own.
        scores: what to find out about each token, by default its log-probability; what is off is not computed.
        forced_text: `"exact"` computes runs of tokens without a choice in one forward pass; `"canonical"` also takes
            the tokenizer's own tokens where the text is certain; `"off"` asks the model for each.
        batch: how many sequences are computed together at most.

    A model behind an API is sent only what is given here, and its server has defaults of its own.

    Raises:
        InvalidFormat: what is no model, a format with a fault, a number out of range.
        FormatterError: whatever else `Compiler.compile` raises.
    """
    if isinstance(model, LogitsModel):
        compiled = None if format is None else _compiled(model, format)
        most, how, asked = _defaults(max_tokens, 1024, sampler, scores)
        return LogitsWriter(model, compiled, most, how, asked, forced_text, batch)
    return _api_writer(model, max_tokens, sampler, scores, format=format)


def continuation(
    model: LogitsModel | ApiModel,
    *,
    max_tokens: int | None = None,
    stop_strings: str | Iterable[str] = (),
    stop_tokens: Iterable[int] = (),
    suppress_ends: bool = False,
    sampler: BatchSampler | None = None,
    scores: ScoreSettings | None = None,
    batch: int = 64,
) -> Writer:
    """Writes free text until a stop string, a stop token, an end of the model's own, or a length.

    Args:
        model: what writes.
        max_tokens: of each output at most, by default 128.
        stop_strings: the text ends before the first of these.
        stop_tokens: ids that end the text and are no part of it.
        suppress_ends: never choose the model's own end ids.
        sampler: see `completion`.
        scores: see `completion`.
        batch: see `completion`.

    Raises:
        InvalidFormat: what is no model, an empty stop string, a number out of range; stop tokens, or ends to suppress,
            for a model behind an API, which knows neither.
    """
    stops, ids = stop_bytes(stop_strings), frozenset(map(int, stop_tokens))
    if isinstance(model, LogitsModel):
        most, how, asked = _defaults(max_tokens, 128, sampler, scores)
        return LogitsWriter(model, None, most, how, asked, "off", batch, ids, stops, suppress_ends)
    if ids or suppress_ends:
        raise InvalidFormat("a model behind an API knows no token ids; use stop_strings")
    texts = tuple(stop.decode() for stop in stops)
    return _api_writer(model, max_tokens, sampler, scores, stop_strings=texts)


class LogitsWriter:
    """Writes outputs for prompts on a model whose logits are at hand; made by `completion` and `continuation`.

    May be called any number of times, by one thread at a time.
    """

    def __init__(
        self,
        model: LogitsModel,
        compiled: CompiledFormat | None,
        max_tokens: int,
        sampler: BatchSampler,
        scores: ScoreSettings,
        forced_text: ForcedText,
        batch: int,
        stop_tokens: frozenset[int] = frozenset(),
        stops: tuple[bytes, ...] = (),
        suppress_ends: bool = False,
    ) -> None:
        if max_tokens < 1 or batch < 1:
            raise InvalidFormat(f"max_tokens is {max_tokens} and batch {batch}; both are at least 1")
        if forced_text not in get_args(ForcedText):
            raise InvalidFormat(f"forced_text is {forced_text!r}; give one of {', '.join(get_args(ForcedText))}")
        if scores.prompt and not hasattr(model, "score_prompt"):
            raise InvalidFormat(
                f"{type(model).__name__} cannot score a prompt's tokens; leave out ScoreSettings.prompt"
            )
        if scores.branches and (compiled is None or not hasattr(model, "branches")):
            raise InvalidFormat(
                "ScoreSettings.branches needs a format, and a model that weighs options; "
                f"{type(model).__name__} {'has no format here' if compiled is None else 'does not'}, so leave it out"
            )
        self.model = model
        self.compiled = compiled
        self.max_tokens = max_tokens
        self.batch = batch
        self._settings = LoopSettings(compiled, sampler, scores, forced_text, stop_tokens, stops, suppress_ends)

    def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any:
        """The outputs, shaped like the prompts.

        Args:
            prompts: one prompt (text, token ids, an earlier output, or `output + "text"`) or a list of them. An
                output that was cut by its length in the same format is gone on with: the result holds all of it.
            samples: outputs for each prompt.
            seed: makes what is drawn repeatable: each sample has draws of its own, whatever else is in the call or
                the batch. By default that of the `Sampling`, if it has one.

        Returns:
            a `Generated` for one prompt and one sample, a list of them for several samples or for a list of prompts,
            and for both a list of lists. An output that went wrong carries its `error`; the others are there.
        """
        given, is_one = as_list(prompts)
        outputs: list[list[Any]] = [[None] * samples for _ in given]
        for event in self._events(self._rows(given, samples, seed), self._settings):
            if isinstance(event, Finished):
                outputs[event.prompt][event.sample] = event.output
        return _in_shape(outputs, is_one, samples)

    def stream(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Iterator[GenerationEvent]:
        """The same as events, as soon as they are certain; arguments as in a call. `Finished` has the whole output."""
        rows = self._rows(as_list(prompts)[0], samples, seed)
        return self._events(rows, replace(self._settings, streams=True))

    def _events(self, rows: list[Row], settings: LoopSettings) -> Iterator[GenerationEvent]:
        for start in range(0, len(rows), self.batch):
            for event in run_together(self.model, rows[start : start + self.batch], settings):
                if isinstance(event, Finished) and settings.scores.branches and event.output.error is None:
                    yield replace(event, output=self._with_branches(event.output))
                else:
                    yield event

    def _with_branches(self, output: Generated) -> Generated:
        branches: Callable[[Generated], Sequence[Branches]] = getattr(self.model, "branches")  # noqa: B009
        try:
            return replace(output, branches=tuple(branches(output)))
        except FormatterError as error:  # the others are there all the same
            return replace(output, error=error)

    def _rows(self, prompts: list[OnePrompt], samples: int, seed: int | None) -> list[Row]:
        _check_samples(samples)
        sampler = self._settings.sampler
        if seed is None and isinstance(sampler, Sampling):
            seed = sampler.seed
        seen: dict[tuple[int, ...], int] = {}
        rows = []
        for index, prompt in enumerate(prompts):
            begins = beginning(self.model, prompt, self.compiled)
            # The same prompt twice is like two samples of it.
            earlier = seen.get(begins.tokens, 0)
            seen[begins.tokens] = earlier + samples
            room = min(self.max_tokens, self.model.max_length - len(begins.tokens))
            for sample in range(samples):
                key = sequence_key(seed, begins.tokens, earlier + sample)
                rows.append(self._row(index, sample, begins.tokens, key, room, begins.resumed))
        return rows

    def _row(
        self, index: int, sample: int, tokens: tuple[int, ...], key: int, room: int, resumed: Generated | None
    ) -> Row:
        text = TextStream(self._settings.stops)
        formatter = None if self.compiled is None else self.compiled.formatter()
        if resumed is not None and resumed.formatter is not None:
            formatter = resumed.formatter.fork()
            text.begin(resumed.bytes)
        return Row(index, sample, tokens, key, room, formatter, text, resumed)


class ApiWriter:
    """Writes outputs for prompts on a model behind an API; made by `completion` and `continuation`."""

    def __init__(self, model: ApiModel, request: TextRequest) -> None:
        self.model = model
        self.request = request

    def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any:
        """As `LogitsWriter` does; a seed counts as far as the server heeds it."""
        given, is_one = as_list(prompts)
        _check_samples(samples)
        outputs = self.model.complete(list(map(as_text, given)), self._asked(samples, seed))
        return _in_shape(outputs, is_one, samples)

    def stream(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Iterator[GenerationEvent]:
        """The same as events."""
        _check_samples(samples)
        return self.model.stream_complete(list(map(as_text, as_list(prompts)[0])), self._asked(samples, seed))

    def _asked(self, samples: int, seed: int | None) -> TextRequest:
        sampling = self.request.sampling
        if seed is None and sampling is not None:
            seed = sampling.seed
        return replace(self.request, samples=samples, seed=seed)


def _compiled(model: LogitsModel, format: Any) -> CompiledFormat:
    if not isinstance(format, CompiledFormat):
        return model.compiler.compile(format)
    if format.vocabulary is not model.vocabulary:
        raise InvalidFormat("the format was compiled for another vocabulary; compile it with model.compiler")
    return format


def _defaults(
    max_tokens: int | None, most: int, sampler: BatchSampler | None, scores: ScoreSettings | None
) -> tuple[int, BatchSampler, ScoreSettings]:
    """What is not given, for a model whose logits are at hand; the server of any other has defaults of its own."""
    return (
        most if max_tokens is None else max_tokens,
        GREEDY if sampler is None else sampler,
        LOGPROBS if scores is None else scores,
    )


def _api_writer(
    model: ApiModel,
    max_tokens: int | None,
    sampler: BatchSampler | None,
    scores: ScoreSettings | None,
    *,
    format: Any = None,
    stop_strings: tuple[str, ...] = (),
) -> ApiWriter:
    if sampler is not None and not isinstance(sampler, Sampling):
        raise InvalidFormat("a model behind an API draws by itself; give a Sampling: greedy() or multinomial(...)")
    if max_tokens is not None and max_tokens < 1:
        raise InvalidFormat(f"max_tokens is {max_tokens}; it is at least 1")
    if not isinstance(model, ApiModel):
        raise InvalidFormat(
            f"{type(model).__name__} is no model; give a LogitsModel (transformers_model(...)) or an ApiModel"
        )
    request = TextRequest(format, max_tokens, stop_strings, sampler, scores=NO_SCORES if scores is None else scores)
    return ApiWriter(model, request)


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise InvalidFormat(f"samples is {samples}; there is at least one for each prompt")


def _in_shape(outputs: list[list[Generated]], is_one: bool, samples: int) -> Any:
    shaped = [row[0] for row in outputs] if samples == 1 else outputs
    return shaped[0] if is_one else shaped
