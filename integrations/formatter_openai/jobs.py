"""The requests of a call: one or several for each prompt, and the outputs that come of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from formatter_core import CompiledFormat, formats
from formatter_core.errors import InvalidArgument, UnsupportedFormat
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.formats.coercion import widest_reading
from formatter_core.formats.protocol import Format
from formatter_core.generation.models import (
    NO_VALUES,
    Finished,
    FormatEvent,
    GenerationEvent,
    StreamedValues,
    TextDelta,
    TextRequest,
    TextRequests,
)
from formatter_core.generation.prompts import Dialogue, as_messages
from formatter_core.generation.results import Generated
from formatter_core.runtime.compiler import compile_to_read
from formatter_openai._compat import BadRequestError
from formatter_openai.answers import Reading, text_compiler
from formatter_openai.enforcement import Endpoint, Server, complains_of_format, enforcing
from formatter_openai.reports import Enforcement, report_of
from formatter_openai.requests import arguments_of, requests_of
from formatter_openai.wire import Choice

__all__ = ["PATIENCE", "POLL", "Job", "Outputs", "ServedModel", "Service", "Told", "first_of", "samples_of"]

#: Seconds between two checks whether a call must end.
POLL = 0.05
#: Seconds for which a finished output waits for its token counts, which come directly after it.
PATIENCE = 10.0
#: Formats that are kept as they were read: reading a type takes longer than an answer.
_MAX_KEPT_FORMATS = 32


@dataclass(frozen=True)
class Job:
    """A request to the server, for one prompt and some of its samples.

    Attributes:
        prompt: the index of its prompt in the call.
        text: the prompt.
        first: the first of its samples.
        arguments: those of the client's `create`.
        compiled: the format that the server must enforce, to check the answer; None leaves the text free.
        values: the partial values that a stream reports.
        any_blanks: whether JSON may have arbitrary whitespace.
        endpoint: the endpoint that it is for.
    """

    prompt: int
    text: str
    first: int
    arguments: dict[str, Any]
    compiled: CompiledFormat | None
    values: StreamedValues
    any_blanks: bool
    endpoint: Endpoint

    @property
    def samples(self) -> int:
        """The number of samples that the request asks for."""
        return int(self.arguments.get("n", 1))


@dataclass(eq=False)
class Service:
    """A model behind a server, with the settings of its requests.

    Attributes:
        client: the client.
        name: the model's name.
        server: the kind of server.
        endpoint: the endpoint of the server.
        system: the system message of each chat.
        processed: whether its log-probabilities are those after the mask.
        extra: further arguments of the client's `create`.
        parallel: the maximum number of parallel requests.
    """

    client: Any
    name: str
    server: Server
    endpoint: Endpoint
    system: str | None
    processed: bool
    extra: Mapping[str, Any]
    parallel: int
    _kept: dict[int, tuple[Any, Format, CompiledFormat, bool]] = field(default_factory=dict)
    #: True if streams report token counts; None until a stream was requested.
    _tells_usage: bool | None = None

    def create(self, job: Job, **more: Any) -> Any:
        """Send a request; an asynchronous client returns a coroutine."""
        place = self.client.chat.completions if job.endpoint == "chat" else self.client.completions
        return place.create(**job.arguments, **more)

    def jobs(self, prompts: Sequence[str], request: TextRequests) -> list[Job]:
        """Return the requests for the prompts of a call.

        Raises:
            UnsupportedFormat: the server cannot enforce the format.
            FormatterError: the format or an argument is invalid; any error of `Compiler.compile`.
        """
        texts = list(elements_of(prompts, "prompts", "texts"))
        if isinstance(request, list):
            if len(request) != len(texts):
                raise InvalidArgument(f"found {len(texts)} prompts and {len(request)} requests; give one for each")
            alone = (self.jobs([text], one) for text, one in zip(texts, request, strict=True))
            return [replace(job, prompt=prompt) for prompt, jobs in enumerate(alone) for job in jobs]
        if not isinstance(request, TextRequest):
            raise InvalidArgument(f"request is {shown(request)}; give a TextRequest", argument="request")
        format, compiled, any_blanks = (None, None, False) if request.format is None else self._compiled(request.format)
        arguments = self._with_extra(arguments_of(request, format, self.server, self.endpoint))
        more = compiled, request.values, any_blanks, self.endpoint
        return [
            Job(prompt, text, first, {**some, **self._prompt_arguments(text)}, *more)
            for prompt, text in enumerate(texts)
            for first, some in requests_of(arguments, request, self.server)
        ]

    def text_job(self, prompt: str | list[int], arguments: Mapping[str, Any]) -> Job:
        """Return a request to the completions endpoint, for a text or its ids; its answer is not checked."""
        if self.endpoint == "completions":  # what is added to the requests of a chat has no place there
            arguments = self._with_extra({"extra_body": {}, **arguments})
        arguments = {**arguments, **self._text_arguments(prompt)}
        return Job(0, str(prompt), 0, arguments, None, NO_VALUES, any_blanks=False, endpoint="completions")

    def enforcement(self, format: Any) -> Enforcement:
        """Report what the server enforces of a format.

        Raises:
            UnsupportedFormat: nothing can be sent to it for this format.
            FormatterError: the format is invalid.
        """
        return report_of(enforcing(formats.as_format(format), self.server, self.endpoint), self.server)

    def has_read(self, request: TextRequests) -> bool:
        """Tell whether the formats of requests were compiled before, so that `jobs` is quick."""
        requests = [request] if isinstance(request, TextRequest) else request
        return all(one.format is None or id(one.format) in self._kept for one in requests)

    def outputs(self, job: Job, *, streams: bool) -> Outputs:
        """Return the outputs of a request that has been sent."""
        is_split = self.endpoint == "chat" and self.server != "formatter_vllm"
        readings = [
            Reading(job.compiled, self.processed, job.text, is_split, job.any_blanks) for _ in range(job.samples)
        ]
        return Outputs(job, readings, streams)

    def usage_arguments(self, job: Job) -> dict[str, Any]:
        """Return the arguments that request token counts in a stream; none if the server does not support that.

        The server counts all samples of a request together, so counts are requested only for a single sample.
        """
        given = {**job.arguments, **job.arguments.get("extra_body", {})}
        # Streams of llama-cpp-python's server never tell it.
        if self.server == "llama_cpp" or self._tells_usage is False or job.samples > 1 or "stream_options" in given:
            return {}
        return {"stream_options": {"include_usage": True}}

    def may_refuse_usage(self, error: Exception) -> bool:
        """Tell whether the server may have refused the request only because it asks for token counts."""
        if any(name in str(error) for name in ("stream_options", "include_usage")):
            return True
        return self._tells_usage is None and getattr(error, "status_code", None) in (400, 422)

    def note_usage(self, is_told: bool) -> None:
        """Remember whether streams tell the counts."""
        if not is_told or self._tells_usage is None:  # another request may have found out more
            self._tells_usage = is_told

    @contextmanager
    def refusing(self, job: Job) -> Iterator[None]:
        """Send a request; the server may refuse its format.

        Raises:
            UnsupportedFormat: it does.
        """
        try:
            yield
        except BadRequestError as error:
            if job.compiled is not None and complains_of_format(error, job.text):
                raise UnsupportedFormat(f"it answers {error}", server=self.server) from None
            raise

    def _compiled(self, given: Any) -> tuple[Format, CompiledFormat, bool]:
        kept = self._kept.get(id(given))
        if kept is not None and isinstance(given, (type, CompiledFormat)):  # these cannot be changed
            return kept[1:]
        format = formats.as_format(given)
        compiled = compile_to_read(text_compiler(), given)
        if len(self._kept) >= _MAX_KEPT_FORMATS:
            self._kept.clear()
        any_blanks = widest_reading(given, format) is not None
        self._kept[id(given)] = given, format, compiled, any_blanks
        return format, compiled, any_blanks

    def _prompt_arguments(self, prompt: str) -> dict[str, Any]:
        if not isinstance(prompt, str):
            raise InvalidArgument(f"a model behind an API takes text, not {type(prompt).__name__}; give a str")
        if self.endpoint == "completions":
            return self._text_arguments(prompt)
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return {"model": self.name, "messages": [*system, *as_messages(prompt)]}

    def _text_arguments(self, prompt: str | list[int]) -> dict[str, Any]:
        if isinstance(prompt, Dialogue) and prompt.is_conversation:
            raise InvalidArgument("the completions endpoint takes no messages; give text, or use endpoint='chat'")
        return {"model": self.name, "prompt": prompt}

    def _with_extra(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        own = dict(self.extra)
        body = {**arguments["extra_body"], **own.pop("extra_body", {})}
        return {**arguments, "extra_body": body, **own}


class ServedModel:
    """A base class for models behind a server: what their users can ask without a request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def name(self) -> str:
        """The model's name, as the server knows it."""
        return self._service.name

    def enforcement(self, format: Any) -> Enforcement:
        """Report how a format is enforced: what the server is sent, and which keywords of a schema it does not read.

        Raises:
            UnsupportedFormat: nothing can be sent to the server for this format.
            FormatterError: the format is invalid.
        """
        return self._service.enforcement(format)


