"""Define what loops need from a model that gives logits (`LogitsModel`) or that turns text into text (`ApiModel`).

Loops use these two protocols with numpy: a model keeps its logits, keys and values in arrays and on a device of its
choice, and makes one small copy to the host in each step (`LogitsModel.pick`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, whole_number
from formatter_core.formats.json_reader import JsonDelta
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.deadlines import Cancelled
from formatter_core.generation.results import ChosenToken, Generated
from formatter_core.generation.sampling import Sampling, SamplingRows
from formatter_core.generation.stopping import stop_bytes
from formatter_core.runtime.compiler import Compiler
from formatter_core.runtime.result import Event
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "NO_VALUES",
    "ApiModel",
    "Array",
    "AsyncApiModel",
    "AsyncChoosingModel",
    "BatchSampler",
    "ChoosingModel",
    "Finished",
    "FormatEvent",
    "GenerationEvent",
    "LogitsModel",
    "MixedSampling",
    "Picked",
    "ScoredText",
    "SequenceBatch",
    "Snapshot",
    "StreamedValues",
    "TextDelta",
    "TextRequest",
    "TextRequests",
    "ValueDelta",
    "Weighed",
    "WeighingModel",
    "weighing",
    "with_logits",
]

NO_SCORES = ScoreSettings()

#: The maximum number of outputs of one prompt in one API request: each takes memory here before the server answers.
_MAX_SAMPLES = 10_000

#: An array of the model's own library on its own device, such as a torch tensor or a numpy array.
Array: TypeAlias = Any


class BatchSampler(Protocol):
    """A callable that chooses a token for each row. `Sampling` works with every model; write others for the model's
    arrays.
    """

    def __call__(self, logits: Array, rows: SamplingRows) -> Array:
        """Return the chosen ids, integers (rows,), on the device of the logits.

        Args:
            logits: float32 (rows, width), -inf where no token is allowed. It may be changed.
            rows: the sequences that the rows belong to.
        """
        ...


@dataclass(frozen=True)
class MixedSampling:
    """A sampler whose rows are each sampled in their own way.

    Attributes:
        samplers: one for each row.
    """

    samplers: Sequence[BatchSampler]

    @cached_property
    def groups(self) -> list[tuple[BatchSampler, list[int]]]:
        """Return each sampler with the indices of its rows."""
        groups: dict[Any, tuple[BatchSampler, list[int]]] = {}
        for row, sampler in enumerate(self.samplers):
            key = sampler if isinstance(sampler, Sampling) else id(sampler)
            groups.setdefault(key, (sampler, []))[1].append(row)
        return list(groups.values())

    def __call__(self, logits: NDArray[np.single], rows: SamplingRows) -> NDArray[np.int64]:
        """Return a token for each row of numpy logits, int64 (rows,)."""
        chosen = np.zeros(len(logits), dtype=np.int64)
        for sampler, places in self.groups:
            chosen[places] = sampler(logits[places], rows.part(places))
        return chosen


@dataclass(frozen=True)
class Picked:
    """The tokens chosen for the rows, one each, on the host.

    Attributes:
        tokens: int64 (rows,).
        is_sound: booleans (rows,), False where no token could be chosen: the logits are not numbers, or nothing is
            allowed.
        chosen: the requested scores of each row's token; empty if none were requested.
        scored: float32 (rows, k), a copy of the argument `scored`; None if it was not given.
    """

    tokens: NDArray[np.int64]
    is_sound: NDArray[np.bool_]
    chosen: Sequence[ChosenToken] = ()
    scored: NDArray[np.float32] | None = None


class SequenceBatch(Protocol):
    """A batch of sequences that are computed together, each with the keys and values of its tokens.

    A batch may also have the attribute `cached`: how many tokens of each prompt of `start` came from a cache and were
    not computed.
    """

    @property
    def logits(self) -> Array:
        """Return the logits after the last token of each row, floats (rows, width)."""
        ...

    @property
    def tokens(self) -> Sequence[Sequence[int]]:
        """Return all tokens of each row that were computed, including the prompt."""
        ...

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> Array:
        """Compute more tokens in one forward pass, any number for each row (a row with 0 is not changed).

        Args:
            tokens: the new ids of each row.
            keep: the number of positions for which logits are returned.

        Returns:
            floats (rows, keep, width): logits after the last `keep` new tokens of each row, right-aligned. In a row
            with fewer new tokens, the entries before them are undefined.
        """
        ...

    def forward_scored(self, tokens: Sequence[Sequence[int]]) -> Array:
        """Compute more tokens as `forward` does, and return the log-probability of each new token after those before
        it.

        Returns:
            float32 (rows, most new tokens), right-aligned like `forward`.
        """
        ...

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> Array:
        """Return the logits after each node of a tree of tokens that continue the only row; the row is not changed.

        Args:
            tokens: the id of each node, a parent before its children.
            parents: the index of each node's parent, -1 where it follows the row's last token.

        Returns:
            floats (nodes, width).
        """
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Make the batch consist of these rows, in this order; a row may be repeated (forks) or left out."""
        ...

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget the tokens of each row past this many. `logits` is undefined until the next `forward`."""
        ...

    def remember(self, row: int) -> None:
        """Keep what was computed for a row, for later sequences with the same beginning, if the model has a prefix
        cache.
        """
        ...


@runtime_checkable
class LogitsModel(Protocol):
    """A model that gives its logits.

    The model may also have `score_prompt(tokens, settings)`, which returns the scores that `ScoreSettings` requests for
    a prompt's tokens, one `ChosenToken` each and None for the first; `sampling`, the default way to choose tokens;
    `max_batch`, the maximum number of rows of a batch; `batch_grows`, True if batches have `add(prompts)`, which
    computes more prompts as additional rows at the end, so that the next sequence of a list can replace one that ends;
    and `span(name)`, a context manager that names the steps of a loop for a profiler. If logits are numpy arrays,
    `NumpyLogits` has the methods that process them.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary, with as many tokens as there are logits. Its end ids end an output."""
        ...

    @property
    def compiler(self) -> Compiler:
        """Return the compiler for this vocabulary, which compiles each format once."""
        ...

    @property
    def max_length(self) -> int:
        """Return the maximum number of tokens of a sequence, including the prompt."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt, with the tokenizer's first token if it has one."""
        ...

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Return ids that spell exactly these bytes, as the tokenizer would; None if it cannot."""
        ...

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> SequenceBatch:
        """Compute prompts, each once, one per row; tokens that the prefix cache has are not computed again.

        Args:
            prompts: ids, at least one each.
            room: the expected number of further tokens of each prompt.
        """
        ...

    def pick(
        self,
        logits: Array,
        allowed: NDArray[np.int32] | None,
        sampler: BatchSampler,
        rows: SamplingRows,
        *,
        scores: ScoreSettings = NO_SCORES,
        scored: Array | None = None,
    ) -> Picked:
        """Mask the logits, choose a token for each row, and copy the choices to the host in one copy.

        Args:
            logits: floats (rows, width), not changed.
            allowed: bitmask rows, int32 (rows, words); None allows everything.
            sampler: chooses the tokens: a `Sampling`, a `MixedSampling`, or a sampler that the caller wrote.
            rows: the sequences that the rows belong to.
            scores: what to compute for the chosen tokens.
            scored: float32 (rows, k), an array that is copied to the host in the same copy.
        """
        ...

    def best(self, logits: Array, allowed: NDArray[np.int32], count: int) -> list[list[tuple[int, float]]]:
        """Return the best allowed tokens of each row, in any order, with their log-probabilities among all tokens.

        Args:
            logits: floats (rows, width), not changed.
            allowed: bitmask rows, int32 (rows, words).
            count: the number of tokens of each row; tokens of -inf may be among them.
        """
        ...

    def logprobs(self, logits: Array, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probability of a token in a row, for each pair.

        Args:
            logits: floats (any, width), not changed.
            rows: row indices.
            tokens: an id for each.
        """
        ...


