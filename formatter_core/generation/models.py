"""What loops need of a model: either it gives logits (`LogitsModel`), or text for text (`ApiModel`).

Loops use these two protocols, in numpy: a model keeps its logits, keys and values in whatever arrays
and on whatever device it likes, and makes one small copy to the host in each step (`LogitsModel.pick`).
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

#: Outputs of one prompt in one request to an API: each takes memory here before the server has said anything.
_MOST_SAMPLES = 10_000

#: An array of the model's own library, on its own device: a torch tensor, a numpy array.
Array: TypeAlias = Any


class BatchSampler(Protocol):
    """Chooses a token for each row. `Sampling` works with every model; write others for the model's own arrays."""

    def __call__(self, logits: Array, rows: SamplingRows) -> Array:
        """The chosen ids, integers (rows,), on the device of the logits.

        Args:
            logits: float32 (rows, width), -inf where no token is allowed. It may be changed.
            rows: whose logits these are.
        """
        ...


@dataclass(frozen=True)
class MixedSampling:
    """Rows that are each sampled in their own way.

    Attributes:
        samplers: one for each row.
    """

    samplers: Sequence[BatchSampler]

    @cached_property
    def groups(self) -> list[tuple[BatchSampler, list[int]]]:
        """Each sampler with its rows."""
        groups: dict[Any, tuple[BatchSampler, list[int]]] = {}
        for row, sampler in enumerate(self.samplers):
            key = sampler if isinstance(sampler, Sampling) else id(sampler)
            groups.setdefault(key, (sampler, []))[1].append(row)
        return list(groups.values())

    def __call__(self, logits: NDArray[np.single], rows: SamplingRows) -> NDArray[np.int64]:
        """A token for each row of numpy logits, int64 (rows,)."""
        chosen = np.zeros(len(logits), dtype=np.int64)
        for sampler, places in self.groups:
            chosen[places] = sampler(logits[places], rows.part(places))
        return chosen


@dataclass(frozen=True)
class Picked:
    """One token for each row, on the host.

    Attributes:
        tokens: int64 (rows,).
        is_sound: booleans (rows,), False where no token could be chosen: logits that are not numbers, or nothing
            allowed.
        chosen: what was asked about each row's token; empty if nothing was asked.
        scored: float32 (rows, k), what was given as `scored`; None if nothing was given.
    """

    tokens: NDArray[np.int64]
    is_sound: NDArray[np.bool_]
    chosen: Sequence[ChosenToken] = ()
    scored: NDArray[np.float32] | None = None


