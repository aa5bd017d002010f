"""A model behind an OpenAI-compatible server: text in, text out, in a format that the server enforces and we check."""

from __future__ import annotations

import inspect
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event as Flag
from typing import Any, get_args

from formatter_core import CompiledFormat, formats
from formatter_core.errors import InvalidArgument, MalformedAnswer, UnsupportedFormat
from formatter_core.errors.arguments import elements_of, one_of, shown, true_or_false, whole_number
from formatter_core.generation.models import (
    Finished,
    FormatEvent,
    GenerationEvent,
    StreamedValues,
    TextDelta,
    TextRequest,
)
from formatter_core.generation.prompts import Dialogue, as_messages
from formatter_core.generation.results import Generated
from formatter_core.runtime.compiler import compile_to_read
from formatter_openai._compat import APIError, BadRequestError, OpenAI, cut_off, each_of, reading
from formatter_openai.answers import Reading, text_compiler
from formatter_openai.enforcement import Endpoint, Server, complains_of_format
from formatter_openai.requests import arguments_of, requests_of
from formatter_openai.wire import Choice, as_data, read_answer, read_chunk

__all__ = ["OpenAIModel", "openai_model"]


def openai_model(
    name: str,
    *,
    client: Any = None,
    server: Server = "openai",
    endpoint: Endpoint = "chat",
    system: str | None = None,
    processed_logprobs: bool = False,
    extra: Mapping[str, Any] | None = None,
    parallel: int = 8,
) -> OpenAIModel:
    """A model behind an OpenAI-compatible server, for `completion` and `continuation`.

    Args:
        name: the model's name, as the server knows it.
        client: an `openai.OpenAI`, with the address, key, time-outs and retries that you want; by default
            `openai.OpenAI()`, which reads its environment variables.
        server: the kind of server, which decides how to send a format: `"openai"` (`response_format`; also for services
            that imitate OpenAI's), `"vllm"` (`structured_outputs`), `"formatter_vllm"` (vLLM with our processor,
            through `vllm_xargs`: every format), or `"llama_cpp"` (the server of llama-cpp-python).
        endpoint: `"chat"`, where a prompt is a user's message and an output that is a prompt again the assistant's, or
            `"completions"`, where it is the text to continue.
        system: a system message to begin each chat with.
        processed_logprobs: whether the server's log-probabilities are those after the mask (vLLM:
            `--logprobs-mode processed_logprobs`): `ChosenToken.logprob`; otherwise they are its `unmasked_logprob`.
        extra: further arguments of the client's `create`, for example `{"reasoning_effort": "low"}`; what it does not
            know goes into `extra_body`: `{"extra_body": {"priority": 1}}`.
        parallel: how many requests run at a time.

    Raises:
        InvalidArgument: an argument out of range.
    """
    one_of(server, "server", get_args(Server))
    one_of(endpoint, "endpoint", get_args(Endpoint))
    true_or_false(processed_logprobs, "processed_logprobs")
    whole_number(parallel, "parallel", 1)
    if not isinstance(name, str) or not (system is None or isinstance(system, str)):
        raise InvalidArgument(f"name is {shown(name)} and system {shown(system)}; give texts")
    if not (extra is None or (isinstance(extra, Mapping) and all(isinstance(key, str) for key in extra))):
        raise InvalidArgument(f"extra is {shown(extra)}; give a dict of keyword arguments", argument="extra")
    made = OpenAI() if client is None else client
    try:
        create = made.chat.completions.create if endpoint == "chat" else made.completions.create
    except AttributeError as error:
        reason = f"client is {shown(client)}; give an openai.OpenAI"
        raise InvalidArgument(reason, argument="client") from error
    try:
        inspect.signature(create).bind_partial(**(extra or {}))
    except TypeError as error:
        raise InvalidArgument(
            f"the client's create() {error}; put it into extra['extra_body']", argument="extra"
        ) from None
    return OpenAIModel(made, name, server, endpoint, system, processed_logprobs, dict(extra or {}), parallel)


