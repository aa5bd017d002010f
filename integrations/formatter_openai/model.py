"""A model behind an OpenAI-compatible server: text in, text out, in a format that the server keeps and we check."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import Any, get_args

from formatter_core import CompiledFormat, formats
from formatter_core.errors import InvalidFormat, UnsupportedFormat
from formatter_core.generation.models import Finished, FormatEvent, GenerationEvent, TextDelta, TextRequest
from formatter_core.generation.results import Generated
from formatter_openai._compat import APIError, BadRequestError, OpenAI, cut_off
from formatter_openai.answers import Reading, text_compiler
from formatter_openai.enforcement import Endpoint, Server
from formatter_openai.requests import arguments_of, requests_of

__all__ = ["OpenAIModel", "openai_model"]

#: What a server's complaint about a format speaks of.
_ABOUT_FORMATS = ("response_format", "schema", "structured", "grammar", "guided", "formatter", "regex")


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
        server: what answers, which decides how a format goes to it: `"openai"` (`response_format`; also for services
            that imitate OpenAI's), `"vllm"` (`structured_outputs`), `"formatter_vllm"` (vLLM with our processor,
            through `vllm_xargs`: every format), or `"llama_cpp"` (the server of llama-cpp-python).
        endpoint: `"chat"`, where a prompt is a user's message, or `"completions"`, where it is the text to continue.
        system: a system message to begin each chat with.
        processed_logprobs: whether the server's log-probabilities are those after the mask (vLLM:
            `--logprobs-mode processed_logprobs`): `ChosenToken.logprob`; otherwise they are its `unmasked_logprob`.
        extra: further arguments of every request, for example `{"extra_body": {"priority": 1}}`.
        parallel: how many requests run at a time.

    Raises:
        InvalidFormat: an argument out of range.
    """
    if server not in get_args(Server) or endpoint not in get_args(Endpoint) or parallel < 1:
        raise InvalidFormat(
            f"server is {server!r}, endpoint {endpoint!r}, parallel {parallel}; a server is one of "
            f"{', '.join(get_args(Server))}, an endpoint one of {', '.join(get_args(Endpoint))}, parallel at least 1"
        )
    made = OpenAI() if client is None else client
    return OpenAIModel(made, name, server, endpoint, system, processed_logprobs, dict(extra or {}), parallel)


