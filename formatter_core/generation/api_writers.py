"""Prompts in, outputs out, on models behind an API: at once, or awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Generic, cast, overload

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.errors.arguments import sample_count
from formatter_core.generation.candidates import ScoreSettings
from formatter_core.generation.models import ApiModel, AsyncApiModel, BatchSampler, GenerationEvent, TextRequest
from formatter_core.generation.prompts import Prompts, as_list, as_text, in_shape
from formatter_core.generation.results import Generated, Prompt
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.streamed import Snapshots, streamed_values
from formatter_core.runtime.generics import Value_co

__all__ = ["ApiWriter", "AsyncApiWriter", "api_writer"]


class ApiWriter(Generic[Value_co]):
    """Writes outputs for prompts on a model behind an API; made by `completion` and `continuation`.

    A copy, a deep one too, shares the model.
    """

    def __init__(self, model: ApiModel, request: TextRequest) -> None:
        self.model = model
        self.request = request

    def __deepcopy__(self, memo: dict[int, Any]) -> ApiWriter[Value_co]:
        return copy(self)

    @overload
    def __call__(self, prompts: str | Generated | Prompt, *, seed: int | None = None) -> Generated[Value_co]: ...
    @overload
    def __call__(self, prompts: list[str], *, seed: int | None = None) -> list[Generated[Value_co]]: ...
    @overload
    def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any: ...
    def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any:
        """As `LogitsWriter` does; a seed counts as far as the server heeds it."""
        asked = _Asked(prompts, samples)
        return asked.shaped(self.model.complete(asked.texts, _request(self.request, samples, seed)))

    def stream(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        seed: int | None = None,
        snapshots: Snapshots = False,
        deltas: bool = False,
    ) -> Iterator[GenerationEvent]:
        """The same as events; `snapshots` and `deltas` as in `LogitsWriter.stream`."""
        asked = replace(_request(self.request, samples, seed), values=streamed_values(snapshots, deltas))
        return self.model.stream_complete(list(map(as_text, as_list(prompts)[0])), asked)


class AsyncApiWriter(Generic[Value_co]):
    """Writes outputs that are awaited, on a model behind an API; made by `completion` and `continuation`.

    A copy, a deep one too, shares the model.
    """

    def __init__(self, model: AsyncApiModel, request: TextRequest) -> None:
        self.model = model
        self.request = request

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncApiWriter[Value_co]:
        return copy(self)

    @overload
    async def __call__(self, prompts: str | Generated | Prompt, *, seed: int | None = None) -> Generated[Value_co]: ...
    @overload
    async def __call__(self, prompts: list[str], *, seed: int | None = None) -> list[Generated[Value_co]]: ...
    @overload
    async def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any: ...
    async def __call__(self, prompts: Prompts, *, samples: int = 1, seed: int | None = None) -> Any:
        """As `ApiWriter` does."""
        asked = _Asked(prompts, samples)
        return asked.shaped(await self.model.acomplete(asked.texts, _request(self.request, samples, seed)))

    def stream(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        seed: int | None = None,
        snapshots: Snapshots = False,
        deltas: bool = False,
    ) -> AsyncGenerator[GenerationEvent]:
        """The same as events, for `async for`; `snapshots` and `deltas` as in `LogitsWriter.stream`."""
        asked = replace(_request(self.request, samples, seed), values=streamed_values(snapshots, deltas))
        return self.model.astream_complete(list(map(as_text, as_list(prompts)[0])), asked)


class _Asked:
    """The prompts of a call.

    Attributes:
        texts: those that are prompts.
    """

    def __init__(self, prompts: Prompts, samples: int) -> None:
        given, self._is_one = as_list(prompts)
        self._samples = samples
        self._outputs: list[list[Generated]] = [[] for _ in given]
        texts: dict[int, str] = {}
        for index, prompt in enumerate(given):
            try:
                texts[index] = as_text(prompt)
            except FormatterError as error:
                if self._is_one:
                    raise
                failed = Generated((), b"", "error", error, prompt="")
                self._outputs[index] = [failed] * sample_count(samples)
        self._places = list(texts)
        self.texts = list(texts.values())

    def shaped(self, found: list[list[Generated]]) -> Any:
        """The outputs, shaped like the prompts."""
        for index, outputs in zip(self._places, found, strict=True):
            self._outputs[index] = outputs
        return in_shape(self._outputs, self._is_one, self._samples)


def api_writer(
    model: ApiModel | AsyncApiModel,
    max_tokens: int | None,
    sampling: BatchSampler | None,
    scores: ScoreSettings,
    *,
    format: Any = None,
    stop_strings: tuple[str, ...] = (),
) -> ApiWriter | AsyncApiWriter:
    """The writer of a model.

    Raises:
        InvalidArgument: it is not a model, or it cannot do what is asked.
    """
    if not isinstance(model, (ApiModel, AsyncApiModel)):
        raise InvalidArgument(
            f"{type(model).__name__} is not a model; give a LogitsModel (transformers_model(...)) or an ApiModel"
        )
    # What is not a Sampling is refused by the request.
    drawn = cast("Sampling | None", sampling)
    request = TextRequest(format, max_tokens, stop_strings, drawn, scores=scores)
    return AsyncApiWriter(model, request) if isinstance(model, AsyncApiModel) else ApiWriter(model, request)


def _request(request: TextRequest, samples: int, seed: int | None) -> TextRequest:
    sampling = request.sampling
    if seed is None and sampling is not None:
        seed = sampling.seed
    return replace(request, samples=samples, seed=seed)
