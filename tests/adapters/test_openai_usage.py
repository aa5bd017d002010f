"""Servers count the tokens of a stream: they tell the counts, refuse to, ignore the question, or never send them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

import formatter_openai.async_model  # noqa: E402
import formatter_openai.model  # noqa: E402
from formatter_core import formats  # noqa: E402
from formatter_core.errors import TokenRejected, UnsupportedFormat  # noqa: E402
from formatter_core.generation import Finished, Generated, Usage, completion  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, Refused, StandIn, model_of  # noqa: E402

YES = formats.choice(["yes", "no"])


class Asking:
    """A model of a stand-in, with a client that waits or one that is awaited."""

    def __init__(self, script: StandIn, is_async: bool, **options: Any) -> None:
        self._is_async = is_async
        self._script = script
        self._options = {"server": "vllm", **options}
        self._model = None if is_async else model_of(script, **self._options)

    def outputs(self, calls: int = 1, **settings: Any) -> list[Generated]:
        """Return the outputs of streams, one call after the other."""
        if self._model is not None:
            write = completion(self._model, YES)
            events = [event for _ in range(calls) for event in write.stream("Well?", **settings)]
        else:
            events = asyncio.run(self._awaited(calls, settings))
        return [event.output for event in events if isinstance(event, Finished)]

    async def _awaited(self, calls: int, settings: dict[str, Any]) -> list[Any]:
        write = completion(model_of(self._script, is_async=True, **self._options), YES)
        return [event for _ in range(calls) async for event in write.stream("Well?", **settings)]


@pytest.fixture(params=[False, True], ids=["waiting", "awaited"])
def is_async(request: Any) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def answers(script: StandIn) -> None:
    script.answer = lambda body, index: Answer("yes")


def asked(script: StandIn) -> list[bool]:
    return ["stream_options" in body for body in script.requests]


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_stream_tells_the_counts(script: StandIn, is_async: bool, endpoint: str) -> None:
    script.usage = "tell"
    first, second = Asking(script, is_async, endpoint=endpoint).outputs(2)
    assert first.usage == second.usage == Usage(7, 3, 4)
    assert (first.value, first.stopped) == ("yes", "end")
    assert [body["stream_options"] for body in script.requests] == [{"include_usage": True}] * 2


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_is_asked_without_it_and_that_is_remembered(
    script: StandIn, is_async: bool, status: int
) -> None:
    script.usage, script.refusal = "refuse", status
    outputs = Asking(script, is_async).outputs(3)
    assert [(output.value, output.usage) for output in outputs] == [("yes", None)] * 3
    assert asked(script) == [True, False, False, False]


def test_a_server_that_takes_no_notice_is_not_asked_again(script: StandIn, is_async: bool) -> None:
    outputs = Asking(script, is_async).outputs(3)
    assert [(output.value, output.usage) for output in outputs] == [("yes", None)] * 3
    assert asked(script) == [True, False, False]


def test_a_server_that_never_closes_loses_the_counts_alone(
    script: StandIn, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (formatter_openai.model, formatter_openai.async_model):
        monkeypatch.setattr(module, "PATIENCE", 0.2)
    script.usage = "hang"
    outputs = Asking(script, is_async).outputs(2)
    assert [(output.value, output.usage, output.error) for output in outputs] == [("yes", None, None)] * 2
    assert asked(script) == [True, False]


def test_another_refusal_is_told_as_it_is(script: StandIn, is_async: bool) -> None:
    def refuse(body: Any, index: int) -> Answer:
        raise Refused(400, "temperature is too high")

    script.answer = refuse
    asking = Asking(script, is_async)
    (output,) = asking.outputs()
    assert "too high" in str(output.error)
    script.answer = lambda body, index: Answer("yes")
    script.usage = "tell"
    assert asking.outputs()[0].usage == Usage(7, 3, 4)  # that refusal said nothing about the counts


def test_a_refused_format_costs_no_second_request(script: StandIn, is_async: bool) -> None:
    def refuse(body: Any, index: int) -> Answer:
        raise Refused(400, "unsupported schema", param="response_format")

    script.answer = refuse
    with pytest.raises(UnsupportedFormat):
        Asking(script, is_async).outputs()
    assert asked(script) == [True]


def test_where_it_is_not_asked_for(script: StandIn, is_async: bool) -> None:
    script.usage = "tell"
    Asking(script, is_async).outputs(n=2, temperature=1.0)  # it counts the samples together
    Asking(script, is_async, server="llama_cpp").outputs()
    Asking(script, is_async, extra={"extra_body": {"stream_options": {"include_usage": False}}}).outputs()
    assert asked(script) == [False, False, True]
    assert script.requests[2]["stream_options"] == {"include_usage": False}


def test_an_output_that_leaves_its_format_waits_for_nothing(script: StandIn, is_async: bool) -> None:
    script.answer, script.usage = lambda body, index: Answer("yeah"), "tell"
    (output,) = Asking(script, is_async).outputs()
    assert isinstance(output.error, TokenRejected)
    assert output.usage is None
