"""Models behind an API, with the real client, and a stand-in for the server."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from datetime import date

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    IncompleteResult,
    InvalidFormat,
    TokenRejected,
    UnsupportedFormat,
    UnsupportedSchema,
)
from formatter_core.generation import Sampling, ScoreSettings, best_of, completion  # noqa: E402
from formatter_core.generation.models import ApiModel, Finished, FormatEvent, TextDelta, TextRequest  # noqa: E402
from formatter_core.result import HoleOpened, ValueCompleted  # noqa: E402
from formatter_openai import openai_model  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, Refused, StandIn, serving  # noqa: E402


@dataclass
class Person:
    name: str
    age: int


LOGPROBS = ScoreSettings(logprob=True)
PERSON = '{"name": "Ada", "age": 36}'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture
def script():
    with serving(StandIn(lambda body, index: Answer(PERSON))) as running:
        yield running


def model_of(script: StandIn, **options):
    client = openai.OpenAI(base_url=script.address, api_key="none", max_retries=0, timeout=20)
    return openai_model("small", client=client, **options)


def one(script: StandIn, request: TextRequest, **options):
    ((output,),) = model_of(script, **options).complete(["Who?"], request)
    return output


# --- formats -----------------------------------------------------------------------------------------------------


def test_it_is_an_api_model(script) -> None:
    assert isinstance(model_of(script), ApiModel)


def test_a_python_type_goes_out_as_a_schema_and_comes_back_as_an_object(script) -> None:
    output = one(script, TextRequest(Person), system="Be brief.")
    assert output.stopped == "end"
    assert output.result.value == Person("Ada", 36)
    (body,) = script.requests
    described = body["response_format"]["json_schema"]
    assert body["response_format"]["type"] == "json_schema"
    assert described["strict"] is True
    assert described["schema"]["required"] == ["name", "age"]
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]


def test_patterns_that_servers_refuse_stay_with_the_client() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed")
    with serving(StandIn(lambda body, index: Answer('["0000-01-01"]'))) as running:
        output = one(running, TextRequest(list[date]))
    schema = running.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["items"] == {"type": "string", "format": "date"}
    assert isinstance(output.error, TokenRejected)  # the answer is checked against all of the format


@pytest.mark.parametrize(
    ("server", "endpoint", "format", "sent"),
    [
        ("openai", "chat", SCHEMA, lambda body: body["response_format"]["json_schema"]["schema"] == SCHEMA),
        ("vllm", "chat", SCHEMA, lambda body: body["structured_outputs"] == {"json": SCHEMA}),
        ("vllm", "completions", formats.regex("a+"), lambda body: body["structured_outputs"] == {"regex": "a+"}),
        ("vllm", "chat", formats.choice(["x", "y"]), lambda b: b["structured_outputs"] == {"choice": ["x", "y"]}),
        ("llama_cpp", "chat", SCHEMA, lambda b: b["response_format"] == {"type": "json_object", "schema": SCHEMA}),
        (
            "llama_cpp",
            "completions",
            formats.choice(['"é"', "a\n\\"]),
            lambda body: body["grammar"] == r'root ::= "\x22é\x22" | "a\x0A\x5C"',
        ),
        (
            "formatter_vllm",
            "chat",
            formats.until("."),
            lambda b: json.loads(b["vllm_xargs"]["formatter"]) == {"format": formats.until(".").to_json()},
        ),
    ],
)
def test_the_format_goes_to_the_server_in_its_own_words(script, server, endpoint, format, sent) -> None:
    model_of(script, server=server, endpoint=endpoint).complete(["x"], TextRequest(format))
    assert sent(script.requests[0])


@pytest.mark.parametrize(
    ("server", "endpoint", "format"),
    [
        ("openai", "chat", formats.regex("a")),
        ("openai", "completions", SCHEMA),
        ("openai", "chat", True),
        ("openai", "chat", formats.json_schema({"$ref": "x:y"}, registry={"x:y": {"type": "integer"}})),
        ("vllm", "chat", FormatterBuilder().append("text")),
        ("vllm", "chat", formats.kbnf("start ::= 'a';")),
        ("llama_cpp", "completions", SCHEMA),
        ("llama_cpp", "chat", formats.regex("a")),
    ],
)
def test_what_the_server_cannot_keep_is_refused_before_anything_is_sent(script, server, endpoint, format) -> None:
    with pytest.raises(UnsupportedFormat) as refused:
        model_of(script, server=server, endpoint=endpoint).complete(["x"], TextRequest(format))
    assert refused.value.server == server
    assert script.requests == []


def test_what_the_server_refuses_itself_is_an_unsupported_format_too(script) -> None:
    def answer(body, index):
        raise Refused(400, "Invalid schema for response_format 'answer': 'format' is not permitted.")

    script.answer = answer
    with pytest.raises(UnsupportedFormat, match="not permitted"):
        one(script, TextRequest(SCHEMA))
    assert isinstance(one(script, TextRequest()).error, openai.BadRequestError)


def test_a_fault_of_the_format_is_found_before_anything_is_sent(script) -> None:
    with pytest.raises(UnsupportedSchema, match="uniqueItems"):
        one(script, TextRequest({"type": "array", "items": {"type": "string"}, "uniqueItems": True}))
    assert script.requests == []


# --- every answer is checked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stopped", "error", "message"),
    [
        (Answer('{"a": 1}'), "end", None, ""),
        (Answer('{"a": 1', "length"), "length", None, ""),
        (Answer('{"a": 1', "stop"), "error", IncompleteResult, "expected"),
        (Answer('{"a": "x"}'), "error", TokenRejected, "byte 6"),
        (Answer('{"a": 1} I hope this helps'), "error", TokenRejected, "I hope"),
        (Answer("", "content_filter"), "error", IncompleteResult, "content_filter"),
        (Answer("", "stop", refusal="I cannot"), "error", IncompleteResult, "I cannot"),
        (Answer('{"a": ', "stop", stop_reason=" "), "stop_string", None, ""),
        (Answer('{"a": 1}', None), "error", IncompleteResult, "None"),
    ],
    ids=str,
)
def test_no_broken_or_cut_answer_is_taken_for_a_good_one(script, answer, stopped, error, message) -> None:
    script.answer = lambda body, index: answer
    output = one(script, TextRequest(SCHEMA))
    assert output.stopped == stopped
    assert output.text == answer.text
    assert type(output.error) is (error or type(None))
    assert message in str(output.error)
    assert output.result.is_complete == (stopped == "end")
    if stopped == "end":
        assert output.result.value == {"a": 1}


def test_without_a_format_the_text_is_what_it_is(script) -> None:
    output = one(script, TextRequest(stop_strings=("\n",), seed=3, max_tokens=7))
    assert (output.text, output.stopped, output.result) == (PERSON, "end", None)
    (body,) = script.requests
    assert (body["stop"], body["seed"], body["max_completion_tokens"]) == (["\n"], 3, 7)


def test_captures_of_a_builder() -> None:
    b = FormatterBuilder()
    b.append("n=", b.integer(name="n"), ".")
    with serving(StandIn(lambda body, index: Answer("n=12."))) as script:
        output = one(script, TextRequest(b), server="formatter_vllm")
        assert output.result.captures == {"n": (12,)}


# --- samples, prompts, errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "temperature", "requests"),
    [("openai", 0.0, 2), ("vllm", 1.0, 2), ("vllm", 0.0, 6), ("llama_cpp", 1.0, 6)],
)
def test_samples_come_in_order_however_the_server_takes_them(script, server, temperature, requests) -> None:
    def answer(body, index):
        prompt = body["messages"][-1]["content"]
        return Answer(f"{prompt} {body.get('seed', 0) - 5 + index}")

    script.answer, script.knows_n = answer, server != "llama_cpp"
    request = TextRequest(samples=3, seed=5, sampling=Sampling(temperature=temperature))
    outputs = model_of(script, server=server).complete(["a", "b"], request)
    assert [[output.text for output in samples] for samples in outputs] == [
        ["a 0", "a 1", "a 2"],
        ["b 0", "b 1", "b 2"],
    ]
    assert len(script.requests) == requests


def test_a_request_that_fails_leaves_the_others_alone(script) -> None:
    def answer(body, index):
        if body["messages"][-1]["content"] == "bad":
            raise Refused(500, "the server is on fire")
        return Answer(PERSON)

    script.answer = answer
    outputs = model_of(script).complete(["good", "bad", "good"], TextRequest(Person, samples=2))
    assert [[output.stopped for output in samples] for samples in outputs] == [["end"] * 2, ["error"] * 2, ["end"] * 2]
    with pytest.raises(openai.InternalServerError, match="on fire"):
        outputs[1][0].raise_error()


def test_fewer_answers_than_samples_are_errors(script) -> None:
    script.knows_n = False
    (samples,) = model_of(script).complete(["x"], TextRequest(samples=2))
    assert [output.stopped for output in samples] == ["end", "error"]


def test_a_server_that_is_gone() -> None:
    with serving(StandIn(lambda body, index: Answer(""))) as script:
        model = model_of(script)
    ((output,),) = model.complete(["x"], TextRequest())
    assert isinstance(output.error, openai.APIConnectionError)
    (event,) = model.stream_complete(["x"], TextRequest())
    assert isinstance(event.output.error, openai.APIConnectionError)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda script: model_of(script, server="mine"), InvalidFormat),
        (lambda script: model_of(script, endpoint="mine"), InvalidFormat),
        (lambda script: model_of(script, parallel=0), InvalidFormat),
        (lambda script: one(script, TextRequest(sampling=Sampling(top_k=5))), InvalidFormat),
        (lambda script: model_of(script).complete([[1, 2]], TextRequest()), InvalidFormat),
        (lambda script: one(script, TextRequest(scores=ScoreSettings(prompt=True))), InvalidFormat),
        (lambda script: one(script, TextRequest(scores=ScoreSettings(branches=True))), InvalidFormat),
    ],
)
def test_faults_of_the_caller(script, make, error) -> None:
    with pytest.raises(error):
        make(script)
    assert script.requests == []


def test_further_arguments_go_along(script) -> None:
    extra = {"user": "me", "extra_body": {"priority": 1}}
    one(script, TextRequest(formats.choice([PERSON])), server="vllm", extra=extra)
    (body,) = script.requests
    assert (body["user"], body["priority"], "structured_outputs" in body) == ("me", 1, True)


def test_an_output_can_be_a_prompt_again_and_other_loops_take_the_model(script) -> None:
    script.answer = lambda body, index: Answer("yes" if body["prompt"] == "Is it? " else "no")
    write = completion(model_of(script, server="vllm", endpoint="completions"), formats.choice(["yes", "no"]))
    first = write("Is it? ")
    second = write(first + " Is it really? ")
    assert (first.value, second.value) == ("yes", "no")
    assert script.requests[1]["prompt"] == "Is it? yes Is it really? "
    assert [event.text for event in write.stream("Is it? ") if isinstance(event, TextDelta)] == ["y", "e", "s"]


# --- log-probabilities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("ids", [False, True])
def test_log_probabilities_have_the_type_of_our_own_loops(script, endpoint, streams, ids) -> None:
    script.answer, script.tells_ids = lambda body, index: Answer("a "), ids
    model = model_of(script, endpoint=endpoint, server="vllm")
    request = TextRequest(formats.choice(["a "]), scores=ScoreSettings(top=3, logprob=True))
    if streams:
        *_, finished = model.stream_complete(["x"], request)
        output = finished.output
    else:
        ((output,),) = model.complete(["x"], request)
    letter, blank = output.chosen
    assert (letter.unmasked_logprob, letter.logprob, letter.unmasked_rank) == (-9.7, None, None)
    assert (blank.unmasked_logprob, blank.unmasked_rank) == (-3.2, 3)
    assert [score.logprob for score in letter.unmasked_top] == [-0.9, -1.0, -3.2]
    assert [score.rank for score in letter.unmasked_top] == [1, 2, 3]
    assert [one.token_id for one in output.chosen] == ([97, 32] if ids else [-1, -1])
    if endpoint == "chat" or not ids:
        assert [one.bytes for one in output.chosen] == [b"a", b" "]
    if ids and not streams:
        assert output.tokens == (97, 32)


def test_the_best_of_several_answers(script) -> None:
    script.answer = lambda body, index: Answer(["b", "aa", " "][index])
    request = TextRequest(samples=3, sampling=Sampling(temperature=1), scores=LOGPROBS)
    (samples,) = model_of(script, server="vllm").complete(["x"], request)
    assert [output.text for output in best_of(samples)] == [" ", "b", "aa"]
    assert [output.text for output in best_of(samples, normalised=True)] == [" ", "aa", "b"]


def test_log_probabilities_after_the_mask(script) -> None:
    script.answer = lambda body, index: Answer("a")
    output = one(script, TextRequest(formats.choice(["a"]), scores=LOGPROBS), server="vllm", processed_logprobs=True)
    assert (output.chosen[0].logprob, output.chosen[0].unmasked_logprob) == (-9.7, None)
    free = one(script, TextRequest(scores=LOGPROBS))
    assert (free.chosen[0].logprob, free.chosen[0].unmasked_logprob) == (-9.7, -9.7)
    assert one(script, TextRequest()).chosen == ()


# --- streams -------------------------------------------------------------------------------------------------------


def test_a_stream_tells_text_captures_and_outputs(script) -> None:
    b = FormatterBuilder()
    b.append("n=", b.integer(name="n"), "é.")
    script.answer = lambda body, index: Answer(f"n={index}é.")
    model = model_of(script, server="formatter_vllm")
    events = list(model.stream_complete(["x"], TextRequest(b, samples=2, sampling=Sampling(temperature=1))))
    for sample in range(2):
        own = [event for event in events if event.sample == sample]
        assert "".join(event.text for event in own if isinstance(event, TextDelta)) == f"n={sample}é."
        told = [event.event for event in own if isinstance(event, FormatEvent)]
        assert HoleOpened("n", 2) in told
        assert ValueCompleted("n", sample, 2, 3) in told
        assert isinstance(own[-1], Finished)
        assert own[-1].output.result.captures == {"n": (sample,)}
    (body,) = script.requests
    assert body["stream"] is True


def test_an_output_that_leaves_its_format_ends_at_once(script) -> None:
    script.answer = lambda body, index: Answer("yes" + "!" * 100_000)
    *deltas, finished = model_of(script, server="vllm").stream_complete(["x"], TextRequest(formats.choice(["yes"])))
    assert "".join(event.text for event in deltas) == "yes!"
    assert isinstance(finished.output.error, TokenRejected)


def test_a_stream_that_breaks_off_is_no_good_answer(script) -> None:
    script.answer = lambda body, index: Answer("yes", None)
    *_, finished = model_of(script, server="vllm").stream_complete(["x"], TextRequest(formats.choice(["yes"])))
    assert isinstance(finished.output.error, IncompleteResult)


def test_whoever_reads_no_further_wants_no_more_requests(script) -> None:
    script.answer = lambda body, index: Answer("x" * 20_000)
    events = model_of(script, parallel=1).stream_complete(["a"] * 20, TextRequest())
    assert isinstance(next(events), TextDelta)
    events.close()
    assert len(script.requests) <= 2


def test_whoever_reads_no_further_waits_for_no_server(script) -> None:
    script.answer, script.pause = lambda body, index: Answer("xyz"), threading.Event()
    before = set(threading.enumerate())
    events = model_of(script).stream_complete(["a"], TextRequest())
    assert isinstance(next(events), TextDelta)
    time.sleep(0.2)  # the worker waits for the server by now
    (worker,) = [one for one in threading.enumerate() if one not in before and one.name.startswith("ThreadPool")]
    events.close()
    worker.join(10)
    assert not worker.is_alive()
    script.pause.set()


def test_a_format_that_the_server_refuses_is_raised_by_the_stream(script) -> None:
    def answer(body, index):
        raise Refused(400, "bad schema")

    script.answer = answer
    with pytest.raises(UnsupportedFormat):
        list(model_of(script).stream_complete(["x"], TextRequest(SCHEMA)))
