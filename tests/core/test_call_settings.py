"""Options of a call by the names that people type: one value, or one for each prompt; a wrong name tells the right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import (
    Generated,
    Sampling,
    ScoreSettings,
    TextRequest,
    completion,
    continuation,
    greedy,
    multinomial,
)
from tests.core.tiny_logits_model import TinyModel, by_tokens

MODEL = TinyModel(by_tokens())
LETTERS = formats.regex("[a-z]{1,30}")


def texts(outputs: Any) -> list[str]:
    return [output.text for output in outputs]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"temperature": 0.7}, {"sampling": multinomial(0.7)}),
        ({"temperature": 0.7, "top_p": 0.8}, {"sampling": multinomial(0.7, top_p=0.8)}),
        ({"top_k": 3}, {"sampling": multinomial(top_k=3)}),
        ({"min_p": 0.1}, {"sampling": multinomial(min_p=0.1)}),
        ({"temperature": 0}, {"sampling": greedy()}),
        ({"n": 3, "temperature": 1.0}, {"samples": 3, "sampling": multinomial()}),
        ({"max_tokens": 4}, {"max_tokens": [4, 4]}),
        ({"stop_strings": "a"}, {"stop_strings": [["a"], ["a"]]}),
        ({"format": ["yes", "no"]}, {"formats": [formats.choice(["yes", "no"])] * 2}),
        ({"logprobs": 2}, {"top_logprobs": 2}),
        ({"logprobs": True}, {}),
    ],
)
def test_short_names_mean_what_the_long_ones_mean(short: dict[str, Any], long: dict[str, Any]) -> None:
    write = completion(MODEL, LETTERS)
    one, other = write(["x", "y"], seed=3, **short), write(["x", "y"], seed=3, **long)
    for mine, yours in zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True):
        assert (mine.text, mine.chosen) == (yours.text, yours.chosen)


def test_each_prompt_has_its_own() -> None:
    write = completion(MODEL, LETTERS, temperature=1.0)
    both = write(["x", "y"], seed=[1, 2], max_tokens=[3, 9], temperature=[0.5, 2.0], logprobs=[False, 2])
    assert texts(both) == [
        write("x", seed=1, max_tokens=3, temperature=0.5).text,
        write("y", seed=2, max_tokens=9, temperature=2.0).text,
    ]
    assert not both[0].chosen
    assert len(both[1].chosen[0].top) >= 2
    stopped = continuation(MODEL, max_tokens=200)(["x", "y"], stop_strings=[["a"], ["b", "c"]])
    assert "a" not in stopped[0].text
    assert not set("bc") & set(stopped[1].text)


def test_options_of_a_writer_have_the_same_names() -> None:
    long = completion(MODEL, LETTERS, sampling=multinomial(0.7, top_p=0.8), top_logprobs=2)("x", seed=5)
    short = completion(MODEL, LETTERS, temperature=0.7, top_p=0.8, logprobs=2, seed=5)("x")
    assert (short.text, short.chosen) == (long.text, long.chosen)
    assert completion(MODEL, LETTERS, logprobs=False)("x").chosen == ()
    assert continuation(MODEL, temperature=0.7, seed=5, max_tokens=5)("x").text == (
        continuation(MODEL, sampling=multinomial(0.7), max_tokens=5)("x", seed=5).text
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sampling": greedy(), "temperature": 1.0}, "both sampling and temperature"),
        ({"samples": 2, "n": 2}, "both samples and n"),
        ({"format": int, "formats": [int]}, "both format and formats"),
        ({"logprobs": 1, "top_logprobs": 1}, "both logprobs and top_logprobs"),
        ({"max_new_tokens": 5}, "the name here is max_tokens"),
        ({"stop": ["a"]}, "the name here is stop_strings"),
        ({"num_return_sequences": 2}, "the name here is n"),
        ({"response_format": int}, "the name here is format"),
        ({"max_token": 5}, "the name here is max_tokens"),
        ({"zzz": 5}, "there are samples, n"),
        ({"max_tokens": [1]}, "one entry for each of the 2 prompts"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_what_a_call_cannot_have_is_refused_with_what_to_write(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        completion(MODEL, LETTERS)(["x", "y"], **given)
    with pytest.raises(InvalidArgument, match=told):
        list(completion(MODEL, LETTERS).stream(["x", "y"], **given))
    with pytest.raises(InvalidArgument, match=told):
        completion(Asked(), LETTERS)(["x", "y"], **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_new_tokens": 5}, "the name here is max_tokens"),
        ({"n": 5}, "give it to each call of what this returns"),
        ({"num_beams": 5}, "call beam_search"),
        ({"sampling": greedy(), "top_p": 0.5}, "both sampling and top_p"),
        ({"logprobs": 1, "scores": ScoreSettings(top=1)}, "both logprobs and scores"),
    ],
)
def test_what_a_writer_cannot_have_is_refused_with_what_to_write(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        completion(MODEL, LETTERS, **given)


def test_options_have_names() -> None:
    with pytest.raises(InvalidArgument, match="such as max_tokens=20"):
        completion(MODEL, LETTERS)("x", 20)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="give options by name"):
        completion(MODEL)("x", int)  # type: ignore[call-overload]


def test_a_sampler_of_your_own_has_no_temperature() -> None:
    write = completion(MODEL, LETTERS, sampling=lambda logits, rows: logits.argmax(axis=-1))
    with pytest.raises(InvalidArgument, match="temperature changes a Sampling"):
        write("x", temperature=0.5)


# --- models behind an API ----------------------------------------------------------------------------------------


class Asked:
    """An `ApiModel` that remembers what it was asked."""

    requests: Any = None

    def complete(self, prompts: Any, request: Any) -> Any:
        self.requests = request
        each = request if isinstance(request, list) else [request] * len(prompts)
        return [[Generated((), b"", "end")] * one.samples for one in each]

    def stream_complete(self, prompts: Any, request: Any) -> Any:
        self.requests = request
        return iter(())


def test_models_behind_an_api_take_the_same_names() -> None:
    model = Asked()
    write = completion(model, LETTERS, temperature=0.5, logprobs=3, seed=4)
    write("x")
    scores = ScoreSettings(top=3, logprob=True, unmasked=False)
    assert model.requests == TextRequest(LETTERS, sampling=Sampling(0.5), seed=4, scores=scores)
    write(["x", "y"], n=2, max_tokens=7, temperature=0.9, stop_strings="a", format=int, logprobs=False)
    assert model.requests == TextRequest(int, 7, ("a",), Sampling(0.9), 2, 4)
    list(write.stream(["x", "y"], top_p=0.5))
    assert model.requests.sampling == Sampling(0.5, top_p=0.5)
    write(["x", "y"], max_tokens=[1, 2])
    assert [one.max_tokens for one in model.requests] == [1, 2]
    write(["x", "y"], formats=[None, int], seed=[8, None])
    assert [(one.format, one.seed) for one in model.requests] == [(None, 8), (int, 4)]


# --- transformers ------------------------------------------------------------------------------------------------


def test_a_model_and_its_tokenizer_may_stand_side_by_side_and_a_hook_names_its_arguments() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    from formatter_transformers import create_logits_processor, transformers_model

    folder = "examples/tiny_model"
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = completion(transformers_model(loaded, tokenizer), LETTERS)("x").text
    assert text == completion(transformers_model(loaded, tokenizer=tokenizer), LETTERS)("x").text
    with pytest.raises(InvalidArgument, match="two tokenizers"):
        transformers_model(loaded, tokenizer, tokenizer=tokenizer)
    right = r"call create_logits_processor\(tokenizer, format, model=model\)"
    with pytest.raises(InvalidArgument, match=right):
        create_logits_processor(loaded, tokenizer, LETTERS)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match=right):
        create_logits_processor(loaded, LETTERS)
