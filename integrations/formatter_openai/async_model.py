"""A model behind an OpenAI-compatible server for an event loop: many requests at a time, without a thread for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from formatter_core.errors import InvalidArgument, MalformedAnswer, UnsupportedFormat
from formatter_core.generation.models import Finished, GenerationEvent, ScoredText, TextRequests
from formatter_core.generation.results import Generated
from formatter_openai._compat import APIError, each_of_async, reading
from formatter_openai.jobs import PATIENCE, POLL, Job, Outputs, ServedModel, Service, Told, first_of, samples_of
from formatter_openai.options import score_options
from formatter_openai.wire import Choice, as_data, as_samples, read_answer, read_chunk

__all__ = ["AsyncOpenAIModel"]

#: Seconds that requests and answers take of the loop before its other tasks have a turn.
_SLICE = 0.002


@contextmanager
def _in_its_own_loop() -> Iterator[None]:
    """Say what is wrong where a client's connections belong to another event loop."""
    try:
        yield
    except RuntimeError as error:
        if "loop" not in str(error):
            raise
        raise InvalidArgument(
            "the client was used in another event loop, and its connections belong to that; make a client for each "
            "loop, as asyncio.run makes one each time",
            argument="client",
        ) from error


class _Turns:
    """The state that the requests of one event loop share: a limit on parallel requests, and turns.

    Turns keep the loop responsive. The client takes about a millisecond to make a request, and a tenth of that to read
    a chunk; without turns, hundreds of streams would do so in one round of the loop.
    """

    def __init__(self, parallel: int) -> None:
        self.limit = asyncio.Semaphore(parallel)
        self._one_at_a_time = asyncio.Lock()
        self._began = 0.0

    async def wait(self) -> None:
        """Go on in this round of the loop if there is time left in it, or else in a later one."""
        loop = asyncio.get_running_loop()
        if not self._one_at_a_time.locked() and loop.time() - self._began < _SLICE:
            return
        async with self._one_at_a_time:
            if loop.time() - self._began >= _SLICE:
                await asyncio.sleep(0)
                self._began = loop.time()