class OpenAIModel:
    """A model behind an OpenAI-compatible server; made by `openai_model`. Threads may share it."""

    def __init__(
        self,
        client: Any,
        name: str,
        server: Server,
        endpoint: Endpoint,
        system: str | None,
        processed_logprobs: bool,
        extra: dict[str, Any],
        parallel: int,
    ) -> None:
        self.name = name
        self.server = server
        self.endpoint = endpoint
        self._client = client
        self._system = system
        self._processed = processed_logprobs
        self._extra = extra
        self._parallel = parallel

    def complete(self, prompts: Sequence[str], request: TextRequest) -> list[list[Generated]]:
        """The samples of each prompt, in order. An output that went wrong carries its `error`; the others are there.

        Raises:
            UnsupportedFormat: the server cannot keep the format, or says so.
            FormatterError: a fault of the format; whatever `Compiler.compile` raises.
        """
        compiled, jobs = self._jobs(prompts, request)
        with ThreadPoolExecutor(self._parallel) as pool:
            answers = list(pool.map(lambda job: self._answer(job, compiled), jobs))
        outputs: list[list[Generated]] = [[] for _ in prompts]
        for job, answer in zip(jobs, answers, strict=True):
            outputs[job.prompt].extend(answer)
        return outputs

    def stream_complete(self, prompts: Sequence[str], request: TextRequest) -> Iterator[GenerationEvent]:
        """The same as events; the last one of each output is `Finished`. An output that leaves its format ends there.

        Raises:
            FormatterError: like `complete`.
        """
        compiled, jobs = self._jobs(prompts, request)
        return self._events(compiled, jobs)

    def _events(self, compiled: CompiledFormat | None, jobs: list[_Job]) -> Iterator[GenerationEvent]:
        events: queue.SimpleQueue[GenerationEvent | BaseException | None] = queue.SimpleQueue()
        opened: list[Any] = []
        gone = Flag()

        def run(job: _Job) -> None:
            try:
                if not gone.is_set():
                    self._stream(job, compiled, events.put, opened, gone)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever reads the events
                events.put(error)
            finally:
                events.put(None)

        pool = ThreadPoolExecutor(self._parallel)
        try:
            for job in jobs:
                pool.submit(run, job)
            running = len(jobs)
            while running:
                event = events.get()
                if event is None:
                    running -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            gone.set()  # whoever reads no further wants no more requests, and waits for none
            pool.shutdown(wait=False, cancel_futures=True)
            for stream in opened:
                cut_off(stream)

    def _jobs(self, prompts: Sequence[str], request: TextRequest) -> tuple[CompiledFormat | None, list[_Job]]:
        format = None if request.format is None else formats.as_format(request.format)
        compiled = None if format is None else text_compiler().compile(format)
        arguments = arguments_of(request, format, self.server, self.endpoint)
        own = dict(self._extra)
        arguments["extra_body"] = {**arguments["extra_body"], **own.pop("extra_body", {})}
        arguments.update(own)
        jobs = [
            _Job(prompt, text, first, self._with_prompt(text, some))
            for prompt, text in enumerate(prompts)
            for first, some in requests_of(arguments, request, self.server)
        ]
        return compiled, jobs

    def _with_prompt(self, prompt: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(prompt, str):
            raise InvalidFormat(f"a model behind an API takes text, not {type(prompt).__name__}; give a str")
        if self.endpoint == "completions":
            return {**arguments, "model": self.name, "prompt": prompt}
        begin = [] if self._system is None else [{"role": "system", "content": self._system}]
        return {**arguments, "model": self.name, "messages": [*begin, {"role": "user", "content": prompt}]}

    def _create(self, job: _Job, **more: Any) -> Any:
        endpoint = self._client.chat.completions if self.endpoint == "chat" else self._client.completions
        try:
            return endpoint.create(**job.arguments, **more)
        except BadRequestError as error:
            if job.has_format and any(word in str(error).lower() for word in _ABOUT_FORMATS):
                raise UnsupportedFormat(f"it answers {error}", server=self.server) from error
            raise

    def _answer(self, job: _Job, compiled: CompiledFormat | None) -> list[Generated]:
        try:
            choices = sorted(self._create(job).choices, key=lambda choice: choice.index)
        except APIError as error:
            return [self._reading(compiled, job).fail(error) for _ in range(job.samples)]
        outputs = []
        for choice in choices[: job.samples]:
            reading = self._reading(compiled, job)
            reading.take(choice, _whole)
            outputs.append(reading.finish(choice.finish_reason, getattr(choice, "stop_reason", None)))
        missing = job.samples - len(outputs)
        return outputs + [self._reading(compiled, job).finish("nothing at all") for _ in range(missing)]

    def _stream(
        self,
        job: _Job,
        compiled: CompiledFormat | None,
        tell: Callable[[GenerationEvent], None],
        opened: list[Any],
        gone: Flag,
    ) -> None:
        readings = [self._reading(compiled, job) for _ in range(job.samples)]

        def finish(index: int, output: Generated) -> None:
            tell(Finished(job.prompt, job.first + index, output))

        try:
            with self._create(job, stream=True) as chunks:
                opened.append(chunks)
                for chunk in chunks:
                    for choice in chunk.choices:
                        reading = readings[choice.index]
                        if reading.is_over:
                            continue
                        place = (job.prompt, job.first + choice.index)
                        text, events, tokens = reading.take(choice, _delta)
                        if text or tokens:
                            tell(TextDelta(*place, text, tokens))
                        for event in events:
                            tell(FormatEvent(*place, event))
                        if choice.finish_reason is not None or reading.error is not None:
                            finish(
                                choice.index, reading.finish(choice.finish_reason, getattr(choice, "stop_reason", None))
                            )
                    if gone.is_set() or all(reading.is_over for reading in readings):
                        return
        except APIError as error:
            for index, reading in enumerate(readings):
                if not reading.is_over:
                    finish(index, reading.fail(error))
            return
        for index, reading in enumerate(readings):
            if not reading.is_over:
                finish(index, reading.finish(None))

    def _reading(self, compiled: CompiledFormat | None, job: _Job) -> Reading:
        return Reading(compiled, self._processed, job.text)


class _Job:
    """One request: its prompt's place and text, the first of the samples that it is for, and its arguments."""

    def __init__(self, prompt: int, text: str, first: int, arguments: dict[str, Any]) -> None:
        self.prompt = prompt
        self.text = text
        self.first = first
        self.arguments = arguments
        self.samples = int(arguments.get("n", 1))

    @property
    def has_format(self) -> bool:
        """Whether a format goes along."""
        body = self.arguments["extra_body"]
        return "response_format" in self.arguments or bool({"structured_outputs", "vllm_xargs", "grammar"} & set(body))


def _whole(choice: Any) -> str:
    message = getattr(choice, "message", None)
    return str((choice.text if message is None else message.content) or "")


def _delta(choice: Any) -> str:
    delta = getattr(choice, "delta", None)
    return str((choice.text if delta is None else delta.content) or "")
