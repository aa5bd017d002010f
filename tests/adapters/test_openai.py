"""Models behind an API, with the real client, and a stand-in for the server."""

from __future__ import annotations

import json
import pickle
import random
import threading
import time
from dataclasses import dataclass, replace
from datetime import date
from typing import get_args

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import Compiler, FormatterBuilder, Limits, Partial, formats, parse  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    IncompleteResult,
    InvalidArgument,
    LimitExceeded,
    MalformedAnswer,
    TokenRejected,
    UnsupportedFormat,
    UnsupportedSchema,
)
from formatter_core.generation import (  # noqa: E402
    Sampling,
    ScoreSettings,
    Snapshot,
    ValueDelta,
    best_of,
    completion,
    continuation,
    mean_logprob,
    multinomial,
)
from formatter_core.generation.models import ApiModel, Finished, FormatEvent, TextDelta, TextRequest  # noqa: E402
from formatter_core.runtime.result import HoleOpened, ValueCompleted  # noqa: E402
from formatter_openai.answers import text_compiler  # noqa: E402
from formatter_openai.enforcement import Server  # noqa: E402
from tests.adapters.openai_stand_ins import (  # noqa: E402
    HOW,
    Answer,
    Refused,
    StandIn,
    Verbatim,
    model_of,
    outputs_of,
    serving,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


@dataclass
class Person:
    name: str
    age: int


LOGPROBS = ScoreSettings(logprob=True)
PERSON = '{"name": "Ada", "age": 36}'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
#: A schema that no grammar in GBNF can express.
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}


@pytest.fixture(autouse=True)
def answers(script) -> None:
    script.answer = lambda body, index: Answer(PERSON)


def refusing(*given, **more):
    """Make a script that answers each request with this refusal."""

    def answer(body, index):
        raise Refused(*given, **more)

    return answer


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


def test_patterns_that_servers_refuse_stay_with_the_client(script) -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed")
    script.answer = lambda body, index: Answer('["0000-01-01"]')
    output = one(script, TextRequest(list[date]))
    schema = script.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["items"] == {"type": "string", "format": "date"}
    assert isinstance(output.error, TokenRejected)  # the answer is checked against all of the format


def says(grammar: str, accepted: str, rejected: str) -> bool:
    """Tell whether a grammar in GBNF matches one text and not the other."""
    made = formats.gbnf(grammar)
    return parse(made, accepted).is_complete and not parse(made, rejected).is_complete


@pytest.mark.parametrize(
    ("server", "endpoint", "format", "sent"),
    [
        ("openai", "chat", SCHEMA, lambda body: body["response_format"]["json_schema"]["schema"] == SCHEMA),
        ("vllm", "chat", SCHEMA, lambda body: body["structured_outputs"] == {"json": SCHEMA}),
        ("vllm", "completions", formats.regex("a+"), lambda body: body["structured_outputs"] == {"regex": "a+"}),
        ("vllm", "chat", formats.choice(["x", "y"]), lambda b: b["structured_outputs"] == {"choice": ["x", "y"]}),
        ("llama_cpp", "chat", SCHEMA, lambda body: says(body["grammar"], '{"a": 12}', '{"a": "12"}')),
        ("llama_cpp", "completions", SCHEMA, lambda body: says(body["grammar"], '{"a": 12}', "{}")),
        ("llama_cpp", "chat", formats.regex("a+"), lambda body: says(body["grammar"], "aaa", "ab")),
        (
            "llama_cpp",
            "completions",
            formats.choice(['"é"', "a\n\\"]),
            lambda body: says(body["grammar"], '"é"', "é") and says(body["grammar"], "a\n\\", "a"),
        ),
        ("llama_server", "chat", SCHEMA, lambda body: says(body["grammar"], '{"a": 12}', '{"a": "12"}')),
        ("llama_server", "completions", formats.regex("a+"), lambda body: says(body["grammar"], "aaa", "ab")),
        ("llama_server", "chat", UNIQUE, lambda b: b["response_format"]["json_schema"]["schema"] == UNIQUE),
        ("llama_server", "completions", UNIQUE, lambda body: body["json_schema"] == UNIQUE),
        ("ollama", "chat", SCHEMA, lambda body: body["response_format"]["json_schema"]["schema"] == SCHEMA),
        ("lmstudio", "chat", SCHEMA, lambda body: body["response_format"]["json_schema"]["schema"] == SCHEMA),
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
        ("llama_cpp", "completions", formats.kbnf('start ::= a "x" | "y"; a ::= start "z";')),
        ("llama_server", "chat", formats.kbnf('start ::= a "x" | "y"; a ::= start "z";')),
        ("ollama", "chat", formats.regex("a")),
        ("ollama", "completions", SCHEMA),
        ("lmstudio", "chat", formats.choice(["a"])),
    ],
)
def test_what_the_server_cannot_keep_is_refused_before_anything_is_sent(script, server, endpoint, format) -> None:
    with pytest.raises(UnsupportedFormat) as refused:
        model_of(script, server=server, endpoint=endpoint).complete(["x"], TextRequest(format))
    assert refused.value.server == server
    assert script.requests == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("openai", "Invalid schema for response_format 'answer': 'format' is not permitted."),
        ("llama_server", "Failed to parse grammar"),
    ],
)
def test_what_the_server_refuses_itself_is_an_unsupported_format_too(script, server, message, how) -> None:
    script.answer = refusing(400, message)
    with pytest.raises(UnsupportedFormat, match=message):
        outputs_of(how, script, ["x"], SCHEMA, server=server)
    assert isinstance(outputs_of(how, script, ["x"], server=server)[0].error, openai.BadRequestError)


