"""Read the options of one call, under the names that users know, for all its prompts or for each prompt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import sample_count, shown, whole_number
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.faithful import Faithful
from formatter_core.generation.forced import LoopForcedText
from formatter_core.generation.models import BatchSampler
from formatter_core.generation.particles import Particles
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.stopping import stop_bytes

__all__ = [
    "LOGPROBS",
    "CallSettings",
    "CompletionSettings",
    "ContinuationSettings",
    "OnePromptSettings",
    "asked_scores",
    "calls_settings",
    "check_names",
    "drawing_of",
    "no_positional",
    "sampling_of",
]

#: The log-probability of each token among the allowed tokens.
LOGPROBS = ScoreSettings(logprob=True, unmasked=False)
NOTHING_ASKED = ScoreSettings()

#: Names in other libraries, and the name here.
_OTHERS = {
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_length": "max_tokens",
    "num_return_sequences": "n",
    "num_samples": "n",
    "best_of": "n",
    "stop": "stop_strings",
    "stop_sequences": "stop_strings",
    "stop_token_ids": "stop_ids",
    "eos_token_id": "stop_ids",
    "schema": "format",
    "response_format": "format",
    "response_model": "format",
    "output_type": "format",
    "do_sample": "temperature",
    "sampler": "sampling",
    "sampling_params": "sampling",
    "typical": "sampling",
    "typical_p": "sampling",
    "batch_size": "batch",
    "num_beams": "beam_search",
}
#: Short names of fields of a `Sampling`.
_DRAWING = ("temperature", "top_p", "top_k", "min_p")


class CompletionSettings(TypedDict, total=False):
    """The keyword options of `completion`."""

    max_tokens: int | None
    stop_strings: str | Iterable[str]
    sampling: BatchSampler | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int | None
    scores: ScoreSettings | None
    logprobs: bool | int
    top_logprobs: int | None
    forced_text: LoopForcedText
    faithful: bool | Faithful
    particles: bool | Particles
    batch: int
    fit: bool


class ContinuationSettings(TypedDict, total=False):
    """The keyword options of `continuation`."""

    max_tokens: int | None
    stop_strings: str | Iterable[str]
    stop_ids: Iterable[int]
    ignore_eos: bool
    sampling: BatchSampler | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int | None
    scores: ScoreSettings | None
    logprobs: bool | int
    top_logprobs: int | None
    batch: int


class CallSettings(TypedDict, total=False):
    """The options of one call of a writer; an option that can be a list has one entry for each prompt.

    Attributes:
        samples: the number of outputs for each prompt; `n` is short for it.
        seed: makes sampling repeatable: each sample has its own draws, whatever else is in the call or the batch. By
            default the seed of the `Sampling`, if it has one.
        format: one format for all prompts, instead of the writer's own; None for free text.
        formats: a list with one format for each prompt.
        max_tokens: replaces the writer's own.
        stop_strings: replaces the writer's own; a list of lists gives each prompt its own.
        sampling: replaces the writer's own; or change single fields by `temperature`, `top_p`, `top_k` and `min_p`.
        logprobs: True for the log-probability of each token; a number also lists that many of the best tokens, as
            `top_logprobs` does; False for neither.
        top_logprobs: the number of best tokens to list.
    """

    samples: int
    n: int
    seed: int | Sequence[int | None] | None
    format: Any
    formats: Sequence[Any] | None
    max_tokens: int | Sequence[int] | None
    stop_strings: str | Sequence[str] | Sequence[Sequence[str]] | None
    sampling: BatchSampler | Sequence[BatchSampler] | None
    temperature: float | Sequence[float]
    top_p: float | Sequence[float]
    top_k: int | Sequence[int]
    min_p: float | Sequence[float]
    logprobs: bool | int | Sequence[bool | int]
    top_logprobs: int | Sequence[int] | None


@dataclass(frozen=True)
class OnePromptSettings:
    """The options of a call that apply to one prompt.

    Attributes:
        format: a tuple with the format, which may be None; empty if the call does not set it.
        max_tokens: None if the call does not set it; the same holds for the other fields.
        seed: see `CallSettings`.
        stops: stop strings as bytes.
        sampling: chooses the tokens.
        drawing: the fields of the `Sampling` that the call changes.
        logprobs: see `CallSettings`.
        top_logprobs: see `CallSettings`.
    """

    format: tuple[Any, ...] = ()
    max_tokens: int | None = None
    seed: int | None = None
    stops: tuple[bytes, ...] | None = None
    sampling: Any = None
    drawing: tuple[tuple[str, Any], ...] = ()
    logprobs: bool | int | None = None
    top_logprobs: int | None = None

    def sampling_instead_of(self, own: Any) -> Any:
        """Return how tokens are drawn, instead of the writer's `own` way; None means that the server decides."""
        return sampling_of(own if self.sampling is None else self.sampling, dict(self.drawing))

    def scores_instead_of(self, own: ScoreSettings) -> ScoreSettings:
        """Return what is computed for each token, instead of the writer's `own` settings."""
        return asked_scores(None, self.top_logprobs, self.logprobs, own)


_NOTHING_SAID = OnePromptSettings()


def calls_settings(given: Mapping[str, Any], prompts: int) -> tuple[int, list[OnePromptSettings]]:
    """Return the number of samples of each prompt, and the options of each prompt.

    Raises:
        InvalidArgument: a name or a value that a call cannot have, two names for one option, or a list whose length is
            not the number of prompts.
    """
    if not given:
        return 1, [_NOTHING_SAID] * prompts
    check_names(given, CallSettings.__annotations__, "a call")
    _not_both(given, "samples", "n")
    _not_both(given, "format", "formats")
    _not_both(given, "logprobs", "top_logprobs")
    samples = sample_count(given.get("samples", given.get("n", 1)))
    columns = {name: _each(name, given[name], prompts) for name in given if name not in ("samples", "n")}
    return samples, [_one({name: column[place] for name, column in columns.items()}) for place in range(prompts)]


