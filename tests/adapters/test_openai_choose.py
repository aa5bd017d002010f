"""`choose` on models behind an API: stand-ins of each kind of server score options as the model itself does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the openai client")

from formatter_core import formats  # noqa: E402
from formatter_core.errors import InvalidArgument, MalformedAnswer  # noqa: E402
from formatter_core.generation import ScoreSettings, choose, completion, greedy, log_softmax  # noqa: E402
from tests.adapters.openai_stand_ins import Answer, Refused, StandIn, Verbatim, model_of, serving  # noqa: E402
from tests.core.tiny_logits_model import END, TinyModel, by_tokens  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

PROMPT = "the age is "
OPTIONS = ["cat", "abc", "na"]


class Merging(TinyModel):
    """A tokenizer that knows words in the prompt as well."""

    def encode(self, text: str) -> list[int]:
        return self.encode_continuation(text.encode()) or []


MODEL = Merging(by_tokens())


class Pet(Enum):
    cat = "cat"
    other = "abc"


def logprobs_of(ids: list[int]) -> list[float | None]:
    return [None, *(float(log_softmax(MODEL.function(tuple(ids[:at])))[ids[at]]) for at in range(1, len(ids)))]


def spelt(token: int) -> str:
    return (MODEL.vocabulary.text_token(token) or b"").decode("latin-1")


def sent(choice: dict[str, Any], **more: Any) -> Verbatim:
    data = {"id": "1", "object": "x", "created": 0, "model": "m", "choices": [{"index": 0, **choice}], **more}
    return Verbatim(json.dumps(data).encode())


def chat_text(body: dict[str, Any]) -> str:
    return "".join(f"<{message['role']}>{message['content']}" for message in body["messages"]) + "<assistant>"


def vllm(body: dict[str, Any], index: int) -> Answer:
    """Tell the ids of a prompt and their log-probabilities."""
    if "messages" in body:
        assert body["return_token_ids"] is True
        message = {"message": {"role": "assistant", "content": "x"}}
        raise sent(message, prompt_token_ids=MODEL.encode(chat_text(body)))
    prompt = body["prompt"]
    ids = MODEL.encode(prompt) if isinstance(prompt, str) else prompt
    assert (body["prompt_logprobs"], body["max_tokens"]) == (0, 1)
    told = [
        None if one is None else {str(token): {"logprob": one, "rank": 1, "decoded_token": spelt(token)}}
        for token, one in zip(ids, logprobs_of(ids), strict=True)
    ]
    raise sent({"text": "x", "prompt_token_ids": ids, "prompt_logprobs": told})


def echoing(body: dict[str, Any], index: int) -> Answer:
    """Echo the prompt, as OpenAI's completions did."""
    assert body["echo"] is True
    assert body["max_tokens"] == 0
    ids = MODEL.encode(body["prompt"])
    lists = {"tokens": list(map(spelt, ids)), "token_logprobs": logprobs_of(ids)}
    raise sent({"text": body["prompt"], "logprobs": lists})


def llama_cpp(begins: bool) -> Callable[[dict[str, Any], int], Answer]:
    """Echo the prompt and the text that it writes, without the first token, if that is the beginning of a text.

    Where there is none, a token's log-probability is that of the next place, and the last token is left out.
    """

    def answer(body: dict[str, Any], index: int) -> Answer:
        assert body["max_tokens"] == 1  # for which 0 is no bound
        written = completion(MODEL, formats.gbnf(body["grammar"]))("x").text
        ids = [*MODEL.encode(body["prompt"]), *written.encode()]
        ids, told = (ids, logprobs_of(ids)) if begins else (ids[:-1], [None, *logprobs_of(ids)[2:]])
        lists = {"tokens": list(map(spelt, ids)), "token_logprobs": told}
        raise sent({"text": body["prompt"] + written, "logprobs": lists})

    return answer


def writing(shows_bytes: bool) -> Callable[[dict[str, Any], int], Answer]:
    """Write a text of the grammar, and tell the log-probabilities before it, the end's as well.

    Without bytes, a token that is a part of a character has no text, and the end is not told.
    """

    def answer(body: dict[str, Any], index: int) -> Answer:
        prompt = chat_text(body) if "messages" in body else body["prompt"]
        scores = ScoreSettings(logprob=True)
        output = completion(MODEL, formats.gbnf(body["grammar"]), forced_text="off", sampling=greedy(), scores=scores)(
            prompt
        )
        assert output.tokens[-1] == END
        content = []
        for one in output.chosen if shows_bytes else output.chosen[:-1]:
            data = MODEL.vocabulary.text_token(one.token_id) or b""
            told = {"token": data.decode("utf-8", "ignore"), "bytes": list(data) if shows_bytes else None}
            content.append({**told, "logprob": one.unmasked_logprob, "top_logprobs": []})
        message = {"message": {"role": "assistant", "content": output.text}}
        whole = message if "messages" in body else {"text": output.text}
        raise sent({**whole, "logprobs": {"content": content}, "finish_reason": "stop"})

    return answer


