"""A model behind an OpenAI-compatible server: text in, text out, in a format that the server enforces and this package
checks.
"""

from __future__ import annotations

import inspect
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event as Flag
from threading import Timer
from typing import TYPE_CHECKING, Any, get_args, overload

from formatter_core.errors import InvalidArgument, MalformedAnswer, UnsupportedFormat
from formatter_core.errors.arguments import one_of, shown, true_or_false, whole_number
from formatter_core.generation.deadlines import Cancelled
from formatter_core.generation.models import Finished, GenerationEvent, ScoredText, TextRequests
from formatter_core.generation.progress import progress
from formatter_core.generation.results import Generated
from formatter_openai._compat import APIError, OpenAI, cut_off, each_of, is_async, reading
from formatter_openai.async_model import AsyncOpenAIModel
from formatter_openai.enforcement import Endpoint, Server
from formatter_openai.jobs import PATIENCE, POLL, Job, Outputs, ServedModel, Service, Told, first_of, samples_of
from formatter_openai.options import score_options
from formatter_openai.wire import Choice, as_data, as_samples, read_answer, read_chunk

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel", "openai_model"]


@overload
def openai_model(
    name: str,
    *,
    client: AsyncOpenAI,
    server: Server = "openai",
    endpoint: Endpoint = "chat",
    system: str | None = None,
    processed_logprobs: bool = False,
    extra: Mapping[str, Any] | None = None,
    parallel: int = 8,
) -> AsyncOpenAIModel: ...
@overload
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
) -> OpenAIModel: ...
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
) -> OpenAIModel | AsyncOpenAIModel:
    """Make a model behind an OpenAI-compatible server, for `completion`, `continuation` and `choose`.

    Args:
        name: the model's name, as the server knows it.
        client: an `openai.OpenAI`, with the address, key, time-outs and retries that you want; by default
            `openai.OpenAI()`, which reads its environment variables. With an `openai.AsyncOpenAI` the model is for an
            event loop: outputs of `completion` and `continuation` are awaited, and their streams are `async for`.
        server: the kind of server, which decides how to send a format: `"openai"` (`response_format`; also for services
            that imitate OpenAI's), `"vllm"` (`structured_outputs`), `"formatter_vllm"` (vLLM with the processor of
            `formatter_vllm`, through `vllm_xargs`: every format), `"llama_cpp"` (the server of llama-cpp-python),
            `"llama_server"` (llama.cpp's own), `"ollama"` or `"lmstudio"`. `enforcement(format)` of the model says what
            that means.
        endpoint: `"chat"`, where a prompt is a user's message and an output that is a prompt again the assistant's, or
            `"completions"`, where it is the text to continue.
        system: a system message to begin each chat with.
        processed_logprobs: whether the server's log-probabilities are those after the mask (vLLM:
            `--logprobs-mode processed_logprobs`): `ChosenToken.logprob`; otherwise they are its `unmasked_logprob`.
        extra: further arguments of the client's `create`, for example `{"reasoning_effort": "low"}`; what it does not
            know goes into `extra_body`: `{"extra_body": {"priority": 1}}`.
        parallel: how many requests run at a time; of an asynchronous client in each event loop.

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
        reason = f"client is {shown(client)}; give an openai.OpenAI or an openai.AsyncOpenAI"
        raise InvalidArgument(reason, argument="client") from error
    try:
        inspect.signature(create).bind_partial(**(extra or {}))
    except TypeError as error:
        raise InvalidArgument(
            f"the client's create() {error}; put it into extra['extra_body']", argument="extra"
        ) from None
    service = Service(made, name, server, endpoint, system, processed_logprobs, dict(extra or {}), parallel)
    return AsyncOpenAIModel(service) if is_async(made, create) else OpenAIModel(service)


class OpenAIModel(ServedModel):
    """A model behind an OpenAI-compatible server; made by `openai_model`. Threads may share it."""

    def complete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """Return the samples of each prompt, in order.

        A failed output has its `error`; other outputs are returned as usual.

        Raises:
            UnsupportedFormat: the server cannot enforce the format, or reports this for every request.
            FormatterError: the format is invalid; any error of `Compiler.compile`.
        """
        jobs = self._service.jobs(prompts, request)
        outputs: list[list[Any]] = [[None] * samples_of(request) for _ in prompts]
        first = first_of(request)
        events = self._events(jobs, first.cancelled, stream=False)
        total = len(prompts) * first.samples
        for event in progress(_finished(events), total, "outputs") if first.progress and total > 1 else events:
            if isinstance(event, Finished):
                outputs[event.prompt][event.sample] = event.output
        return outputs

    def stream_complete(self, prompts: Sequence[str], request: TextRequests) -> Iterator[GenerationEvent]:
        """Yield the outputs as events; the last event of each output is `Finished`.

        An output that violates its format ends at once.

        Raises:
            FormatterError: like `complete`.
        """
        return self._events(self._service.jobs(prompts, request), first_of(request).cancelled, stream=True)

    def score_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """Return the scores of each option after each prompt, for `choose`.

        Raises:
            InvalidArgument: the server does not tell what this takes.
            MalformedAnswer: an answer cannot be read.
            openai.APIError: a request failed.
        """
        plan = score_options(self._service, prompts, options, with_end)
        answers: list[Any] | None = None
        with ThreadPoolExecutor(self._service.parallel) as pool:
            while True:
                try:
                    jobs = next(plan) if answers is None else plan.send(answers)
                except StopIteration as done:
                    scores: list[list[ScoredText]] = done.value
                    return scores
                answers = list(pool.map(self._answer, jobs))

    def _events(self, jobs: list[Job], cancelled: Cancelled | None, *, stream: bool) -> Iterator[GenerationEvent]:
        events: queue.SimpleQueue[GenerationEvent | BaseException | None] = queue.SimpleQueue()
        opened: list[Any] = []
        gone = Flag()

        def run(job: Job) -> None:
            try:
                if not gone.is_set():
                    self._run(job, events.put, opened if stream else None, gone)
            except BaseException as error:  # noqa: BLE001 - raised again in the reader of the events
                events.put(error)
            finally:
                events.put(None)

        pool = ThreadPoolExecutor(self._service.parallel)
        try:
            for job in jobs:
                pool.submit(run, job)
            told = Told(jobs)
            while not told.is_over:
                if cancelled is not None and cancelled():
                    yield from told.cut()
                    return
                with suppress(queue.Empty):
                    yield from told.take(events.get(timeout=None if cancelled is None else POLL))
        finally:
            gone.set()  # a reader that stops needs no more requests, and waits for none
            pool.shutdown(wait=False, cancel_futures=True)
            for each in opened:
                cut_off(each)

    def _create(self, job: Job, **more: Any) -> Any:
        with self._service.refusing(job), reading():
            answer = self._service.create(job, **more)
        if inspect.iscoroutine(answer):  # of a client that does not look like an asynchronous one
            answer.close()
            raise InvalidArgument("the client's create() returns a coroutine; give an openai.OpenAI or an AsyncOpenAI")
        return answer

    def _run(self, job: Job, tell: Callable[[GenerationEvent], None], opened: list[Any] | None, gone: Flag) -> None:
        """Ask for the outputs of one request, as a stream where there is a list of those that are open."""
        outputs = self._service.outputs(job, streams=opened is not None)
        cause: Exception | None = None
        try:
            for choices in self._whole(job) if opened is None else self._parts(job, outputs, opened):
                for event in outputs.take(choices):
                    tell(event)
                if gone.is_set() or outputs.is_over:
                    return
            if outputs.is_without_usage:
                self._service.note_usage(False)
        except (APIError, MalformedAnswer, UnsupportedFormat) as error:
            cause = error
        for event in outputs.end(cause):
            tell(event)

    def _answer(self, job: Job) -> Any:
        """Request an answer in one piece; return it as a JSON value."""
        with reading():
            return as_data(self._create(job))

    def _whole(self, job: Job) -> Iterator[list[Choice]]:
        """Request an answer in one piece; return its choices."""
        choices = read_answer(self._answer(job))
        yield as_samples(choices, job.samples)
        raise MalformedAnswer(f"{len(choices)} choices for {job.samples} samples", text="")

    def _stream(self, job: Job, outputs: Outputs) -> Any:
        """Open a stream that reports the number of tokens, if the server supports that."""
        usage = self._service.usage_arguments(job)
        if usage:
            try:
                stream = self._create(job, stream=True, **usage)
            except (APIError, UnsupportedFormat) as error:
                if not self._service.may_refuse_usage(error):
                    raise
            else:
                self._service.note_usage(True)
                outputs.waits_for_usage = True
                return stream
        stream = self._create(job, stream=True)
        if usage:
            self._service.note_usage(False)
        return stream

    def _parts(self, job: Job, outputs: Outputs, opened: list[Any]) -> Iterator[list[Choice]]:
        """Yield the choices of each chunk of a stream."""
        with self._stream(job, outputs) as chunks, ExitStack() as at_end:
            opened.append(chunks)
            is_timed = False
            for chunk in each_of(chunks):
                with reading():
                    data = as_data(chunk)
                yield read_chunk(data, job.samples)
                if outputs.is_without_usage and not is_timed:
                    is_timed = True
                    late = Timer(PATIENCE, self._end_without_usage, [chunks])
                    late.daemon = True
                    late.start()
                    at_end.callback(late.cancel)

    def _end_without_usage(self, stream: Any) -> None:
        self._service.note_usage(False)
        cut_off(stream)


def _finished(events: Iterator[GenerationEvent]) -> Iterator[GenerationEvent]:
    return (event for event in events if isinstance(event, Finished))