@pytest.mark.parametrize("how", HOW)
def test_what_goes_wrong_is_an_error_of_its_output(script, how) -> None:
    def answer(body, index):
        text = body["messages"][-1]["content"]
        if text == "html":
            raise Verbatim(b"<html>", "text/html")
        if text == "500":
            raise Refused(500, "no")
        return Answer("no JSON" if text == "text" else PERSON)

    script.answer = answer
    *bad, right = outputs_of(how, script, ["html", "500", "text", "right"], Person)
    assert [type(output.error) for output in bad] == [MalformedAnswer, openai.InternalServerError, TokenRejected]
    assert right.value == Person("Ada", 36)


@pytest.mark.parametrize("how", HOW)
def test_a_complaint_that_quotes_a_prompt_about_formats_is_not_about_the_format(script, how) -> None:
    def answer(body, index):
        prompt = body["messages"][-1]["content"]
        if "?" in prompt:
            raise Refused(400, f"the prompt {prompt!r} is too long: a grammar, a schema and a regex are in it")
        return Answer(PERSON)

    script.answer = answer
    fine, *bad = outputs_of(how, script, ["Who", "What is grammar?", "What does response_format do?"], Person)
    assert fine.value == Person("Ada", 36)
    assert [type(output.error) for output in bad] == [openai.BadRequestError] * 2


@pytest.mark.parametrize("how", HOW)
def test_a_format_that_some_requests_are_refused_for_loses_no_other_prompt(script, how) -> None:
    def answer(body, index):
        if body["messages"][-1]["content"] == "b":
            raise Refused(400, "Invalid schema for response_format 'answer'")
        return Answer(PERSON)

    script.answer = answer
    first, refused, last = outputs_of(how, script, ["a", "b", "c"], Person)
    assert (first.value, last.value) == (Person("Ada", 36),) * 2
    assert isinstance(refused.error, UnsupportedFormat)


def test_a_complaint_about_another_argument_is_not_about_the_format(script) -> None:
    script.answer = refusing(400, "temperature is not supported together with response_format", param="temperature")
    assert isinstance(one(script, TextRequest(SCHEMA)).error, openai.BadRequestError)


def test_a_fault_of_the_format_is_found_before_anything_is_sent(script) -> None:
    with pytest.raises(UnsupportedSchema, match="uniqueItems"):
        one(script, TextRequest({"type": "array", "items": {"type": "object"}, "uniqueItems": True}))
    assert script.requests == []


# --- every answer is checked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stopped", "error", "message"),
    [
        (Answer('{"a": 1}'), "end", None, ""),
        (Answer('{"a": 1', "length"), "length", None, ""),
        (Answer('{"a": 1', "stop"), "error", IncompleteResult, "expected"),
        (Answer('{"a": "x"}'), "error", TokenRejected, "after 6 bytes"),
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


@pytest.mark.parametrize("how", HOW[:2])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f" \n{PERSON}\r\n\t ", Person("Ada", 36)),
        (f"{PERSON} ", Person("Ada", 36)),
        ('{"name": " \u2028 ", "age": 3}\n', Person(" \u2028 ", 3)),
        ('{\n\t"name"\r\n:\n\n "a \\" ,  { b\\\\" ,\t\t"age":\n\t \t3\n\t}', Person('a " ,  { b\\', 3)),
        ('{"name": "x", "age": 3 4}', None),
        (f"{PERSON} {PERSON}", None),
        (f"{PERSON}\N{NO-BREAK SPACE}", None),
        (f"\ufeff{PERSON}", None),
        ('{"name": "x  ', None),
        ('{"name": "x", ', None),
        (" \n", None),
    ],
)
def test_an_answer_is_read_as_json_is_with_blanks_around_the_value(script, text, value, how) -> None:
    script.answer = lambda body, index: Answer(text)
    (output,) = outputs_of(how, script, ["x"], Person)
    assert text.startswith(output.text) if how == "streams" else output.text == text
    if value is None:
        assert output.stopped == "error"
        assert not output.result.is_complete
    else:
        assert output.value == value
        assert output.text == text


