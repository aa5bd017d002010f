"""The asynchronous client: awaited outputs, streams, limits, cancellation, and a thousand streams at a time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import Partial  # noqa: E402
from formatter_core.errors import InvalidArgument  # noqa: E402
from formatter_core.generation import (  # noqa: E402
    Finished,
    Snapshot,
    TextDelta,
    completion,
    continuation,
    multinomial,
)
from formatter_openai import openai_model  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, Refused, StandIn, client_of, model_of  # noqa: E402
from tests.adapters.stream_server import streaming  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")
T = TypeVar("T")


@dataclass
class Person:
    name: str
    age: int


PERSON = '{"name": "Ada", "age": 36}'
MANY = 1000


@pytest.fixture(autouse=True)
def answers(script: StandIn) -> None:
    script.answer = lambda body, index: Answer(PERSON)


def run(task: Coroutine[Any, Any, T]) -> T:
    """Run the task, and return its result; a task that waits for ever fails the test."""

    async def limited() -> T:
        return await asyncio.wait_for(task, 120)

    return asyncio.run(limited())


def test_an_output_is_awaited(script: StandIn) -> None:
    output = run(completion(model_of(script, is_async=True), Person)("Who?"))
    assert output.value == Person("Ada", 36)
    (body,) = script.requests
    assert body["response_format"]["type"] == "json_schema"


def test_outputs_are_shaped_like_the_prompts(script: StandIn) -> None:
    write = completion(model_of(script, is_async=True), Person, sampling=multinomial(1.0))
    both = run(write(["Who?", "And who?"], samples=2, seed=3))
    assert [[one.value for one in row] for row in both] == [[Person("Ada", 36)] * 2] * 2
    assert run(continuation(model_of(script, is_async=True))("Who?")).text == PERSON


def test_a_stream_is_read_with_async_for(script: StandIn) -> None:
    write = completion(model_of(script, is_async=True), Person)

    async def read() -> list[Any]:
        return [event async for event in write.stream("Who?", snapshots=True)]

    events = run(read())
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == PERSON
    values = [event.value for event in events if isinstance(event, Snapshot)]
    assert Partial(Person, {"name": "Ad"}) in values
    assert values[-1] == events[-1].output.value == Person("Ada", 36)


def test_retries_and_time_outs_are_the_clients(script: StandIn) -> None:
    def answer(body: dict[str, Any], index: int) -> Answer:
        if len(script.requests) < 3:
            raise Refused(503, "later")
        return Answer(PERSON)

    script.answer = answer
    assert run(completion(model_of(script, is_async=True, retries=2), Person)("Who?")).value == Person("Ada", 36)
    slow = client_of(script, is_async=True, timeout=0.2)
    gate = threading.Event()

    def waits(body: dict[str, Any], index: int) -> Answer:
        gate.wait(30)
        return Answer(PERSON)

    script.answer = waits
    output = run(completion(openai_model("small", client=slow), Person)("Who?"))
    gate.set()
    assert isinstance(output.error, openai.APITimeoutError)


def test_no_more_requests_run_at_a_time_than_asked(script: StandIn) -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def answer(body: dict[str, Any], index: int) -> Answer:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(30)  # three do run at a time
        with lock:
            now -= 1
        return Answer(PERSON)

    script.answer = answer
    write = completion(model_of(script, is_async=True, parallel=3), Person)

    async def main() -> list[Any]:
        return await asyncio.gather(write(["a", "b"]), *(write("c") for _ in range(7)))

    pair, *others = run(main())
    assert all(output.value == Person("Ada", 36) for output in (*pair, *others))
    assert most == 3


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_cancelled_closes_its_connection(streams: bool) -> None:
    with streaming(wanted=2, pause=0.01) as server:  # it never ends an answer, for want of another one
        write = completion(model_of(server, is_async=True), Person)

        async def read() -> Any:
            if not streams:
                return await write("Who?")
            async with aclosing(write.stream("Who?")) as events:
                return [event async for event in events]

        async def main() -> None:
            task = asyncio.create_task(read())
            while not server.told()["seen"]:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main())
        write = completion(model_of(server, is_async=True), Person)

        # Nothing of it is left: a fresh answer finds the server with nobody else, and a second one lets both end.
        async def two() -> Any:
            return await asyncio.gather(write("a"), write("b"))

        assert [output.value.age for output in run(two())] == [36, 36]
        assert server.told()["most"] <= 3


def test_whoever_reads_no_further_wants_no_more_requests(script: StandIn) -> None:
    script.answer = lambda body, index: Answer("x" * 2000)
    write = continuation(model_of(script, is_async=True, parallel=1))

    async def main() -> None:
        async with aclosing(write.stream(["a"] * 20)) as events:
            assert isinstance(await anext(events), TextDelta)

    run(main())
    assert len(script.requests) <= 2


class Wrapped:
    """A client that does not look like an asynchronous one, and is."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.chat = self.completions = self

    def create(self, **arguments: Any) -> Any:
        return self._client.chat.completions.create(**arguments)


def test_a_coroutine_is_never_read_as_an_answer() -> None:
    client = Wrapped(openai.AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="none"))
    write = completion(openai_model("small", client=client), Person)
    with pytest.raises(InvalidArgument, match="returns a coroutine; give an openai"):
        write("Who?")
    with pytest.raises(InvalidArgument, match="returns a coroutine"):
        list(write.stream("Who?"))


def test_a_thousand_streams_are_open_at_a_time_while_the_loop_runs() -> None:
    with streaming(wanted=MANY) as server:
        limits = openai.DefaultAsyncHttpxClient(limits=limits_of(openai))
        client = openai.AsyncOpenAI(
            base_url=server.address, api_key="none", max_retries=0, timeout=300, http_client=limits
        )
        write = completion(openai_model("small", client=client, parallel=MANY), Person)

        async def one() -> Any:
            async for event in write.stream("Who?", deltas=True):
                if isinstance(event, Finished):
                    return event.output.value.age
            return None

        async def main() -> tuple[list[Any], int]:
            rounds = 0

            async def count() -> None:
                nonlocal rounds
                while True:
                    await asyncio.sleep(0)
                    rounds += 1

            counting = asyncio.create_task(count())
            ages = await asyncio.gather(*(one() for _ in range(MANY)))
            counting.cancel()
            return ages, rounds

        ages, rounds = asyncio.run(main())
        assert ages == [36] * MANY
        assert server.told()["most"] == MANY
        # Each stream has some twenty chunks; were they read in one go, or in one round each, there would be few rounds.
        assert rounds > MANY


def limits_of(client: Any) -> Any:
    """Allow as many connections as there are streams, for the client's own HTTP library."""
    library = next(base for base in client.DefaultAsyncHttpxClient.__mro__ if base.__module__.startswith("httpx"))
    return __import__(library.__module__.partition(".")[0]).Limits(max_connections=MANY)


def test_a_dict_is_read_each_time(script: StandIn) -> None:
    schema: dict[str, Any] = {"type": "object"}
    write = completion(model_of(script, is_async=True), schema)

    async def twice() -> None:
        assert (await write("Who?")).value == json.loads(PERSON)
        schema["required"] = ["x"]
        assert (await write("Who?")).error is not None

    run(twice())


def test_a_client_of_another_loop_is_told_so(script: StandIn) -> None:
    write = completion(model_of(script, is_async=True), Person)
    assert run(write("Who?")).value == Person("Ada", 36)
    with pytest.raises(InvalidArgument, match="a client for each loop"):
        run(write("Who?"))