@dataclass(eq=False, repr=False)
class OpenAIModel:
    """A model behind an OpenAI-compatible server; made by `openai_model`. Threads may share it."""

    _client: Any
    name: str
    server: Server
    endpoint: Endpoint
    _system: str | None
    _processed: bool
    _extra: Mapping[str, Any]
    _parallel: int

    def complete(self, prompts: Sequence[str], request: TextRequest) -> list[list[Generated]]:
        """The samples of each prompt, in order. A failed output has its `error`; the others are returned as usual.

        Raises:
            UnsupportedFormat: the server cannot enforce the format, or says so to every request.
            FormatterError: the format is invalid; whatever `Compiler.compile` raises.
        """
        texts = _texts(prompts, request)
        outputs: list[list[Any]] = [[None] * request.samples for _ in texts]
        for event in self._events(self._jobs(texts, request), stream=False):
            if isinstance(event, Finished):
                outputs[event.prompt][event.sample] = event.output
        return outputs

    def stream_complete(self, prompts: Sequence[str], request: TextRequest) -> Iterator[GenerationEvent]:
        """The same as events; the last one of each output is `Finished`. An output that leaves its format ends at once.

        Raises:
            FormatterError: like `complete`.
        """
        return self._events(self._jobs(_texts(prompts, request), request), stream=True)

    def _events(self, jobs: list[_Job], *, stream: bool) -> Iterator[GenerationEvent]:
        events: queue.SimpleQueue[GenerationEvent | BaseException | None] = queue.SimpleQueue()
        opened: list[Any] = []
        gone = Flag()

        def run(job: _Job) -> None:
            try:
                if not gone.is_set():
                    self._run(job, events.put, opened if stream else None, gone)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever reads the events
                events.put(error)
            finally:
                events.put(None)

        pool = ThreadPoolExecutor(self._parallel)
        try:
            for job in jobs:
                pool.submit(run, job)
            running, refused = len(jobs), list[Finished]()
            while running:
                event = events.get()
                if event is None:
                    running -= 1
                elif isinstance(event, BaseException):
                    raise event
                elif isinstance(event, Finished) and _is_refused(event.output):
                    refused.append(event)
                else:
                    yield event
            if refused and len(refused) == sum(job.samples for job in jobs):
                refused[0].output.raise_error()
            yield from refused
        finally:
            gone.set()  # whoever reads no further wants no more requests, and waits for none
            pool.shutdown(wait=False, cancel_futures=True)
            for stream in opened:
                cut_off(stream)

    def _jobs(self, texts: list[str], request: TextRequest) -> list[_Job]:
        format = None if request.format is None else formats.as_format(request.format)
        compiled = None if format is None else compile_to_read(text_compiler(), request.format)
        arguments = arguments_of(request, format, self.server, self.endpoint)
        own = dict(self._extra)
        arguments["extra_body"] = {**arguments["extra_body"], **own.pop("extra_body", {})}
        arguments.update(own)
        return [
            _Job(prompt, text, first, {**some, **self._prompt_arguments(text)}, compiled, request.values)
            for prompt, text in enumerate(texts)
            for first, some in requests_of(arguments, request, self.server)
        ]

    def _prompt_arguments(self, prompt: str) -> dict[str, Any]:
        if not isinstance(prompt, str):
            raise InvalidArgument(f"a model behind an API takes text, not {type(prompt).__name__}; give a str")
        if self.endpoint == "completions":
            if isinstance(prompt, Dialogue) and prompt.is_conversation:
                raise InvalidArgument("the completions endpoint takes no messages; give text, or use endpoint='chat'")
            return {"model": self.name, "prompt": prompt}
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        return {"model": self.name, "messages": [*system, *as_messages(prompt)]}

    def _create(self, job: _Job, **more: Any) -> Any:
        endpoint = self._client.chat.completions if self.endpoint == "chat" else self._client.completions
        try:
            with reading():
                return endpoint.create(**job.arguments, **more)
        except BadRequestError as error:
            if job.compiled is not None and complains_of_format(error, job.text):
                raise UnsupportedFormat(f"it answers {error}", server=self.server) from None
            raise

    def _run(self, job: _Job, tell: Callable[[GenerationEvent], None], opened: list[Any] | None, gone: Flag) -> None:
        """Ask for the outputs of one request, as a stream where there is a list of those that are open."""
        is_split = self.endpoint == "chat" and self.server != "formatter_vllm"
        readings = [Reading(job.compiled, self._processed, job.text, is_split) for _ in range(job.samples)]
        cause: Exception | None = None
        try:
            for choices in self._whole(job) if opened is None else self._parts(job, opened):
                for choice in choices:
                    one, place = readings[choice.index], (job.prompt, job.first + choice.index)
                    if one.is_over:
                        continue
                    events = one.take(choice)
                    if choice.text or choice.token_ids:
                        tell(TextDelta(*place, choice.text, choice.token_ids))
                    for event in events:
                        tell(FormatEvent(*place, event))
                    for told in one.new_values(*place, job.values) if choice.text else ():
                        tell(told)
                    if opened is None or choice.finish_reason is not None or one.error is not None:
                        tell(Finished(*place, one.finish(choice.finish_reason, choice.stop_reason)))
                if gone.is_set() or all(one.is_over for one in readings):
                    return
        except (APIError, MalformedAnswer, UnsupportedFormat) as error:
            cause = error
        for index, one in enumerate(readings):
            if not one.is_over:
                tell(Finished(job.prompt, job.first + index, one.finish(None) if cause is None else one.fail(cause)))

    def _whole(self, job: _Job) -> Iterator[list[Choice]]:
        """The choices of an answer that comes in one piece."""
        with reading():
            data = as_data(self._create(job))
        choices = read_answer(data)
        yield [replace(choice, index=place) for place, choice in enumerate(choices[: job.samples])]
        raise MalformedAnswer(f"{len(choices)} choices for {job.samples} samples", text="")

    def _parts(self, job: _Job, opened: list[Any]) -> Iterator[list[Choice]]:
        """The choices of each chunk of a stream."""
        with self._create(job, stream=True) as chunks:
            opened.append(chunks)
            for chunk in each_of(chunks):
                with reading():
                    data = as_data(chunk)
                yield read_chunk(data, job.samples)


@dataclass(frozen=True)
class _Job:
    """One request.

    Attributes:
        prompt: the place of its prompt in the call.
        text: the prompt.
        first: the first of the samples that it is for.
        arguments: those of the client's `create`.
        compiled: the format that the server is to keep, to check what comes back; None leaves the text free.
        values: what a stream tells of the values while they are written.
    """

    prompt: int
    text: str
    first: int
    arguments: dict[str, Any]
    compiled: CompiledFormat | None
    values: StreamedValues

    @property
    def samples(self) -> int:
        """How many samples it is for."""
        return int(self.arguments.get("n", 1))


def _texts(prompts: Sequence[str], request: TextRequest) -> list[str]:
    if not isinstance(request, TextRequest):
        raise InvalidArgument(f"request is {shown(request)}; give a TextRequest", argument="request")
    return list(elements_of(prompts, "prompts", "texts"))


def _is_refused(output: Generated) -> bool:
    return isinstance(output.error, UnsupportedFormat)