@dataclass(frozen=True)
class Weighed:
    """The probabilities of the tokens, on the host, for drawing from the model's own distribution.

    Attributes:
        weights: float32 (rows, width), the probability of each token under the sampling before the mask; 0 where the
            mask forbids the token. NaN where the logits are not numbers.
        scales: float64 (rows,): the log-probability of a token at temperature 1 is `temperature * log(weight) + scale`.
        allowed_logprobs: float64 (rows,), the logarithm of the probability of all allowed tokens at temperature 1.
    """

    weights: NDArray[np.float32]
    scales: NDArray[np.float64]
    allowed_logprobs: NDArray[np.float64]


@runtime_checkable
class WeighingModel(LogitsModel, Protocol):
    """A `LogitsModel` that also gives its probabilities to the host, as `NumpyLogits` does.

    Faithful samples and particles need such a model; beams use it to tell how far the masks bent them.
    """

    def weigh(self, logits: Array, allowed: NDArray[np.int32], sampling: Sampling) -> Weighed:
        """Return the probability of each token.

        Args:
            logits: floats (rows, width), not changed.
            allowed: bitmask rows, int32 (rows, words).
            sampling: its temperature and its cuts (`top_k`, `top_p` …) apply before the mask.
        """
        ...

    def allowed_logprobs(self, logits: Array, allowed: NDArray[np.int32]) -> list[float]:
        """Return the logarithm of the probability of all allowed tokens together, for each row, at temperature 1.

        Args:
            logits: floats (rows, width), not changed.
            allowed: bitmask rows, int32 (rows, words).
        """
        ...