class Outputs:
    """The outputs of one request while their text arrives."""

    def __init__(self, job: Job, readings: Sequence[Reading], streams: bool) -> None:
        self._job = job
        self._readings = readings
        self._streams = streams
        #: True if the token counts come after the end of the text.
        self.waits_for_usage = False

    @property
    def is_over(self) -> bool:
        """Tell whether all outputs are finished."""
        return all(one.is_over for one in self._readings)

    @property
    def is_without_usage(self) -> bool:
        """Tell whether everything has arrived except the token counts that the request asked for."""
        return all(one.ended is not None and not one.is_over for one in self._readings)

    def take(self, choices: Sequence[Choice]) -> Iterator[GenerationEvent]:
        """Take the choices of an answer, or of a chunk of it; what is new."""
        for choice in choices:
            one, place = self._readings[choice.index], (self._job.prompt, self._job.first + choice.index)
            if one.is_over:
                continue
            if one.ended is not None:
                if choice.usage is not None:
                    one.take(replace(choice, text="", token_ids=(), scores=(), refusal="", reasoning="", calls=()))
                    yield Finished(*place, one.finish(*one.ended))
                continue
            events = one.take(choice)
            chosen = one.new_scores()
            if choice.text or choice.token_ids or chosen:
                yield TextDelta(*place, choice.text, choice.token_ids, chosen)
            for event in events:
                yield FormatEvent(*place, event)
            if choice.text:
                yield from one.new_values(*place, self._job.values)
            if not self._streams or choice.finish_reason is not None or one.error is not None:
                ended = choice.finish_reason, choice.stop_reason
                if self.waits_for_usage and one.error is None and not one.has_usage:
                    one.ended = ended
                else:
                    yield Finished(*place, one.finish(*ended))

    def end(self, cause: Exception | None) -> Iterator[GenerationEvent]:
        """Finish the open outputs with an error; None if the connection just broke."""
        for index, one in enumerate(self._readings):
            if not one.is_over:
                if one.ended is not None:  # only the counts have not come
                    output = one.finish(*one.ended)
                else:
                    output = one.finish(None) if cause is None else one.fail(cause)
                yield Finished(self._job.prompt, self._job.first + index, output)