class AsyncOpenAIModel(ServedModel):
    """A model whose outputs are awaited; made by `openai_model` with an `openai.AsyncOpenAI`.

    A task that is cancelled closes its connections. Time-outs and retries are the client's.
    """

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        #: For each event loop: asyncio's locks belong to a loop.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()

    async def acomplete(self, prompts: Sequence[str], request: TextRequests) -> list[list[Generated]]:
        """Return the samples of each prompt, in order.

        A failed output has its `error`; other outputs are returned as usual.

        Raises:
            UnsupportedFormat: the server cannot enforce the format, or reports this for every request.
            FormatterError: the format is invalid; any error of `Compiler.compile`.
        """
        outputs: list[list[Any]] = [[None] * samples_of(request) for _ in prompts]
        async with aclosing(self._events(prompts, request, stream=False)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    outputs[event.prompt][event.sample] = event.output
        return outputs

    def astream_complete(self, prompts: Sequence[str], request: TextRequests) -> AsyncGenerator[GenerationEvent]:
        """Yield the outputs as events; the last event of each output is `Finished`.

        An output that violates its format ends at once.

        Raises:
            FormatterError: like `acomplete`.
        """
        return self._events(prompts, request, stream=True)

    async def ascore_options(
        self, prompts: Sequence[str], options: Sequence[str], *, with_end: bool = False
    ) -> list[list[ScoredText]]:
        """Return the scores of each option after each prompt, for `choose`.

        Raises:
            InvalidArgument: the server does not tell what this takes.
            MalformedAnswer: an answer cannot be read.
            openai.APIError: a request failed.
        """
        turns = self._turns_of(asyncio.get_running_loop())

        async def answer(job: Job) -> Any:
            async with turns.limit:
                await turns.wait()
                return await self._answer(job)

        plan = score_options(self._service, prompts, options, with_end)
        answers: list[Any] | None = None
        while True:
            try:
                jobs = next(plan) if answers is None else plan.send(answers)
            except StopIteration as done:
                scores: list[list[ScoredText]] = done.value
                return scores
            tasks = [asyncio.create_task(answer(job)) for job in jobs]
            try:
                answers = await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _events(
        self, prompts: Sequence[str], request: TextRequests, *, stream: bool
    ) -> AsyncGenerator[GenerationEvent]:
        turns = self._turns_of(asyncio.get_running_loop())
        await turns.wait()
        if self._service.has_read(request):
            jobs = self._service.jobs(prompts, request)
        else:  # compiling a large format takes long, and must not block the loop
            jobs = await asyncio.to_thread(self._service.jobs, prompts, request)
        events: asyncio.Queue[GenerationEvent | BaseException | None] = asyncio.Queue()

        async def run(job: Job) -> None:
            try:
                async with turns.limit:
                    await self._run(job, turns, events, stream=stream)
            except BaseException as error:
                events.put_nowait(error)
                if isinstance(error, asyncio.CancelledError):
                    raise
            finally:
                events.put_nowait(None)

        tasks = [asyncio.create_task(run(job)) for job in jobs]
        try:
            told, cancelled = Told(jobs), first_of(request).cancelled
            while not told.is_over:
                if cancelled is not None and cancelled():
                    for cut in told.cut():
                        yield cut
                    return
                try:
                    news = await asyncio.wait_for(events.get(), None if cancelled is None else POLL)
                except asyncio.TimeoutError:
                    continue
                for event in told.take(news):
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _turns_of(self, loop: asyncio.AbstractEventLoop) -> _Turns:
        if loop not in self._turns:
            self._turns[loop] = _Turns(self._service.parallel)
        return self._turns[loop]

    async def _create(self, job: Job, **more: Any) -> Any:
        with self._service.refusing(job), reading(), _in_its_own_loop():
            return await self._service.create(job, **more)

    async def _run(self, job: Job, turns: _Turns, events: asyncio.Queue[Any], *, stream: bool) -> None:
        await turns.wait()
        outputs = self._service.outputs(job, streams=stream)
        cause: Exception | None = None
        try:
            async with aclosing(self._parts(job, outputs, turns) if stream else self._whole(job)) as parts:
                while True:
                    # What has ended waits for its counts alone, and not forever.
                    timeout = PATIENCE if outputs.is_without_usage else None
                    try:
                        choices = await asyncio.wait_for(anext(parts), timeout)
                    except StopAsyncIteration:
                        break
                    except asyncio.TimeoutError:
                        if timeout is None:
                            raise
                        break
                    for event in outputs.take(choices):
                        events.put_nowait(event)
                    if outputs.is_over:
                        return
                    await turns.wait()
            if outputs.is_without_usage:
                self._service.note_usage(False)
        except (APIError, MalformedAnswer, UnsupportedFormat) as error:
            cause = error
        for event in outputs.end(cause):
            events.put_nowait(event)

    async def _answer(self, job: Job) -> Any:
        """Request an answer in one piece; return it as a JSON value."""
        answer = await self._create(job)
        with reading():
            return as_data(answer)

    async def _whole(self, job: Job) -> AsyncGenerator[list[Choice]]:
        """Request an answer in one piece; return its choices."""
        choices = read_answer(await self._answer(job))
        yield as_samples(choices, job.samples)
        raise MalformedAnswer(f"{len(choices)} choices for {job.samples} samples", text="")

    async def _stream(self, job: Job, outputs: Outputs) -> Any:
        """Open a stream that reports the number of tokens, if the server supports that."""
        usage = self._service.usage_arguments(job)
        if usage:
            try:
                stream = await self._create(job, stream=True, **usage)
            except (APIError, UnsupportedFormat) as error:
                if not self._service.may_refuse_usage(error):
                    raise
            else:
                self._service.note_usage(True)
                outputs.waits_for_usage = True
                return stream
        stream = await self._create(job, stream=True)
        if usage:
            self._service.note_usage(False)
        return stream

    async def _parts(self, job: Job, outputs: Outputs, turns: _Turns) -> AsyncGenerator[list[Choice]]:
        """Yield the choices of each chunk of a stream."""
        async with (
            await self._stream(job, outputs) as stream,
            aclosing(each_of_async(stream, turns.wait)) as chunks,
        ):
            async for chunk in chunks:
                with reading():
                    data = as_data(chunk)
                yield read_chunk(data, job.samples)