# --- models behind an API ----------------------------------------------------------------------------------------


def with_logits(model: Any) -> LogitsModel:
    """Return the model, checked to give its logits.

    Raises:
        InvalidArgument: the object is not a model that gives its logits.
    """
    if not isinstance(model, LogitsModel):
        raise InvalidArgument(
            f"{shown(model)} is not a model that gives its logits; pass one, such as transformers_model(...)",
            argument="model",
        )
    return model


def weighing(model: LogitsModel) -> WeighingModel:
    """Return the model, checked to give its probabilities.

    Raises:
        InvalidArgument: the model does not give its probabilities.
    """
    if not isinstance(model, WeighingModel):
        raise InvalidArgument(
            f"{type(model).__name__} does not give its probabilities; give it the methods weigh and allowed_logprobs, "
            "or inherit NumpyLogits",
            argument="model",
        )
    return model


@dataclass(frozen=True)
class StreamedValues:
    """The events about values that a stream sends while they are written; true if there are any.

    Attributes:
        snapshots: whether to send `Snapshot` events.
        plain: whether snapshots are JSON data.
        deltas: whether to send `ValueDelta` events.
    """

    snapshots: bool = False
    plain: bool = False
    deltas: bool = False

    def __bool__(self) -> bool:
        return self.snapshots or self.deltas


NO_VALUES = StreamedValues()