def chosen(answer: Any, prompt: Any, options: Any, *, is_async: bool = False, **more: Any) -> Any:
    with serving(StandIn(answer)) as running:
        model = model_of(running, is_async=is_async, **more)
        if not is_async:
            return choose(model, prompt, options)

        async def awaited() -> Any:
            return await choose(model, prompt, options)

        return asyncio.run(awaited())


WAYS = [
    (vllm, {"server": "vllm", "endpoint": "completions"}),
    (vllm, {"server": "formatter_vllm", "endpoint": "completions"}),
    (echoing, {"server": "openai", "endpoint": "completions"}),
    (llama_cpp(begins=True), {"server": "llama_cpp", "endpoint": "completions"}),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize(("answer", "more"), WAYS, ids=lambda one: one["server"] if isinstance(one, dict) else "")
def test_options_are_scored_as_the_model_does(answer: Any, more: Any, is_async: bool) -> None:
    scores = chosen(answer, PROMPT, OPTIONS, is_async=is_async, **more)
    expected = choose(MODEL, PROMPT, OPTIONS)
    assert [score.text for score in scores] == OPTIONS
    assert [score.logprob for score in scores] == pytest.approx([score.logprob for score in expected], abs=1e-4)
    assert [score.probability for score in scores] == pytest.approx([one.probability for one in expected], abs=1e-4)
    assert [len(score.tokens) for score in scores] == [len(score.tokens) for score in expected]
    if answer is vllm:
        assert [score.tokens for score in scores] == [score.tokens for score in expected]


@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "awaited"])
def test_prompts_and_options_may_be_what_they_are_elsewhere(is_async: bool) -> None:
    more = {"server": "vllm", "endpoint": "completions", "is_async": is_async}
    both = chosen(vllm, ["a ", "b "], Pet, **more)
    assert [[score.value for score in row] for row in both] == [[Pet.cat, Pet.other]] * 2
    assert [[score.logprob for score in row] for row in both] == [
        pytest.approx([score.logprob for score in choose(MODEL, prompt, Pet)], abs=1e-4) for prompt in ("a ", "b ")
    ]
    assert [score.text for score in chosen(vllm, "a", [1, None], **more)] == ["1", "null"]


def test_an_option_that_the_tokenizer_joins_with_the_prompt_has_tokens_of_its_own() -> None:
    assert MODEL.encode("nam" + "e") == MODEL.encode("name") != MODEL.encode("nam") + MODEL.encode("e")
    scores = chosen(vllm, "nam", ["e", "x"], server="vllm", endpoint="completions")
    expected = choose(MODEL, "nam", ["e", "x"])
    assert [score.tokens for score in scores] == [score.tokens for score in expected]
    assert [score.logprob for score in scores] == pytest.approx([score.logprob for score in expected], abs=1e-4)
    with pytest.raises(InvalidArgument, match="joins the end of the prompt"):
        chosen(echoing, "nam", ["e", "x"], server="openai", endpoint="completions")