class SequenceBatch(Protocol):
    """Sequences that are computed together, each with the keys and values of its tokens.

    A batch may also have `cached`: how many tokens of each prompt of `start` were kept from before and not computed.
    """

    @property
    def logits(self) -> Array:
        """Floats (rows, width): the logits after the last token of each row."""
        ...

    @property
    def tokens(self) -> Sequence[Sequence[int]]:
        """All tokens of each row that were computed, including the prompt."""
        ...

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def forward(self, tokens: Sequence[Sequence[int]], *, keep: int = 1) -> Array:
        """Compute more tokens, any number for each row (0 leaves a row as it is), in one forward pass.

        Args:
            tokens: the new ids of each row.
            keep: for how many positions logits are returned.

        Returns:
            floats (rows, keep, width): logits after the last `keep` new tokens of each row, right-aligned. In a row
            with fewer new tokens, the entries before them mean nothing.
        """
        ...

    def forward_scored(self, tokens: Sequence[Sequence[int]]) -> Array:
        """`forward`, and the log-probability of each new token after those before it.

        Returns:
            float32 (rows, most new tokens), right-aligned like `forward`.
        """
        ...

    def forward_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> Array:
        """Logits after each node of a tree of tokens that continue the only row, which is left as it is.

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
        """Forget the tokens of each row past this many. `logits` mean nothing until the next `forward`."""
        ...

    def remember(self, row: int) -> None:
        """Keep what was computed for a row, for later sequences that begin alike, if the model has a prefix cache."""
        ...


@runtime_checkable
class LogitsModel(Protocol):
    """A model that gives its logits.

    It may also have `score_prompt(tokens, settings)`, which gives what `ScoreSettings` ask about a prompt's tokens, one
    `ChosenToken` each and None for the first; `sampling`, how tokens are chosen where a call does not say; `max_batch`,
    the most rows that a batch has; `batch_grows`, True if batches have `add(prompts)`, which computes more prompts as
    rows behind the others, so that a sequence that ends makes way for the next of a list; and `span(name)`, a context
    that names for a profiler what a loop does. Where logits are numpy arrays, `NumpyLogits` has
    the methods that deal with them.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens; as many as there are logits. Its end ids end an output."""
        ...

    @property
    def compiler(self) -> Compiler:
        """What formats are compiled with, each once."""
        ...

    @property
    def max_length(self) -> int:
        """How many tokens a sequence has at most, including the prompt."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, with the tokenizer's first token if it has one."""
        ...

    def encode_continuation(self, text: bytes) -> list[int] | None:
        """Ids that spell exactly these bytes, as the tokenizer would; None if it cannot."""
        ...

    def start(self, prompts: Sequence[Sequence[int]], *, room: int = 0) -> SequenceBatch:
        """Compute prompts, each once, one per row; what the prefix cache has of them is not computed again.

        Args:
            prompts: ids, at least one each.
            room: how many more tokens each of them will probably get.
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
        """Mask the logits, choose a token for each row, and copy what was chosen to the host, once.

        Args:
            logits: floats (rows, width), left as they are.
            allowed: bitmask rows, int32 (rows, words); None allows everything.
            sampler: what chooses; a `Sampling`, a `MixedSampling` of several, or whatever the caller wrote.
            rows: whose logits these are.
            scores: what to compute for the chosen tokens.
            scored: float32 (rows, k) to copy along, so that this needs no copy of its own.
        """
        ...

    def best(self, logits: Array, allowed: NDArray[np.int32], count: int) -> list[list[tuple[int, float]]]:
        """The best allowed tokens of each row, in any order, with their log-probabilities among all tokens.

        Args:
            logits: floats (rows, width), left as they are.
            allowed: bitmask rows, int32 (rows, words).
            count: how many tokens of each row; those of -inf may be among them.
        """
        ...

    def logprobs(self, logits: Array, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """The log-probability of a token in a row, for each pair.

        Args:
            logits: floats (any, width), left as they are.
            rows: indices into them.
            tokens: an id for each.
        """
        ...


@dataclass(frozen=True)
class Weighed:
    """How probable each token is where a model's own distribution is drawn from, on the host.

    Attributes:
        weights: float32 (rows, width), the probability of each token as the sampling has it before the mask; 0 where
            the mask forbids the token. NaN where the logits are not numbers.
        scales: float64 (rows,): the log-probability of a token at temperature 1 is `temperature * log(weight) + scale`.
        allowed_logprobs: float64 (rows,), the logarithm of the probability of all allowed tokens at temperature 1.
    """

    weights: NDArray[np.float32]
    scales: NDArray[np.float64]
    allowed_logprobs: NDArray[np.float64]


@runtime_checkable
class WeighingModel(LogitsModel, Protocol):
    """A `LogitsModel` that also gives its probabilities to the host, as `NumpyLogits` does.

    Faithful samples and particles need it; beams then say how far the masks bent them.
    """

    def weigh(self, logits: Array, allowed: NDArray[np.int32], sampling: Sampling) -> Weighed:
        """Return how probable each token is.

        Args:
            logits: floats (rows, width), left as they are.
            allowed: bitmask rows, int32 (rows, words).
            sampling: whose temperature and cuts apply, before the mask.
        """
        ...

    def allowed_logprobs(self, logits: Array, allowed: NDArray[np.int32]) -> list[float]:
        """Return the logarithm of the probability of all allowed tokens together, for each row, at temperature 1.

        Args:
            logits: floats (rows, width), left as they are.
            allowed: bitmask rows, int32 (rows, words).
        """
        ...


# --- models behind an API ----------------------------------------------------------------------------------------


def with_logits(model: Any) -> LogitsModel:
    """The model.

    Raises:
        InvalidArgument: it is not one that gives its logits.
    """
    if not isinstance(model, LogitsModel):
        raise InvalidArgument(
            f"{shown(model)} is not a model that gives its logits; pass one, such as transformers_model(...)",
            argument="model",
        )
    return model


def weighing(model: LogitsModel) -> WeighingModel:
    """The model.

    Raises:
        InvalidArgument: it does not give its probabilities.
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
    """What is wanted of the value while it is written; true if anything is.

    Attributes:
        snapshots: whether `Snapshot` events are.
        plain: whether these are JSON data.
        deltas: whether `ValueDelta` events are.
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
        format: whatever `Compiler.compile` takes; None leaves the text free.
        max_tokens: of each output; None leaves it to the server.
        stop_strings: the output ends before the first of these.
        sampling: how tokens are chosen; None leaves it to the server.
        samples: outputs for each prompt.
        seed: makes draws repeatable, if the server supports it.
        scores: what to compute for each token.
        values: what a stream tells of the values while they are written.
        cancelled: asked while the server is waited for; True ends what is not finished. None: nothing ends it.
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
        """Check what is there.

        Raises:
            InvalidArgument: something of another kind, or out of range.
        """
        if self.max_tokens is not None:
            whole_number(self.max_tokens, "max_tokens", 1)
        if self.seed is not None:
            whole_number(self.seed, "seed")
        if whole_number(self.samples, "samples", 1) > _MOST_SAMPLES:
            reason = f"samples is {self.samples}; one request is for at most {_MOST_SAMPLES} outputs of a prompt"
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


#: A request for all prompts of a call, or one for each.
TextRequests: TypeAlias = TextRequest | Sequence[TextRequest]


@runtime_checkable
class ApiModel(Protocol):
    """A model that takes text and returns text. A format that its server cannot enforce raises `UnsupportedFormat`.

    A prompt that is a conversation or holds an earlier output is a `generation.prompts.Dialogue`, which has messages.
    """

    def complete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """The samples of each prompt, in order. A failed output has its `error`; the others are returned as usual.

        Args:
            prompts: the prompts.
            request: what is asked for all of them, or a list with what is asked for each.
        """
        ...

    def stream_complete(self, prompts: Sequence[str], request: TextRequests) -> Iterator[GenerationEvent]:
        """The same as events; the last one of each output is `Finished`."""
        ...


@runtime_checkable
class AsyncApiModel(Protocol):
    """An `ApiModel` for an event loop."""

    async def acomplete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """See `ApiModel.complete`."""
        ...

    def astream_complete(self, prompts: Sequence[str], request: TextRequests) -> AsyncGenerator[GenerationEvent]:
        """See `ApiModel.stream_complete`."""
        ...


class ScoredText(NamedTuple):
    """A text behind a prompt: its tokens, -1 where a server does not tell ids, and their log-probability together."""

    tokens: tuple[int, ...]
    logprob: float


@runtime_checkable
class ChoosingModel(Protocol):
    """A model behind an API that tells how probable a text is after a prompt, for `choose`."""

    def score_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """Return the scores of each option after each prompt, in order.

        Args:
            prompts: the prompts.
            options: texts, none of them empty.
            with_end: whether the end of the output counts.

        Raises:
            InvalidArgument: the server does not tell what this takes.
        """
        ...


@runtime_checkable
class AsyncChoosingModel(Protocol):
    """A `ChoosingModel` for an event loop."""

    async def ascore_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """See `ChoosingModel.score_options`."""
        ...


# --- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of one output: whole characters, never a part of a stop string.

    Attributes:
        prompt: the index of the prompt in the call.
        sample: which of its samples.
        text: may be empty if a token completes no character.
        tokens: the ids that were chosen since the last delta.
        chosen: what was asked about tokens, such as their log-probabilities and the best tokens in their place, in the
            order of the tokens; all deltas together have what the output has. What only the model's next pass tells, of
            text that was taken without it, is in the delta after that.
    """

    prompt: int
    sample: int
    text: str
    tokens: tuple[int, ...]
    chosen: tuple[ChosenToken, ...] = ()


@dataclass(frozen=True, slots=True)
class FormatEvent:
    """Something new about the captures of one output: see `Formatter.events`."""

    prompt: int
    sample: int
    event: Event


@dataclass(frozen=True, slots=True)
class ValueDelta:
    """A change of the value of one output that is being written: see `Formatter.deltas`."""

    prompt: int
    sample: int
    delta: JsonDelta


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The value of one output so far: see `Formatter.snapshot`."""

    prompt: int
    sample: int
    value: Any


@dataclass(frozen=True, slots=True)
class Finished:
    """An output is complete or has ended."""

    prompt: int
    sample: int
    output: Generated


GenerationEvent: TypeAlias = TextDelta | FormatEvent | ValueDelta | Snapshot | Finished
