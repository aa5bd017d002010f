"""Models in this process for an event loop: the loop stays free, and what nobody waits for ends at the next token."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import numpy as np
import pytest

from formatter_core import FormatterBuilder, formats
from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.generation import (
    Faithful,
    Finished,
    TextDelta,
    async_model,
    choose,
    completion,
    continuation,
    multinomial,
)
from tests.core.tiny_logits_model import TinyModel, by_tokens, writes

LONG = formats.regex("[ab]{2000}")
T = TypeVar("T")


def run(task: Coroutine[Any, Any, T]) -> T:
    """The task's result; what waits for ever fails the test instead."""

    async def limited() -> T:
        return await asyncio.wait_for(task, 60)

    return asyncio.run(limited())


class Gated:
    """Logits that wait at one place until they are let through; counts the steps of the model."""

    def __init__(self, at: int) -> None:
        self.reached, self.gate, self.steps, self._at = threading.Event(), threading.Event(), 0, at
        self._logits = by_tokens()

    def __call__(self, tokens: tuple[int, ...]) -> np.ndarray:
        self.steps += 1
        if len(tokens) == self._at:
            self.reached.set()
            assert self.gate.wait(60)
        return self._logits(tokens)

    async def wait(self) -> None:
        """Wait for the model to stand at the gate, while the loop runs."""
        while not self.reached.is_set():
            await asyncio.sleep(0)


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append(b.regex("[a-z]{1,6}", name="name"), ": ", b.integer(name="age", minimum=0, maximum=99))


def test_outputs_and_events_are_those_of_the_same_call_without_a_loop() -> None:
    model = TinyModel(by_tokens(1))
    warm = multinomial(temperature=1.0)
    write = completion(model, card(), sampling=warm)
    awaited = completion(async_model(model), card(), sampling=warm)

    async def both() -> tuple[Any, Any, list[Any]]:
        one, many = await awaited("a", seed=1), await awaited(["a", "b"], samples=2, seed=1)
        return one, many, [event async for event in awaited.stream(["a", "b"], seed=1, snapshots=True)]

    one, many, events = run(both())
    assert one.tokens == write("a", seed=1).tokens
    assert [[each.tokens for each in row] for row in many] == [
        [each.tokens for each in row] for row in write(["a", "b"], samples=2, seed=1)
    ]
    told = list(write.stream(["a", "b"], seed=1, snapshots=True))
    assert [type(event) for event in events] == [type(event) for event in told]
    assert [event.output.text for event in events if isinstance(event, Finished)] == [
        event.output.text for event in told if isinstance(event, Finished)
    ]


def test_the_loop_runs_while_the_model_computes() -> None:
    logits = Gated(at=3)
    write = continuation(async_model(TinyModel(logits)), max_tokens=10)

    async def main() -> Any:
        task = asyncio.create_task(write("a"))
        await logits.wait()  # which never returns if the loop is blocked
        logits.gate.set()
        return await task

    assert run(main()).tokens


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_cancelled_ends_at_the_next_token(streams: bool) -> None:
    logits = Gated(at=5)
    model = async_model(TinyModel(logits))
    write = completion(model, LONG, max_tokens=2000, fit=False)

    async def read() -> Any:
        if not streams:
            return await write("a")
        async with aclosing(write.stream("a")) as events:
            return [event async for event in events]

    async def main() -> int:
        task = asyncio.create_task(read())
        await logits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        logits.gate.set()
        await model.run(lambda: None)  # waits for the thread
        return logits.steps

    assert run(main()) <= 6


def test_whoever_reads_no_further_stops_the_model() -> None:
    logits = Gated(at=4)
    model = async_model(TinyModel(logits))
    write = completion(model, LONG, max_tokens=2000, fit=False)

    async def main() -> int:
        async with aclosing(write.stream("a")) as events:
            assert isinstance(await anext(events), TextDelta)
        logits.gate.set()
        await model.run(lambda: None)
        return logits.steps

    assert run(main()) <= 5


def test_a_time_out_ends_an_output() -> None:
    logits = Gated(at=3)
    model = async_model(TinyModel(logits))

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(continuation(model)("a"), 0.05)
        logits.gate.set()
        await model.run(lambda: None)

    run(main())
    assert logits.steps <= 4


def test_calls_of_one_model_take_turns_and_other_functions_run_in_its_thread() -> None:
    inner = TinyModel(writes(b"yes", prompt=1))
    model = async_model(inner)
    write = completion(model, formats.choice(["yes", "no"]))

    async def main() -> tuple[list[Any], Any, Any]:
        outputs = await asyncio.gather(*(write("a") for _ in range(20)))
        scores = await model.run(choose, inner, "a", ["yes", "no"])
        return outputs, scores, await model.run(threading.current_thread)

    outputs, scores, thread = run(main())
    assert [output.value for output in outputs] == ["yes"] * 20
    assert scores[0].text == "yes"
    assert thread is not threading.main_thread()
    assert run(write("a")).value == "yes"  # in another loop


def test_errors_reach_whoever_awaits() -> None:
    model = async_model(TinyModel(by_tokens()))
    write = completion(model, card())

    async def both() -> None:
        with pytest.raises(InvalidArgument):
            await write([])  # type: ignore[arg-type]
            await write(5)
        with pytest.raises(InvalidArgument, match="samples"):
            async for _ in write.stream("a", samples=0):
                pass
        model.close()
        with pytest.raises(FormatterError, match="was closed"):
            await write("a")

    run(both())


@pytest.mark.parametrize("wrong", [None, "x", object()])
def test_what_is_no_model_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"openai\.AsyncOpenAI"):
        async_model(wrong)


# --- without a loop ----------------------------------------------------------------------------------------------


def test_a_cancelled_output_can_be_continued() -> None:
    steps = iter([False] * 4 + [True] * 1000)
    write = completion(TinyModel(by_tokens()), formats.regex("[ab]{40}"), forced_text="off", fit=False)
    part = write("a", cancelled=lambda: next(steps))
    assert part.stopped == "cancelled"
    assert 1 <= len(part.tokens) <= 4
    assert not part.result.is_complete
    assert write(part).text == write("a").text


@pytest.mark.parametrize("how", [{"faithful": Faithful(max_draws=10)}, {"particles": True}, {}])
def test_each_way_of_drawing_can_be_cancelled(how: dict[str, Any]) -> None:
    write = completion(TinyModel(by_tokens()), LONG, max_tokens=3000, sampling=multinomial(1.0), **how)
    calls = iter([False] * 3 + [True] * 1000)
    outputs = write("a", samples=3, cancelled=lambda: next(calls))
    assert [output.stopped for output in outputs] == ["cancelled"] * 3
    stopped = write(["a", "b"], cancelled=lambda: True)
    assert [output.stopped for output in stopped] == ["cancelled"] * 2


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cancelled"):
        completion(TinyModel(by_tokens()), card())("a", cancelled=True)  # type: ignore[arg-type]
