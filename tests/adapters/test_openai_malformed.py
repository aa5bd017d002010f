"""Whatever a server sends with status 200, no other prompt of the same call is lost.

Answers and streams are made wrong systematically: each value of a good one is replaced by values of other types or left
out, each is cut at many places, and there is what proxies and other services send. `$FORMATTER_MALFORMED` asks for more
of them than the 500 of a normal run.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core.errors import FormatterError, MalformedAnswer, TokenRejected  # noqa: E402
from formatter_core.generation import Sampling, ScoreSettings  # noqa: E402
from formatter_core.generation.models import Finished, TextRequest  # noqa: E402
from tests.adapters.openai_stand_ins import HOW, Answer, Verbatim, model_of, outputs_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

KINDS = int(os.environ.get("FORMATTER_MALFORMED", "500"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
GOOD = '{"a": 1}'
#: The number of malformed answers in one call, beside two good ones.
IN_A_CALL = 25

ODD: list[Any] = [None, True, -1, 7, 10**400, float("nan"), 0.5, "", "x", "\ud800", [], [None], {}, {"a": [1]}, [[[]]]]
HTML = b"<html><body>502 Bad Gateway: the backend of the service is gone</body></html>"

CHAT_SCORES = {
    "content": [{"token": "{", "logprob": -1, "bytes": [123], "top_logprobs": [{"token": "[", "logprob": -2}]}],
    "refusal": None,
}
TEXT_SCORES = {"tokens": ["{"], "token_logprobs": [-1], "top_logprobs": [{"[": -2}], "text_offset": [0]}


def whole(endpoint: str) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "stop_reason": None, "token_ids": [5]}
    if endpoint == "chat":
        choice.update(message={"role": "assistant", "content": GOOD, "refusal": None}, logprobs=CHAT_SCORES)
    else:
        choice.update(text=GOOD, logprobs=TEXT_SCORES)
    kind = "chat.completion" if endpoint == "chat" else "text_completion"
    return {
        "id": "1",
        "object": kind,
        "created": 0,
        "model": "small",
        "choices": [choice],
        "usage": {"total_tokens": 2},
    }


def chunks(endpoint: str) -> list[dict[str, Any]]:
    made = []
    for text, reason in ((GOOD[:4], None), (GOOD[4:], None), ("", "stop")):
        chunk = whole(endpoint)
        (choice,) = chunk["choices"]
        choice["finish_reason"] = reason
        if endpoint == "chat":
            del choice["message"]
            choice["delta"] = {"content": text}
            chunk["object"] = "chat.completion.chunk"
        else:
            choice["text"] = text
        made.append(chunk)
    return made


def changed(document: Any) -> Iterator[tuple[str, Any]]:
    """Generate the document with one value replaced by each odd value, or left out, and say how it was changed."""
    for path in paths(document):
        for odd in [*ODD, ...]:
            other = copy.deepcopy(document)
            place = other
            for key in path[:-1]:
                place = place[key]
            if odd is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = odd
            yield f"{'/'.join(map(str, path))} is {'absent' if odd is ... else str(odd)[:20]}", other


def paths(document: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*before, key)
        if isinstance(value, (dict, list)):
            yield from paths(value, (*before, key))


def texts() -> Iterator[tuple[str, bytes]]:
    """Generate bytes that are sent in place of an answer."""
    yield "HTML", HTML
    yield "nothing", b""
    yield "no UTF-8", b'{"id": "\xff\xfe"}'
    yield "UTF-16", json.dumps(whole("chat")).encode("utf-16")
    yield "deep", b"[" * 100_000
    yield "deep objects", b'{"choices":' * 2_000 + b"1" + b"}" * 2_000
    yield "deep within bounds", b'{"choices":' * 400 + b"1" + b"}" * 400
    for value in (*ODD, {"error": {"message": "overloaded", "type": "x"}}, {"error": "overloaded"}, {"error": [1]}):
        yield f"the value {str(value)[:20]}", json.dumps(value).encode()
    yield "a name of the client's own", b'{"_fields_set": 1, "choices": [], "self": 2, "cls": 3, "__class__": 4}'


def malformed(endpoint: str, streams: bool) -> Iterator[tuple[str, Verbatim]]:
    good = sse(chunks(endpoint)) if streams else json.dumps(whole(endpoint)).encode()
    right = "text/event-stream" if streams else "application/json"
    for name, data in texts():
        for kind in (right, "text/html; charset=utf-8", "application/json", "x"):
            yield f"{name} as {kind}", Verbatim(data, kind)
        if streams:
            yield f"{name} in an event", Verbatim(b"data: " + data + b"\n\n" + good, right)
            yield f"{name} in a last event", Verbatim(good.replace(b"[DONE]", data), right)
    for end in range(0, len(good), 7):
        yield f"cut at {end}", Verbatim(good[:end], right)
        yield f"broken off at {end}", Verbatim(good[:end], right, absent=len(good) - end)
    if not streams:
        for how, document in changed(whole(endpoint)):
            yield how, Verbatim(json.dumps(document).encode(), right)
        return
    for number in range(3):
        for how, document in changed(chunks(endpoint)[number]):
            made = chunks(endpoint)
            made[number] = document
            yield f"chunk {number}: {how}", Verbatim(sse(made), right)


def sse(documents: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in documents) + b"data: [DONE]\n\n"


def answering(answers: list[Verbatim]) -> Callable[[dict[str, Any], int], Answer]:
    """Make a script that gives a prompt that is a number that answer, and any other prompt a good one."""

    def answer(body: dict[str, Any], index: int) -> Answer:
        prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        if prompt.isdigit():
            raise answers[int(prompt)]
        return Answer(GOOD)

    return answer


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streams"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_no_malformed_answer_loses_another_prompt_of_the_call(script, endpoint, streams) -> None:
    every = list(malformed(endpoint, streams))
    assert len(every) > KINDS // 4 or KINDS > 500
    chosen = random.Random(14).sample(every, min(KINDS // 4, len(every)))
    how = "streams" if streams else "whole"
    options = {"scores": ScoreSettings(top=1, logprob=True), "server": "vllm", "endpoint": endpoint, "parallel": 4}
    for start in range(0, len(chosen), IN_A_CALL):
        some = chosen[start : start + IN_A_CALL]
        script.answer = answering([sent for _, sent in some])
        prompts = ["first", *map(str, range(len(some))), "last"]
        first, *others, last = outputs_of(how, script, prompts, SCHEMA, **options)
        assert (first.value, last.value) == ({"a": 1}, {"a": 1})
        for (changes, _), output in zip(some, others, strict=True):
            judge(changes, output)


def judge(how: str, output: Any) -> None:
    """Check that an output is right, if the change did not matter, or says what is wrong."""
    if output.stopped == "end":
        assert output.value == {"a": 1}, how
    elif output.stopped == "error":
        assert isinstance(output.error, (FormatterError, openai.APIError)), (how, output.error)
        assert "token -1" not in str(output.error), (how, output.error)
        assert not output.result.is_complete, how
    else:
        assert output.stopped == "stop_string", (how, output)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (Verbatim(HTML, "text/html"), "502 Bad Gateway"),
        (Verbatim(HTML[:70]), "502 Bad Gateway"),
        (Verbatim(b'{"error": {"message": "overloaded"}}'), "overloaded"),
        (Verbatim(b'{"id": "1", "choices": null, "detail": "busy"}'), "busy"),
        (Verbatim(json.dumps(whole("chat")).encode()[:-20]), "assistant"),
    ],
)
def test_the_error_has_the_text_of_the_server(script, sent, message, how) -> None:
    if how.endswith("streams") and sent.kind == "application/json":
        sent = Verbatim(b"data: " + sent.data + b"\n\n", "text/event-stream")
    script.answer = answering([sent])
    good, bad = outputs_of(how, script, ["x", "0"], SCHEMA)
    assert good.value == {"a": 1}
    with pytest.raises((MalformedAnswer, openai.APIError), match=message):
        bad.raise_error()


def test_an_index_out_of_range_ends_the_samples_that_are_not_there_yet(script) -> None:
    first, second, last = chunks("chat")
    second["choices"][0]["index"] = -1
    script.answer = answering([Verbatim(sse([first, second, last]), "text/event-stream")])
    request = TextRequest(SCHEMA, samples=2, sampling=Sampling(temperature=1))
    events = [*model_of(script).stream_complete(["0", "x"], request)]
    outputs = {(event.prompt, event.sample): event.output for event in events if isinstance(event, Finished)}
    assert len(outputs) == 4
    for sample in range(2):
        assert isinstance(outputs[0, sample].error, MalformedAnswer)
        assert "`index` is -1" in str(outputs[0, sample].error)
        assert outputs[1, sample].value == {"a": 1}


def test_text_outside_of_the_format_is_told_in_bytes(script) -> None:
    script.answer = lambda body, index: Answer(' \n{"é": 1}')
    ((output,),) = model_of(script).complete(["x"], TextRequest(SCHEMA))
    assert isinstance(output.error, TokenRejected)
    assert (output.error.token_id, output.error.position) == (None, 4)
    assert str(output.error) == "the text is not allowed after 4 bytes: the server's answer continues with 'é\": 1}'"