def _one(given: Mapping[str, Any]) -> OnePromptSettings:
    drawing = drawing_of(given)
    format = next(((given[name],) for name in ("format", "formats") if name in given), ())
    max_tokens, seed, stops = (given.get(name) for name in ("max_tokens", "seed", "stop_strings"))
    return OnePromptSettings(
        format,
        None if max_tokens is None else whole_number(max_tokens, "max_tokens", 1),
        None if seed is None else whole_number(seed, "seed"),
        None if stops is None else stop_bytes(stops),
        given.get("sampling"),
        tuple(drawing.items()),
        given.get("logprobs"),
        given.get("top_logprobs"),
    )


def _each(name: str, given: Any, prompts: int) -> Sequence[Any]:
    """Return an option's value for each prompt."""
    is_list = isinstance(given, (list, tuple))
    if name == "format":  # a list of options is itself a format
        is_list = False
    elif name == "stop_strings":
        is_list = is_list and any(isinstance(one, (list, tuple)) for one in given)
    elif name == "formats":
        if given is None:
            return [None] * prompts
        is_list = True
    if not is_list:
        return [given] * prompts
    if not isinstance(given, (list, tuple)) or len(given) != prompts:
        raise InvalidArgument(f"{name} is a list with one entry for each of the {prompts} prompts", argument=name)
    return given


def sampling_of(own: Any, drawing: Mapping[str, Any]) -> Any:
    """Return how tokens are chosen: `own`, with the fields of a `Sampling` that were given by name replaced.

    Raises:
        InvalidArgument: `own` is a sampler without such fields, or a value is out of range.
    """
    if own is not None and not callable(own):
        raise InvalidArgument(
            f"sampling is {shown(own)}; give greedy(), multinomial(...) or a function of your own", argument="sampling"
        )
    changed = {name: value for name, value in drawing.items() if value is not None}
    if not changed:
        return own
    if own is None:
        own = Sampling(temperature=1.0)
    if own == Sampling() and "temperature" not in changed:  # at temperature 0 the other fields would have no effect
        changed["temperature"] = 1.0
    if not isinstance(own, Sampling):
        name = next(iter(changed))
        reason = f"{name} changes a Sampling, but the sampler is one of your own; leave one of them out"
        raise InvalidArgument(reason, argument=name)
    return replace(own, **changed)


def asked_scores(
    scores: ScoreSettings | None, top_logprobs: Any, logprobs: bool | int | None, default: ScoreSettings
) -> ScoreSettings:
    """Return what is computed for each token.

    Raises:
        InvalidArgument: a value of the wrong kind, or two of these options at once.
    """
    if scores is not None and not isinstance(scores, ScoreSettings):
        raise InvalidArgument(f"scores is {shown(scores)}; give a ScoreSettings", argument="scores")
    if logprobs is not None:
        if top_logprobs is not None:
            raise _both("logprobs", "top_logprobs")
        if scores is not None:
            raise _both("logprobs", "scores")
        if isinstance(logprobs, bool):
            return (default if default.logprob else LOGPROBS) if logprobs else NOTHING_ASKED
        top_logprobs = whole_number(logprobs, "logprobs")
    if top_logprobs is None:
        return default if scores is None else scores
    whole_number(top_logprobs, "top_logprobs")
    base = scores if scores is not None else default or LOGPROBS
    return replace(base, top=top_logprobs, logprob=base.logprob or top_logprobs > 0 or logprobs is not None)


def drawing_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of a writer or a call that change a `Sampling`.

    Raises:
        InvalidArgument: a whole `Sampling` is given, too.
    """
    drawing = {name: settings[name] for name in _DRAWING if settings.get(name) is not None}
    if drawing and settings.get("sampling") is not None:
        raise _both("sampling", next(iter(drawing)))
    return drawing


def check_names(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise for an unknown option, and suggest the name that was probably meant.

    Raises:
        InvalidArgument: an option is unknown.
    """
    names = [*known]
    for name in given:
        if name in names:
            continue
        meant = _OTHERS.get(name)
        if meant is None:
            meant = next(iter(difflib.get_close_matches(name, names, 1)), None)
        if meant == "beam_search":
            remedy = "call beam_search(model, prompt, format, width=...)"
        elif meant in names:
            remedy = f"the name here is {meant}"
        elif name in ("n", "samples", "formats", "format", "cancelled"):
            remedy = "give it to each call of what this returns"
        else:
            remedy = f"there are {', '.join(names)}"
        raise InvalidArgument(f"{where} has no option {name}; {remedy}", argument=name)


def no_positional(more: Sequence[Any]) -> None:
    """Raise for positional arguments after the prompts; options must be named.

    Raises:
        InvalidArgument: there are such arguments.
    """
    if more:
        what = f"max_tokens={more[0]}" if isinstance(more[0], int) else "format=..., max_tokens=..."
        raise InvalidArgument(f"found {shown(more[0])} after the prompts; give options by name, such as {what}")


def _not_both(given: Mapping[str, Any], one: str, other: str) -> None:
    if given.get(one) is not None and given.get(other) is not None:
        raise _both(one, other)


def _both(one: str, other: str) -> InvalidArgument:
    return InvalidArgument(f"found both {one} and {other}, which say the same thing; give one of them", argument=one)
