"""docs/frameworks.md as a reader follows it, and what agents and chains do with tools, streams and errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the model is one of transformers")
pytest.importorskip("pydantic_ai", reason="needs the frameworks")

from pydantic import BaseModel

from formatter_core.errors import InvalidArgument
from formatter_openai import openai_model
from formatter_transformers import transformers_model
from tests.adapters.openai_stand_ins import Answer, StandIn, serving
from tests.pages import ROOT, run_page

TEXT = "Ivo is 41 years old, lives in Delhi and works as a pilot."


class Person(BaseModel):
    name: str
    age: int
    city: str
    job: str


IVO = Person(name="Ivo", age=41, city="Delhi", job="pilot")


@pytest.fixture(scope="module")
def model() -> Any:
    made = transformers_model(str(ROOT / "examples" / "tiny_model"))
    made.tokenizer.chat_template = "{% for m in messages if m.role == 'user' %}{{ m.content }}\n{% endfor %}"
    return made


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_page(ROOT / "docs" / "frameworks.md")


def test_an_agent_streams_objects_that_grow(model: Any) -> None:
    from pydantic_ai import Agent

    from formatter_openai.frameworks.pydantic_ai import FormatterModel

    agent = Agent(FormatterModel(model), output_type=Person)

    async def grown() -> tuple[list[Person], Any]:
        async with agent.run_stream(TEXT) as run:
            return [part async for part in run.stream_output(debounce_by=None)], run.usage

    parts, usage = asyncio.run(grown())
    assert parts[-1] == IVO
    assert (usage.input_tokens > 0, usage.output_tokens > 0) == (True, True)


def test_an_agent_calls_tools_as_they_are_described(model: Any) -> None:
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.usage import UsageLimits

    from formatter_openai.frameworks.pydantic_ai import FormatterModel

    mine = FormatterModel(model, layout="hermes", settings={"max_tokens": 120})
    assert isinstance(Agent(mine, output_type=ToolOutput(Person)).run_sync(TEXT).output, Person)

    looked: list[str] = []
    agent = Agent(mine, output_type=ToolOutput(Person), end_strategy="exhaustive")

    @agent.tool_plain
    def look(city: str) -> str:
        """Look at a city."""
        looked.append(city)
        return "a city"

    try:
        agent.run_sync(TEXT, usage_limits=UsageLimits(request_limit=3))
    except Exception as error:  # noqa: BLE001 - the small model may look again and again
        assert "request_limit" in str(error)
    assert all(isinstance(city, str) for city in looked)


def test_a_fault_of_an_agent_names_the_remedy(model: Any) -> None:
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.exceptions import ModelHTTPError

    from formatter_openai.frameworks.pydantic_ai import FormatterModel

    with pytest.raises(ModelHTTPError, match="tokens"):
        Agent(FormatterModel(model), output_type=Person).run_sync(TEXT, model_settings={"max_tokens": 3})
    with pytest.raises(ModelHTTPError, match="layout"):
        Agent(FormatterModel(model), output_type=ToolOutput(Person)).run_sync(TEXT)


def test_a_chain_waits_and_awaits_and_streams(model: Any) -> None:
    from formatter_openai.frameworks.langchain import FormatterChat

    chat = FormatterChat.of(model, layout="hermes")
    reads = chat.with_structured_output(Person)
    assert reads.invoke(TEXT) == IVO
    assert asyncio.run(reads.ainvoke(TEXT)) == IVO
    assert reads.batch([TEXT, TEXT]) == [IVO, IVO]
    assert chat.with_structured_output(Person.model_json_schema()).invoke(TEXT) == IVO.model_dump()
    raw = chat.with_structured_output(Person, include_raw=True).invoke(TEXT)
    assert raw["parsed"] == IVO
    assert raw["raw"].usage_metadata["output_tokens"] > 0
    called = chat.with_structured_output(Person, method="function_calling").invoke(TEXT, max_tokens=120)
    assert isinstance(called, Person)
    streamed = list(chat.stream(TEXT, max_tokens=6))
    assert "".join(str(part.content) for part in streamed) == chat.invoke(TEXT, max_tokens=6).content


def test_a_chain_over_a_server_checks_the_answer() -> None:
    from formatter_openai.frameworks.langchain import FormatterChat

    texts = iter([IVO.model_dump_json(), '{"name": 5}'])
    with serving(StandIn(lambda request, sample: Answer(next(texts)))) as server:
        import openai

        client = openai.OpenAI(base_url=server.address, api_key="none", max_retries=0)
        reads = FormatterChat.of(openai_model("x", client=client, server="vllm")).with_structured_output(Person)
        assert reads.invoke(TEXT) == IVO
        assert "structured_outputs" in server.requests[0]
        with pytest.raises(openai.APIError, match="continues with"):
            reads.invoke(TEXT)


def test_agents_of_smolagents_get_valid_calls(model: Any) -> None:
    from smolagents import tool

    from formatter_openai.frameworks.smolagents import FormatterModel

    @tool
    def look(city: str) -> str:
        """Look at a city.

        Args:
            city: its name.
        """
        return city

    mine = FormatterModel(model, layout="hermes", max_tokens=80)
    asked = [{"role": "user", "content": [{"type": "text", "text": TEXT}]}]
    reply = mine.generate(asked, tools_to_call_from=[look])
    assert {call.function.name for call in reply.tool_calls} == {"look"}
    assert reply.token_usage.output_tokens <= 80
    schema = {"name": "person", "schema": Person.model_json_schema()}
    parts = mine.generate_stream(asked, response_format={"type": "json_schema", "json_schema": schema})
    assert Person.model_validate_json("".join(part.content or "" for part in parts)) == IVO


def test_a_pipeline_runs_and_is_not_written_as_data(model: Any) -> None:
    from haystack import Pipeline
    from haystack.dataclasses import ChatMessage

    from formatter_openai.frameworks.haystack import FormatterChatGenerator

    generator = FormatterChatGenerator(model, generation_kwargs={"response_format": Person})
    pipeline = Pipeline()
    pipeline.add_component("llm", generator)
    messages = [ChatMessage.from_user(TEXT)]
    found = pipeline.run({"llm": {"messages": messages}})["llm"]["replies"][0].text
    assert Person.model_validate_json(found) == IVO
    awaited = asyncio.run(generator.run_async(messages))["replies"][0].text
    assert Person.model_validate_json(awaited) == IVO
    with pytest.raises(InvalidArgument, match="cannot be written"):
        pipeline.dumps()


def test_objects_of_instructor_grow(model: Any) -> None:
    import instructor

    from formatter_openai import openai_client

    teacher = instructor.from_openai(openai_client(model), mode=instructor.Mode.JSON_SCHEMA)
    asked: Any = [{"role": "user", "content": TEXT}]
    parts = list(teacher.create_partial(model="", messages=asked, response_model=Person))
    assert parts[-1].model_dump() == IVO.model_dump()
    assert len(parts) > 5
