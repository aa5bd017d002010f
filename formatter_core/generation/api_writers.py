"""Write outputs for prompts with a model behind an API, synchronously or awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, overload

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.generation.call_settings import (
    CallSettings,
    OnePromptSettings,
    asked_scores,
    calls_settings,
    drawing_of,
    no_positional,
    sampling_of,
)
from formatter_core.generation.deadlines import Cancelled, is_to_end
from formatter_core.generation.models import (
    NO_SCORES,
    NO_VALUES,
    ApiModel,
    AsyncApiModel,
    GenerationEvent,
    StreamedValues,
    TextRequest,
)
from formatter_core.generation.prompts import Prompts, as_list, as_text, in_shape
from formatter_core.generation.results import Generated, Prompt
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.stopping import stop_bytes
from formatter_core.generation.streamed import Snapshots, streamed_values
from formatter_core.runtime.generics import Value_co

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ApiWriter", "AsyncApiWriter", "api_writer"]


class ApiWriter(Generic[Value_co]):
    """A writer for a model behind an API; `completion` and `continuation` make it.

    A copy, even a deep copy, shares the model.
    """

    def __init__(self, model: ApiModel, request: TextRequest) -> None:
        self.model = model
        self.request = request

    def __deepcopy__(self, memo: dict[int, Any]) -> ApiWriter[Value_co]:
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
        """Write the outputs, as `LogitsWriter` does; the seed has an effect only if the server supports it.

        An output that has not arrived when the call is cancelled or times out is empty. The client's own time-out
        applies to each request.
        """
        no_positional(more)
        own = replace(self.request, cancelled=is_to_end(cancelled, timeout), progress=progress)
        asked = _Asked(own, prompts, settings)
        return asked.shaped(self.model.complete(asked.texts, asked.requests))

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
        """Stream the outputs as events; `snapshots` and `deltas` are as in `LogitsWriter.stream`."""
        own = replace(self.request, cancelled=is_to_end(cancelled, timeout))
        asked = _Asked(own, prompts, settings, streamed_values(snapshots, deltas), streams=True)
        return self.model.stream_complete(asked.texts, asked.requests)


class AsyncApiWriter(Generic[Value_co]):
    """A writer whose outputs are awaited, for a model behind an API; `completion` and `continuation` make it.

    A copy, even a deep copy, shares the model.
    """

    def __init__(self, model: AsyncApiModel, request: TextRequest) -> None:
        self.model = model
        self.request = request

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncApiWriter[Value_co]:
        return copy(self)

    @overload
    async def __call__(
        self, prompts: str | Generated | Prompt, *, seed: int | None = None, max_tokens: int | None = None
    ) -> Generated[Value_co]: ...
    @overload
    async def __call__(
        self, prompts: list[str], *, seed: int | None = None, max_tokens: int | None = None
    ) -> list[Generated[Value_co]]: ...
    @overload
    async def __call__(
        self,
        prompts: Prompts,
        *,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        **settings: Unpack[CallSettings],
    ) -> Any: ...
    async def __call__(
        self,
        prompts: Prompts,
        *more: Any,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        **settings: Any,
    ) -> Any:
        """Write the outputs, as `ApiWriter` does."""
        no_positional(more)
        own = replace(self.request, cancelled=is_to_end(cancelled, timeout))
        asked = _Asked(own, prompts, settings)
        return asked.shaped(await self.model.acomplete(asked.texts, asked.requests))

    def stream(
        self,
        prompts: Prompts,
        *,
        cancelled: Cancelled | None = None,
        timeout: float | None = None,
        snapshots: Snapshots = False,
        deltas: bool = False,
        **settings: Unpack[CallSettings],
    ) -> AsyncGenerator[GenerationEvent]:
        """Stream the outputs as events, for `async for`; `snapshots` and `deltas` are as in `LogitsWriter.stream`."""
        own = replace(self.request, cancelled=is_to_end(cancelled, timeout))
        asked = _Asked(own, prompts, settings, streamed_values(snapshots, deltas), streams=True)
        return self.model.astream_complete(asked.texts, asked.requests)


class _Asked:
    """The prompts of a call that can be sent, with their requests.

    Attributes:
        texts: the valid prompts.
        requests: one request for all prompts, or one for each.
    """

    def __init__(
        self,
        own: TextRequest,
        prompts: Prompts,
        settings: Mapping[str, Any],
        values: StreamedValues = NO_VALUES,
        *,
        streams: bool = False,
    ) -> None:
        given, self._is_one = as_list(prompts)
        self._samples, each = calls_settings(settings, len(given))
        self._outputs: list[list[Generated]] = [[] for _ in given]
        texts: dict[int, str] = {}
        for index, prompt in enumerate(given):
            try:
                texts[index] = as_text(prompt)
            except FormatterError as error:
                if self._is_one or streams:
                    raise
                self._outputs[index] = [Generated((), b"", "error", error, prompt="")] * self._samples
        self._places = list(texts)
        self.texts = list(texts.values())
        first = each[0] if each else OnePromptSettings()
        self.requests: TextRequest | list[TextRequest]
        if all(one is first or one == first for one in each):
            self.requests = _request_of(own, self._samples, first, values)
        else:
            self.requests = [_request_of(own, self._samples, each[place], values) for place in texts]

    def shaped(self, found: list[list[Generated]]) -> Any:
        """Return the outputs in the shape of the prompts."""
        for index, outputs in zip(self._places, found, strict=True):
            self._outputs[index] = outputs
        return in_shape(self._outputs, self._is_one, self._samples)


def api_writer(
    model: ApiModel | AsyncApiModel, settings: Mapping[str, Any], format: Any = None
) -> ApiWriter | AsyncApiWriter:
    """Make the writer of a model, with the options of `completion` or `continuation`.

    Raises:
        InvalidArgument: the object is not a model, or it does not support an option.
    """
    if not isinstance(model, (ApiModel, AsyncApiModel)):
        raise InvalidArgument(
            f"{type(model).__name__} is not a model; give a LogitsModel (transformers_model(...)) or an ApiModel"
        )
    given = settings.get("sampling")
    # The request rejects whatever is not a Sampling.
    drawn = sampling_of(given, drawing) if (drawing := drawing_of(settings)) else given
    scores = asked_scores(settings.get("scores"), settings.get("top_logprobs"), settings.get("logprobs"), NO_SCORES)
    stops = tuple(stop.decode() for stop in stop_bytes(settings.get("stop_strings", ())))
    seed = settings.get("seed")
    request = TextRequest(format, settings.get("max_tokens"), stops, drawn, seed=seed, scores=scores)
    return AsyncApiWriter(model, request) if isinstance(model, AsyncApiModel) else ApiWriter(model, request)


def _request_of(own: TextRequest, samples: int, one: OnePromptSettings, values: StreamedValues) -> TextRequest:
    """Make the request for one prompt, where a call has options for this prompt alone."""
    sampling = one.sampling_instead_of(own.sampling)
    seed = own.seed if one.seed is None else one.seed
    return replace(
        own,
        format=one.format[0] if one.format else own.format,
        max_tokens=own.max_tokens if one.max_tokens is None else one.max_tokens,
        stop_strings=own.stop_strings if one.stops is None else tuple(stop.decode() for stop in one.stops),
        sampling=sampling,
        samples=samples,
        seed=sampling.seed if seed is None and isinstance(sampling, Sampling) else seed,
        scores=one.scores_instead_of(own.scores),
        values=values,
    )
