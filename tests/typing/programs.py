"""Programs of users, with the types that calls return: mypy and pyright read them, and nothing runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI, OpenAI
from typing_extensions import assert_type

from formatter_core import Compiler, Result, parse
from formatter_core.generation import (
    AsyncApiWriter,
    AsyncModel,
    Generated,
    LogitsModel,
    OptionScore,
    ThreadWriter,
    Usage,
    async_model,
    beam_search,
    choose,
    completion,
    continuation,
)
from formatter_openai import (
    AsyncOpenAIModel,
    Enforcement,
    OpenAIModel,
    async_openai_client,
    openai_client,
    openai_model,
)


@dataclass
class Person:
    name: str
    age: int


def one_prompt_or_several(model: LogitsModel) -> None:
    write = completion(model, Person, max_tokens=80, temperature=0.5)
    one = write("Ivo is 41.")
    assert_type(one, Generated[Person])
    assert_type(one.value, Person)
    assert_type(one.usage, Usage | None)
    assert_type(write(["Ivo is 41.", "Ann is 27."]), list[Generated[Person]])
    assert_type(write("Ivo is 41.", n=4, timeout=60.0), Any)
    assert_type(write(one + " And?"), Generated[Person])
    assert_type(continuation(model)("Once"), Generated[str])


def options_and_beams(model: LogitsModel) -> None:
    assert_type(choose(model, "The sky is", ["blue", "green"]), list[OptionScore])
    assert_type(choose(model, ["The sky is", "The sea is"], [1, 2]), list[list[OptionScore]])
    assert_type(beam_search(model, "Ivo", Person), list[Generated[Any]])
    assert_type(beam_search(model, ["Ivo", "Ann"], Person), list[list[Generated[Any]]])


def models_behind_an_api() -> None:
    model = openai_model("gpt-5-mini")
    assert_type(model, OpenAIModel)
    assert_type(model.enforcement(Person), Enforcement)
    assert_type(completion(model, Person)("Ivo is 41.").value, Person)
    assert_type(choose(model, "The sky is", ["blue", "green"]), list[OptionScore])
    assert_type(choose(model, ["The sky is", "The sea is"], [1, 2]), list[list[OptionScore]])
    assert_type(openai_model("gpt-5-mini", client=AsyncOpenAI()), AsyncOpenAIModel)


async def awaited(model: LogitsModel) -> None:
    local = async_model(model)
    assert_type(local, AsyncModel)
    write = completion(local, Person)
    assert_type(write, ThreadWriter[Person] | AsyncApiWriter[Person])
    assert_type(await write("Ivo is 41."), Generated[Person])
    served = openai_model("gpt-5-mini", client=AsyncOpenAI())
    assert_type(await choose(served, "The sky is", ["blue", "green"]), list[OptionScore])
    assert_type(await choose(served, ["The sky is", "The sea is"], [1, 2]), list[list[OptionScore]])


def clients(model: LogitsModel) -> None:
    assert_type(openai_client(model), OpenAI)
    assert_type(async_openai_client(model), AsyncOpenAI)


def texts(compiler: Compiler) -> None:
    assert_type(parse(Person, "{}"), Result[Person])
    assert_type(parse(Person, "{}").value, Person)
    assert_type(compiler.compile(Person).parse("{}").value.age, int)
