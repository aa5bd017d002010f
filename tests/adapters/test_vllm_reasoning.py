"""Formats behind reasoning: what the prompt has opened or ended, and answers that a server has split."""

from __future__ import annotations

import types

import pytest

torch = pytest.importorskip("torch", reason="the vLLM adapter needs torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import ChatAnswer, ToolCall, formats  # noqa: E402
from formatter_core.errors import InvalidArgument  # noqa: E402
from formatter_vllm import create_extra_args, result, results  # noqa: E402
from formatter_vllm.requests import read_format  # noqa: E402
from tests.adapters.test_vllm_requests import choice, output  # noqa: E402
from tests.adapters.vllm_engines import ENDS, engine_of  # noqa: E402
from tests.adapters.vllm_stand_ins import GENERATIONS, Request, parameters_of, vllm_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}}


@pytest.fixture(params=[*((generation, "batch") for generation in GENERATIONS), (GENERATIONS[-1], "slots")])
def runner_of(request):
    generation, kind = request.param
    with vllm_of(generation):
        yield lambda engine: getattr(engine, kind)()


@pytest.mark.parametrize("after_reasoning", [True, "auto"])
@pytest.mark.parametrize("prompt", ["Hi", "Hi<think>\n", "Hi<think>\n\n</think>\n\n"])
def test_the_end_of_the_prompt_counts(runner_of, tokenizer, prompt, after_reasoning) -> None:
    engine = engine_of(tokenizer)
    arguments = create_extra_args(formats.regex("[0-9]{3}"), after_reasoning=after_reasoning)
    written = {
        "Hi": "<think>ab</think>123",
        "Hi<think>\n": "ab</think>123",
        "Hi<think>\n\n</think>\n\n": "123",
    }[prompt]
    ids = tokenizer.encode(prompt).ids
    compiled = engine.compiler.after_prompt(engine.compiler.compile(read_format(arguments["formatter"])), ids)
    asked = Request(parameters_of(arguments, end_ids=ENDS), compiled, prompt=ids)
    runner = runner_of(engine)
    forced = iter([*tokenizer.encode(written).ids, ENDS[0]])
    runner.sample = lambda masked: _forced(masked, next(forced))
    runner.run([asked])
    assert engine.text(asked) == written
    assert runner.processor.failures == 0


def _forced(masked, token: int) -> int:
    assert torch.isfinite(masked[token])
    return token


def test_other_values_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="after_reasoning"):
        create_extra_args(int, after_reasoning="yes")  # type: ignore[arg-type]


class TestResults:
    def test_text_behind_the_marker(self) -> None:
        for text, after_reasoning, value in (
            ("<think>1</think>2", True, 2),
            ("1</think>2", "auto", 2),
            ("2", "auto", 2),
            ("2", True, None),
            ("<think>2", "auto", None),
        ):
            for made in (output(text), choice(text), text):
                found = result(made, int, after_reasoning=after_reasoning)
                assert found.is_complete == (value is not None)
                assert value is None or found.value == value

    def test_an_answer_that_the_server_has_split(self) -> None:
        for name in ("reasoning", "reasoning_content"):
            made = choice("2")
            setattr(made.message, name, "1")
            assert results([made], int, after_reasoning=True)[0].value == 2
            cut = choice(None, finish="length")
            setattr(cut.message, name, "1")
            assert not result(cut, int, after_reasoning=True).is_complete

    def test_by_token_ids(self, tokenizer) -> None:
        from formatter_vllm import create_vocabulary

        vocabulary = create_vocabulary(tokenizer, end_ids=ENDS)
        ids = [*tokenizer.encode("<think>1</think>2").ids, 0]
        assert result(output("", ids), int, vocabulary=vocabulary, after_reasoning=True).value == 2
        assert result(output("", ids[-2:]), int, vocabulary=vocabulary, after_reasoning="auto").value == 2
        assert not result(output("", ids[-2:]), int, vocabulary=vocabulary, after_reasoning=True).is_complete

    def test_a_chat_answer_is_put_together_again(self) -> None:
        format = formats.chat_answer("qwen3", tools=[TOOL])
        call = types.SimpleNamespace(function=types.SimpleNamespace(name="look", arguments='{"at": "é"}'))
        made = choice(None)
        made.message.reasoning, made.message.tool_calls = "Hm.", [call]
        assert result(made, format).value == ChatAnswer("Hm.", None, (ToolCall("look", {"at": "é"}),))
        assert result(choice("<think>\nHm.\n</think>\n\nYes."), format).value == ChatAnswer("Hm.", "Yes.")