def test_a_chat_of_vllm_is_answered_by_each_option() -> None:
    before = MODEL.encode("<system>Be brief.<user>Who?<assistant>")
    scores = chosen(vllm, "Who?", OPTIONS, server="vllm", system="Be brief.")
    expected = choose(MODEL, before, OPTIONS)
    assert [score.tokens for score in scores] == [score.tokens for score in expected]
    assert [score.logprob for score in scores] == pytest.approx([score.logprob for score in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("server", "endpoint"), [("llama_server", "chat"), ("llama_server", "completions"), ("llama_cpp", "chat")]
)
def test_llama_cpp_writes_each_option(server: Any, endpoint: Any) -> None:
    options = [*OPTIONS, "é!"]
    assert len(MODEL.encode("é")) == 2
    scores = chosen(writing(server == "llama_server"), PROMPT, options, server=server, endpoint=endpoint)
    before = MODEL.encode(PROMPT if endpoint == "completions" else f"<user>{PROMPT}<assistant>")
    for score, option in zip(scores, options, strict=True):
        written = completion(MODEL, [option], forced_text="off", sampling=greedy())(before).tokens[:-1]
        at = len(before)
        assert len(score.tokens) == len(written)
        assert score.logprob == pytest.approx(sum(logprobs_of([*before, *written])[at:]), abs=1e-4)  # type: ignore[arg-type]
    assert sum(score.probability for score in scores) == pytest.approx(1)


def best(*places: list[tuple[str, float]]) -> Callable[[dict[str, Any], int], Answer]:
    """Answer with the first of each place, and show the others beside it."""

    def answer(body: dict[str, Any], index: int) -> Answer:
        assert body["logprobs"] is True
        assert body["top_logprobs"] == 20
        entries = [
            [{"token": one, "bytes": list(one.encode()), "logprob": score} for one, score in row] for row in places
        ]
        content = [{**row[0], "top_logprobs": row} for row in entries]
        text = "".join(row[0][0] for row in places)
        raise sent({"message": {"role": "assistant", "content": text}, "logprobs": {"content": content}})

    return answer


BLUE = best([("b", -0.5), ("yes", -1.5), (" b", -2.0)], [("lue", -0.25), ("lack", -2.5)], [(".", -0.1)])


@pytest.mark.parametrize("server", ["openai", "ollama", "lmstudio"])
@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "awaited"])
def test_elsewhere_options_are_found_among_the_best_tokens(server: Any, is_async: bool) -> None:
    scores = chosen(BLUE, "Which?", ["blue", "black", "yes"], server=server, is_async=is_async)
    assert [score.logprob for score in scores] == pytest.approx([-0.75, -3.0, -1.5])
    assert [len(score.tokens) for score in scores] == [2, 2, 1]
    with pytest.raises(InvalidArgument, match="'green' is not among them"):
        chosen(BLUE, "Which?", ["blue", "green"], server=server, is_async=is_async)


def silent(body: dict[str, Any], index: int) -> Answer:
    """Answer without a log-probability, whatever was asked."""
    raise sent({"message": {"role": "assistant", "content": "b"}} if "messages" in body else {"text": "b"})


@pytest.mark.parametrize(
    ("answer", "more", "says"),
    [
        (silent, {"server": "openai"}, "gives no log-probabilities"),
        (silent, {"server": "openai", "endpoint": "completions"}, "does not echo a prompt"),
        (silent, {"server": "vllm"}, "use vLLM 0.10.2 or newer"),
        (silent, {"server": "vllm", "endpoint": "completions"}, "use vLLM 0.10.2 or newer"),
        (silent, {"server": "ollama", "endpoint": "completions"}, "use endpoint='chat'"),
        (llama_cpp(begins=False), {"server": "llama_cpp", "endpoint": "completions"}, "each other's log-probabilities"),
    ],
)
def test_a_server_that_does_not_tell_is_an_error_that_says_what_would(answer: Any, more: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        chosen(answer, PROMPT, OPTIONS, **more)


def test_the_end_of_an_output_is_not_told() -> None:
    with serving(StandIn(BLUE)) as running:
        with pytest.raises(InvalidArgument, match="append to each option"):
            choose(model_of(running), "Which?", ["a", "ab"], with_end=True)
        assert running.requests == []


def ungoverned(body: dict[str, Any], index: int) -> Answer:
    """Take no notice of a grammar."""
    entry = {"token": "b", "bytes": [98], "logprob": -1.0, "top_logprobs": []}
    raise sent({"message": {"role": "assistant", "content": "b"}, "logprobs": {"content": [entry]}})


def test_other_text_than_the_grammar_allows_is_malformed() -> None:
    with pytest.raises(MalformedAnswer, match="allows b'abc' alone"):
        chosen(ungoverned, "Which?", ["abc"], server="llama_server")


def refusing(body: dict[str, Any], index: int) -> Answer:
    raise Refused(400, "the prompt is too long")


@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize("prompt", [PROMPT, [PROMPT] * 3])
def test_what_a_server_refuses_is_the_errors_of_the_client(is_async: bool, prompt: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="too long"):
        chosen(refusing, prompt, OPTIONS, server="vllm", is_async=is_async)


def test_a_conversation_goes_to_a_chat_alone() -> None:
    conversation = [{"role": "user", "content": "Who?"}]
    scores = chosen(vllm, conversation, OPTIONS, server="vllm")
    assert scores == chosen(vllm, "Who?", OPTIONS, server="vllm")
    for answer, more in WAYS:
        with pytest.raises(InvalidArgument, match="use endpoint='chat'"):
            chosen(answer, conversation, OPTIONS, **more)