def test_blanks_that_a_format_has_a_say_in_are_checked(script) -> None:
    script.answer = lambda body, index: Answer('{"a":\t1}')
    assert one(script, TextRequest(SCHEMA)).value == {"a": 1}
    assert isinstance(one(script, TextRequest(formats.json_schema(SCHEMA))).error, TokenRejected)


def test_blanks_around_other_formats_are_not_in_them(script) -> None:
    script.answer = lambda body, index: Answer("yes ")
    output = one(script, TextRequest(formats.choice(["yes"])), server="vllm")
    assert isinstance(output.error, TokenRejected)


@pytest.mark.parametrize("how", HOW)
def test_a_refusal_is_told_whole(script, how) -> None:
    script.answer = lambda body, index: Answer("", refusal="I am sorry, but I cannot help with that.")
    (output,) = outputs_of(how, script, ["x"], Person)
    assert "the model refused: I am sorry, but I cannot help with that." in str(output.error)


def test_without_a_format_the_text_is_what_it_is(script) -> None:
    output = one(script, TextRequest(stop_strings=("\n",), seed=3, max_tokens=7))
    assert (output.text, output.stopped, output.result) == (PERSON, "end", None)
    (body,) = script.requests
    assert (body["stop"], body["seed"], body["max_completion_tokens"]) == (["\n"], 3, 7)


def test_captures_of_a_builder(script) -> None:
    b = FormatterBuilder()
    b.append("n=", b.integer(name="n"), ".")
    script.answer = lambda body, index: Answer("n=12.")
    assert one(script, TextRequest(b), server="formatter_vllm").result.captures == {"n": (12,)}


# --- samples, prompts, errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "temperature", "requests"),
    [("openai", 0.0, 2), ("vllm", 1.0, 2), ("vllm", 0.0, 6), ("llama_cpp", 1.0, 6), ("ollama", 1.0, 6)],
)
def test_samples_come_in_order_however_the_server_takes_them(script, server, temperature, requests) -> None:
    def answer(body, index):
        prompt = body["messages"][-1]["content"]
        return Answer(f"{prompt} {body.get('seed', 0) - 5 + index}")

    script.answer, script.knows_n = answer, server not in ("llama_cpp", "ollama")
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


@pytest.mark.parametrize("how", HOW[:2])
def test_a_limit_that_an_answer_uses_up_ends_that_output_alone(script, monkeypatch, how) -> None:
    vocabulary = text_compiler().vocabulary
    monkeypatch.setattr("formatter_openai.jobs.text_compiler", lambda: Compiler(vocabulary, limits=Limits(states=60)))
    letters = random.Random(0).choices("ab", k=2000)
    script.answer = lambda body, index: Answer("".join(letters) if body["messages"][-1]["content"] == "b" else "a" * 9)
    many = formats.regex("(a|b)*a(a|b){8}")
    first, large = outputs_of(how, script, ["a", "b"], many, server="vllm", parallel=1)
    assert first.value == "a" * 9
    # One character after the other needs fewer states at a time than all at once.
    assert isinstance(large.error, LimitExceeded) or (how == "streams" and large.value == "".join(letters))


def test_fewer_answers_than_samples_are_errors(script) -> None:
    script.knows_n = False
    (samples,) = model_of(script).complete(["x"], TextRequest(samples=2))
    assert [output.stopped for output in samples] == ["end", "error"]
    with pytest.raises(MalformedAnswer, match="1 choices for 2 samples"):
        samples[1].raise_error()


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
        (lambda script: model_of(script, server="mine"), InvalidArgument),
        (lambda script: model_of(script, endpoint="mine"), InvalidArgument),
        (lambda script: model_of(script, parallel=0), InvalidArgument),
        (lambda script: model_of(script, extra={"priority": 1}), InvalidArgument),
        (lambda script: one(script, TextRequest(sampling=Sampling(typical_p=0.5))), InvalidArgument),
        (lambda script: one(script, TextRequest(sampling=Sampling(top_k=5))), InvalidArgument),
        (lambda script: model_of(script).complete([[1, 2]], TextRequest()), InvalidArgument),
        (lambda script: one(script, TextRequest(scores=ScoreSettings(prompt=True))), InvalidArgument),
        (lambda script: one(script, TextRequest(scores=ScoreSettings(branches=True))), InvalidArgument),
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
    assert script.requests[1]["prompt"] == second.prompt == "Is it? yes Is it really? "
    assert [event.text for event in write.stream("Is it? ") if isinstance(event, TextDelta)] == ["y", "e", "s"]