@dataclass(frozen=True)
class TextRequest:
    """A request to a model behind an API.

    Attributes:
        format: a format that `Compiler.compile` accepts; None for free text.
        max_tokens: the maximum for each output; with None the server decides.
        stop_strings: the output ends before the first of these strings.
        sampling: how tokens are chosen; with None the server decides.
        samples: the number of outputs for each prompt.
        seed: makes draws repeatable, if the server supports it.
        scores: what to compute for each token.
        values: the events about values that a stream sends.
        cancelled: called while waiting for the server; True ends the outputs that are not finished. None: nothing ends
            them.
        progress: whether a terminal shows how many outputs are finished.
    """

    format: Any = None
    max_tokens: int | None = None
    stop_strings: tuple[str, ...] = ()
    sampling: Sampling | None = None
    samples: int = 1
    seed: int | None = None
    scores: ScoreSettings = NO_SCORES
    values: StreamedValues = NO_VALUES
    cancelled: Cancelled | None = field(default=None, compare=False)
    progress: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            InvalidArgument: a field has the wrong type, or is out of range.
        """
        if self.max_tokens is not None:
            whole_number(self.max_tokens, "max_tokens", 1)
        if self.seed is not None:
            whole_number(self.seed, "seed")
        if whole_number(self.samples, "samples", 1) > _MAX_SAMPLES:
            reason = f"samples is {self.samples}; one request is for at most {_MAX_SAMPLES} outputs of a prompt"
            raise InvalidArgument(reason, argument="samples")
        if isinstance(self.stop_strings, str):
            raise InvalidArgument("stop_strings is one text; give a sequence of them", argument="stop_strings")
        stop_bytes(self.stop_strings)
        if self.sampling is not None and not isinstance(self.sampling, Sampling):
            reason = "a model behind an API samples by itself; give a Sampling: greedy() or multinomial(...)"
            raise InvalidArgument(reason, argument="sampling")
        if not isinstance(self.scores, ScoreSettings):
            reason = f"scores is {shown(self.scores)}; give a ScoreSettings"
            raise InvalidArgument(reason, argument="scores")


#: One request for all prompts of a call, or a list with one for each.
TextRequests: TypeAlias = TextRequest | Sequence[TextRequest]


@runtime_checkable
class ApiModel(Protocol):
    """A model that takes text and returns text. A format that its server cannot enforce raises `UnsupportedFormat`.

    A prompt that is a conversation or contains an earlier output is a `generation.prompts.Dialogue`, which has
    messages.
    """

    def complete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """Return the samples of each prompt, in order. A failed output has its `error`; the others are returned as
        usual.

        Args:
            prompts: the prompts.
            request: one request for all prompts, or a list with one for each.
        """
        ...

    def stream_complete(self, prompts: Sequence[str], request: TextRequests) -> Iterator[GenerationEvent]:
        """Stream the outputs as events; the last event of each output is `Finished`."""
        ...


@runtime_checkable
class AsyncApiModel(Protocol):
    """An `ApiModel` for an event loop."""

    async def acomplete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """Return the samples of each prompt, as `ApiModel.complete` does."""
        ...

    def astream_complete(self, prompts: Sequence[str], request: TextRequests) -> AsyncGenerator[GenerationEvent]:
        """Stream the outputs as events, as `ApiModel.stream_complete` does."""
        ...


class ScoredText(NamedTuple):
    """A text after a prompt: its tokens (-1 if a server does not give ids), and the sum of their log-probabilities."""

    tokens: tuple[int, ...]
    logprob: float


@runtime_checkable
class ChoosingModel(Protocol):
    """A model behind an API that returns the probability of a text after a prompt, for `choose`."""

    def score_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """Return the scores of each option after each prompt, in order.

        Args:
            prompts: the prompts.
            options: the texts to score, none of them empty.
            with_end: whether to count the end of the output.

        Raises:
            InvalidArgument: the server does not return the log-probabilities that this needs.
        """
        ...


@runtime_checkable
class AsyncChoosingModel(Protocol):
    """A `ChoosingModel` for an event loop."""

    async def ascore_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """Return the scores of each option after each prompt, as `ChoosingModel.score_options` does."""
        ...


# --- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """An event with new text of one output: whole characters, never a part of a stop string.

    Attributes:
        prompt: the index of the prompt in the call.
        sample: the index of the sample of that prompt.
        text: the new text; empty if a token completes no character.
        tokens: the ids that were chosen since the last delta.
        chosen: the requested scores of tokens, such as their log-probabilities and the best tokens at their positions,
            in the order of the tokens; all deltas together have the scores of the output. Scores of forced text, which
            only the model's next pass computes, are in the delta after that pass.
    """

    prompt: int
    sample: int
    text: str
    tokens: tuple[int, ...]
    chosen: tuple[ChosenToken, ...] = ()


@dataclass(frozen=True, slots=True)
class FormatEvent:
    """An event about the captures of one output: see `Formatter.events`."""

    prompt: int
    sample: int
    event: Event


@dataclass(frozen=True, slots=True)
class ValueDelta:
    """An event about a change of the value of an unfinished output: see `Formatter.deltas`."""

    prompt: int
    sample: int
    delta: JsonDelta


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An event with the value of one output so far: see `Formatter.snapshot`."""

    prompt: int
    sample: int
    value: Any


@dataclass(frozen=True, slots=True)
class Finished:
    """An event that says that an output is complete or has ended."""

    prompt: int
    sample: int
    output: Generated


GenerationEvent: TypeAlias = TextDelta | FormatEvent | ValueDelta | Snapshot | Finished
