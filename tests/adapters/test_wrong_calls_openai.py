"""Wrong calls of the client for OpenAI-compatible servers raise errors of ours, and answers of no kind do too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the openai client")


from formatter_core import formats
from formatter_core.errors import MalformedAnswer
from formatter_core.generation import ScoreSettings, choose, completion, continuation, greedy
from formatter_core.generation.models import TextRequest
from formatter_openai import openai_model
from tests.adapters.openai_stand_ins import Answer, StandIn, client_of, serving
from tests.core.wrong_calls import Call, raw_errors

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

FORMAT = formats.regex("[ab]+")


@pytest.fixture
def client() -> Iterator[Any]:
    with serving(StandIn(lambda body, index: Answer("ab"))) as running:
        yield client_of(running)


def asked_both_ways(model: Any, prompts: Any, request: Any) -> None:
    model.complete(prompts, request)
    list(model.stream_complete(prompts, request))


def calls_of(client: Any) -> list[Call]:
    model = openai_model("small", client=client, server="vllm")
    options: dict[str, Any] = {
        "server": "vllm",
        "endpoint": "chat",
        "system": None,
        "processed_logprobs": False,
        "extra": {},
        "parallel": 2,
    }
    request: dict[str, Any] = {
        "format": FORMAT,
        "max_tokens": 5,
        "stop_strings": ("x",),
        "sampling": greedy(),
        "samples": 1,
        "seed": 1,
        "scores": ScoreSettings(logprob=True),
    }

    def used(*arguments: Any, **changed: Any) -> None:
        asked_both_ways(openai_model(*arguments, **changed), ["Who?"], TextRequest(FORMAT))

    def requested(**changed: Any) -> None:
        asked_both_ways(model, ["Who?"], TextRequest(**changed))

    def written(make: Callable[..., Any], *more: Any) -> Callable[..., None]:
        def call(prompt: Any, **changed: Any) -> None:
            writer = make(model, *more, **changed)
            writer(prompt)
            list(writer.stream(prompt))

        return call

    def chosen(prompt: Any, options: Any, with_end: Any) -> None:
        with suppress(MalformedAnswer):  # the stand-in does not write under a grammar
            choose(openai_model("small", client=client, server="llama_server"), prompt, options, with_end=with_end)

    writing = {name: request[name] for name in ("max_tokens", "sampling", "scores")}
    return [
        Call("openai_model", used, lambda: ("small",), lambda: {"client": client, **options}),
        Call("complete", lambda *given: asked_both_ways(model, *given), lambda: (["Who?"], TextRequest(FORMAT))),
        Call("TextRequest", requested, tuple, lambda: dict(request)),
        Call("completion", written(completion, FORMAT), lambda: ("Who?",), lambda: dict(writing)),
        Call("choose", chosen, lambda: ("Who?", ["ab", "b"]), lambda: {"with_end": False}),
        Call("continuation", written(continuation), lambda: ("Who?",), lambda: {**writing, "stop_strings": "x"}),
    ]


@pytest.mark.parametrize("seed", range(2))
def test_wrong_calls_raise_errors_of_ours(client: Any, seed: int) -> None:
    calls = calls_of(client)
    for call in calls:
        call.function(*call.arguments(), **call.options())  # which is right
    assert raw_errors(calls, 250, seed) == []