class Told:
    """The events of all requests of a call; each request ends with None.

    Outputs whose format the server refused are reported last: if there are no other outputs, the call itself raises.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._running = len(jobs)
        self._open = {(job.prompt, job.first + sample): job.text for job in jobs for sample in range(job.samples)}
        self._samples = sum(job.samples for job in jobs)
        self._refused: list[Finished] = []

    @property
    def is_over(self) -> bool:
        """Tell whether all requests have ended."""
        return not self._running

    def cut(self) -> Iterator[Finished]:
        """Finish the outputs that have not come, because the call is cancelled."""
        for (prompt, sample), text in self._open.items():
            yield Finished(prompt, sample, Generated((), b"", "cancelled", prompt=text))
        yield from self._refused

    def take(self, told: GenerationEvent | BaseException | None) -> Iterator[GenerationEvent]:
        """Take what one of them tells, and give what the caller is to see now.

        Raises:
            BaseException: what went wrong in the request.
            UnsupportedFormat: the server has refused the format of every output.
        """
        if isinstance(told, BaseException):
            raise told
        if isinstance(told, Finished):
            self._open.pop((told.prompt, told.sample), None)
        if told is None:
            self._running -= 1
        elif isinstance(told, Finished) and isinstance(told.output.error, UnsupportedFormat):
            self._refused.append(told)
        else:
            yield told
        if self.is_over:
            if self._refused and len(self._refused) == self._samples:
                self._refused[0].output.raise_error()
            yield from self._refused


def first_of(request: TextRequests) -> TextRequest:
    """Return the request that has the settings shared by the whole call."""
    first = request[0] if isinstance(request, list) and request else request
    return first if isinstance(first, TextRequest) else TextRequest()


def samples_of(request: TextRequests) -> int:
    """Return the number of outputs of each prompt."""
    return first_of(request).samples