def test_an_output_that_is_a_prompt_again_stays_the_assistants_turn(script) -> None:
    write = completion(model_of(script, system="Be brief."), Person)
    first = write("Who?")
    second = write(first + " And who" + " else?")
    third = write(second + "And?")
    third = replace(third, prompt=pickle.loads(pickle.dumps(third.prompt)))
    write([third, third + "More?"])
    told = [("system", "Be brief."), ("user", "Who?"), ("assistant", PERSON), ("user", " And who else?")]
    told += [("assistant", PERSON), ("user", "And?"), ("assistant", PERSON), ("user", "More?")]
    sent = [[(one["role"], one["content"]) for one in body["messages"]] for body in script.requests]
    assert sorted(sent, key=len) == [told[:2], told[:4], told[:6], told[:7], told[:8]]


@pytest.mark.parametrize("server", get_args(Server))
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_nothing_is_sent_that_was_not_asked_for(script, server, endpoint) -> None:
    model = model_of(script, server=server, endpoint=endpoint)
    completion(model)("x")
    continuation(model)("x")
    completion(model, sampling=multinomial(0.5, top_p=0.9), scores=LOGPROBS, max_tokens=5)("x", seed=1)
    *bare, full = script.requests
    for body in bare:
        own = {"return_token_ids"} if "vllm" in server else set()
        assert body.keys() - own == {"model", "messages" if endpoint == "chat" else "prompt"}
    assert full.items() >= {"temperature": 0.5, "top_p": 0.9, "seed": 1}.items()
    assert "logprobs" in full


def test_a_sampling_is_sent_as_it_is_to_servers_with_defaults_of_their_own(script) -> None:
    cuts = {"openai": [], "ollama": ["top_p"], "lmstudio": ["top_k", "top_p"]}
    for server in get_args(Server):
        one(script, TextRequest(sampling=Sampling(temperature=1.0)), server=server)
        body = script.requests[-1]
        sent = {name: body[name] for name in ("min_p", "top_k", "top_p") if name in body}
        assert [*sent] == cuts.get(server, ["min_p", "top_k", "top_p"])
        assert sent.items() <= {"top_p": 1.0, "top_k": 0, "min_p": 0.0}.items()
        assert body["temperature"] == 1.0
    for server in ("openai", "ollama", "lmstudio"):
        with pytest.raises(InvalidArgument, match="no min_p"):
            one(script, TextRequest(sampling=Sampling(temperature=1.0, min_p=0.1)), server=server)


# --- log-probabilities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("ids", [False, True])
def test_log_probabilities_have_the_type_of_our_own_loops(script, endpoint, streams, ids) -> None:
    script.answer, script.tells_ids = lambda body, index: Answer("a "), ids
    model = model_of(script, endpoint=endpoint, server="vllm")
    request = TextRequest(formats.choice(["a "]), scores=ScoreSettings(top=3, logprob=True))
    if streams:
        *deltas, finished = model.stream_complete(["x"], request)
        output = finished.output
        told = [event.chosen for event in deltas if isinstance(event, TextDelta)]
        assert told == [(one,) for one in output.chosen]
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
    assert [output.text for output in best_of(samples, key=mean_logprob)] == [" ", "aa", "b"]


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


@pytest.mark.parametrize("server", ["openai", "vllm"])
def test_a_stream_shows_the_value_while_it_comes(script, server) -> None:
    write = completion(model_of(script, server=server), Person)
    events = list(write.stream("Who?", snapshots=True, deltas=True))
    values = [event.value for event in events if isinstance(event, Snapshot)]
    assert values[0] == Partial(Person, {})
    assert Partial(Person, {"name": "Ad"}) in values
    assert values[-1] == Person("Ada", 36)
    added = [event.delta for event in events if isinstance(event, ValueDelta)]
    assert "".join(delta.value for delta in added if delta.op == "append") == "Ada"
    assert [delta.path for delta in added if delta.op == "complete"] == ["/name", "/age", ""]
    plain = [event.value for event in write.stream("Who?", snapshots="plain") if isinstance(event, Snapshot)]
    assert plain[-1] == json.loads(PERSON)


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
