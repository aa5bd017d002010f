"""A service in this process that answers requests for chat completions with any of this project's models."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from threading import Event as Flag
from typing import Any, cast

from formatter_core import Vocabulary, formats
from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown
from formatter_core.formats.chat_answer import ChatAnswerFormat
from formatter_core.generation import (
    ApiModel,
    AsyncApiModel,
    AsyncModel,
    Generated,
    GenerationEvent,
    LogitsModel,
    async_model,
    completion,
)
from formatter_core.layouts import Layout
from formatter_core.layouts.lookup import known_layout
from formatter_openai.local.answers import Chunks, completion_of
from formatter_openai.local.asked import Asked, read_request

__all__ = ["Service"]

#: The layout for models behind a chat endpoint, where the server parses the turns.
_SPLIT = "qwen3"


class Service:
    """A service that answers requests with a model; any number of clients may share it.

    A model that gives its logits runs in its own thread, one request after the other. An abandoned stream blocks other
    requests for at most the time that it takes to generate.

    Args:
        model: a model that `completion` takes.
        layout: how it writes turns; by default that of its chat template.

    Raises:
        InvalidArgument: the argument is not a model.
        UnsupportedLayout: there is no layout of that name.
    """

    def __init__(self, model: Any, layout: Layout | str | None) -> None:
        if isinstance(model, LogitsModel):
            model = async_model(model)
        if not isinstance(model, (AsyncModel, ApiModel, AsyncApiModel)):
            raise InvalidArgument(
                f"{shown(model)} is not a model; give transformers_model(...), llama_model(...), openai_model(...)",
                argument="model",
            )
        self._model = model
        self._layout = Layout.named(layout) if isinstance(layout, str) else layout
        self._has_searched = layout is not None

    @property
    def name(self) -> str:
        """The model's name: that of a server's model, or the type."""
        return str(getattr(self._model, "name", None) or type(getattr(self._model, "model", self._model)).__name__)

    def read(self, body: bytes) -> Asked:
        """Read a request.

        Raises:
            FormatterError: the request is invalid, or asks for something that is not supported.
        """
        if not self._has_searched:
            self._layout, self._has_searched = self._found_layout(), True
        asked = read_request(body, self._layout)
        if not isinstance(self._model, AsyncModel):
            return asked
        format, layout = asked.format, self._layout
        has_reasoning = layout is not None and layout.reasoning is not None
        if format is not None and layout is not None and has_reasoning and not isinstance(format, ChatAnswerFormat):
            format = formats.chat_answer(layout, content=format)  # the model may think first
        return replace(asked, format=format, messages=[_for_template(message) for message in asked.messages])

    def answer(self, asked: Asked) -> dict[str, Any]:
        """Answer a request with a chat completion.

        Raises:
            Exception: what went wrong with an output.
        """
        gone = Flag()
        try:
            if isinstance(self._model, AsyncModel):
                write = _writer(self._model.model, asked)
                quiet: dict[str, Any] = {**asked.settings, "progress": False}
                outputs = self._model.submit(write, [asked.messages], cancelled=gone.is_set, **quiet).result()
            else:
                outputs = _writer(self._waiting(), asked)([asked.messages], progress=False, **asked.settings)
        finally:
            gone.set()
        return self._completion(asked, outputs)

    async def aanswer(self, asked: Asked) -> dict[str, Any]:
        """Await the answer; see `answer`."""
        if isinstance(self._model, (AsyncModel, AsyncApiModel)):
            outputs = await _writer(self._model, asked)([asked.messages], **asked.settings)
            return self._completion(asked, outputs)
        return await asyncio.to_thread(self.answer, asked)

    def chunks(self, asked: Asked) -> Iterator[dict[str, Any]]:
        """Return the chunks of a stream; the first one is available when this returns.

        Raises:
            Exception: what went wrong with an output.
        """
        made = Chunks(asked, self._vocabulary())
        if isinstance(self._model, AsyncModel):
            events = self._events_of_thread(asked, self._model)
        else:
            events = _writer(self._waiting(), asked).stream([asked.messages], **asked.settings)
        for event in events:
            yield from made.of(event)
        yield from made.usage()

    async def achunks(self, asked: Asked) -> AsyncGenerator[dict[str, Any]]:
        """Yield the chunks of the answer asynchronously; see `chunks`."""
        made = Chunks(asked, self._vocabulary())
        if isinstance(self._model, (AsyncModel, AsyncApiModel)):
            write = _writer(self._model, asked)
            async with aclosing(write.stream([asked.messages], **asked.settings)) as events:
                async for event in events:
                    for chunk in made.of(event):
                        yield chunk
            for chunk in made.usage():
                yield chunk
            return
        chunks = self.chunks(asked)
        while found := await asyncio.to_thread(lambda: list(islice(chunks, 1))):
            yield found[0]

    def _events_of_thread(self, asked: Asked, model: AsyncModel) -> Iterator[GenerationEvent]:
        gone = Flag()
        events: queue.SimpleQueue[GenerationEvent | Future[None]] = queue.SimpleQueue()

        def work() -> None:
            write = _writer(model.model, asked)
            for event in write.stream([asked.messages], cancelled=gone.is_set, **asked.settings):
                events.put(event)

        model.submit(work).add_done_callback(events.put)
        try:
            while not isinstance(event := events.get(), Future):
                yield event
            event.result()
        finally:
            gone.set()

    def _waiting(self) -> ApiModel:
        """Return the model in the form for a client that waits for its answers."""
        if isinstance(self._model, ApiModel):
            return self._model
        raise InvalidArgument("this model's outputs are awaited; use async_openai_client", argument="model")

    def _completion(self, asked: Asked, outputs: Any) -> dict[str, Any]:
        (found,) = outputs
        samples: list[Generated] = found if isinstance(found, list) else [found]
        return completion_of(asked, samples, self._vocabulary())

    def _vocabulary(self) -> Vocabulary | None:
        return self._model.model.vocabulary if isinstance(self._model, AsyncModel) else None

    def _found_layout(self) -> Layout | None:
        if not isinstance(self._model, AsyncModel):
            return Layout.named(_SPLIT)
        model: Any = self._model.model
        if hasattr(model, "layout"):
            return cast("Layout | None", model.layout)
        return known_layout(getattr(model, "tokenizer", None))


def _writer(model: Any, asked: Asked) -> Any:
    """Make the function that writes answers to a request. Conversations and settings are checked when it is called."""
    return completion(model, asked.format)


def _for_template(message: dict[str, Any]) -> dict[str, Any]:
    """Convert a message for chat templates: they take a call's arguments as an object, and chat endpoints as text."""
    if message["role"] == "developer":
        return {**message, "role": "system"}
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        try:
            function = call["function"]
            arguments = json.loads(function.get("arguments") or "{}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(f"{shown(call)} is not a tool call", argument="messages") from error
        calls.append({**call, "function": {**function, "arguments": arguments}})
    return {**message, "tool_calls": calls}
