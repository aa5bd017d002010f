"""Run models of this process for an event loop: each in its own thread, so that the loop stays free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event as Flag
from typing import Any, Generic, ParamSpec, TypeVar, overload

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.generation.models import GenerationEvent, LogitsModel
from formatter_core.generation.prompts import Prompts
from formatter_core.generation.results import Generated, Prompt
from formatter_core.runtime.generics import Value_co

__all__ = ["AsyncModel", "ThreadWriter", "async_model"]

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def async_model(model: LogitsModel) -> AsyncModel:
    """Give the model its own thread, which runs all calls to it one after the other.

    ::

        model = async_model(transformers_model("examples/tiny_model"))
        write = completion(model, Person)
        person = (await write("Ivo is 41 years old.")).value

    Raises:
        InvalidArgument: the object is not a model that gives its logits. A model behind an API needs no thread: give
            `openai_model` an `openai.AsyncOpenAI`.
    """
    if not isinstance(model, LogitsModel):
        raise InvalidArgument(
            f"{shown(model)} is not a model that gives its logits; pass one, such as transformers_model(...), or give "
            "openai_model(...) an openai.AsyncOpenAI as its client",
            argument="model",
        )
    return AsyncModel(model)


class AsyncModel:
    """A model that runs in its own thread; made by `async_model`. Any event loop may use it.

    Attributes:
        model: the model itself; do not use it elsewhere meanwhile.
    """

    def __init__(self, model: LogitsModel) -> None:
        self.model = model
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="formatter-model")

    async def run(
        self, function: Callable[Parameters, Returned], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Returned:
        """Call a function, such as `choose` or `beam_search`, in the model's thread, and await its result.

        Raises:
            FormatterError: the thread was closed.
        """
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def submit(
        self, function: Callable[Parameters, Returned], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Returned]:
        """Call a function in the model's thread without an event loop, and return a future.

        Raises:
            FormatterError: the thread was closed.
        """
        try:
            return self._thread.submit(partial(function, *args, **kwargs))
        except RuntimeError as error:
            raise FormatterError("the model's thread was closed; make another one with async_model") from error

    def close(self) -> None:
        """End the thread after the running call; waiting calls are cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class ThreadWriter(Generic[Value_co]):
    """A writer whose outputs are awaited, with a model in a thread; `completion` and `continuation` make it.

    The model stops at its next token when the task that awaits an output is cancelled, for example by a time-out, or
    when the reader of a stream stops reading.
    """

    def __init__(self, model: AsyncModel, writer: Any) -> None:
        self.model = model
        self.writer = writer
        """The `LogitsWriter` that runs in the thread."""

    @overload
    async def __call__(self, prompts: str | Generated | Prompt, *, seed: int | None = None) -> Generated[Value_co]: ...
    @overload
    async def __call__(self, prompts: list[str], *, seed: int | None = None) -> list[Generated[Value_co]]: ...
    @overload
    async def __call__(self, prompts: Prompts, **options: Any) -> Any: ...
    async def __call__(self, prompts: Prompts, **options: Any) -> Any:
        """Write the outputs, and return them in the shape of the prompts; prompts and options are as for
        `LogitsWriter`.
        """
        gone = Flag()
        options["cancelled"] = _either(gone, options.get("cancelled"))
        options.setdefault("progress", False)
        try:
            return await self.model.run(self.writer, prompts, **options)
        finally:
            gone.set()

    async def stream(self, prompts: Prompts, **options: Any) -> AsyncGenerator[GenerationEvent]:
        """Stream the outputs as events, for `async for`; prompts and options are as for `LogitsWriter.stream`."""
        gone, loop = Flag(), asyncio.get_running_loop()
        events: asyncio.Queue[GenerationEvent | None] = asyncio.Queue()
        options["cancelled"] = _either(gone, options.get("cancelled"))

        def work() -> None:
            for event in self.writer.stream(prompts, **options):
                if gone.is_set():
                    return
                tell(event)

        def tell(event: GenerationEvent | None) -> None:
            with suppress(RuntimeError):  # the loop is closed, so nobody reads further
                loop.call_soon_threadsafe(events.put_nowait, event)

        running = asyncio.ensure_future(self.model.run(work))
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await running
        finally:
            gone.set()
            running.cancel()


def _either(gone: Flag, cancelled: Callable[[], bool] | None) -> Callable[[], bool]:
    """Return a function that asks whether the reader is gone, then the caller's own function."""
    return gone.is_set if cancelled is None else lambda: gone.is_set() or cancelled()
