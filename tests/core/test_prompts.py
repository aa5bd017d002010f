"""Prompts of generation loops: their shapes, ids, outputs that go on, and what is refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import (
    InvalidArgument,
    PromptTooLong,
)
from formatter_core.generation import (
    Finished,
    Generated,
    best_of,
    completion,
    continuation,
    multinomial,
)
from tests.core.tiny_logits_model import END, WIDTH, TinyModel, by_tokens, card, writes


def test_outputs_are_shaped_like_the_prompts() -> None:
    write = continuation(TinyModel(by_tokens()), max_tokens=3)
    assert isinstance(write("a"), Generated)
    assert isinstance(write([1, 2]), Generated)
    assert isinstance(write(np.array([1, 2])), Generated)
    assert [type(one) for one in write("a", samples=2)] == [Generated] * 2
    assert [type(one) for one in write(["a", [1], write("b")])] == [Generated] * 3
    assert [[type(one) for one in row] for row in write(["a", "b"], samples=3)] == [[Generated] * 3] * 2
    assert write([]) == []


@pytest.mark.parametrize("wrong", [3, b"bytes", None, {"a": 1}, [3.5], "", [WIDTH], [-1], [True]])
def test_what_is_no_prompt_is_refused(wrong) -> None:
    with pytest.raises(InvalidArgument):
        continuation(TinyModel(by_tokens()))(wrong)


def test_a_bad_prompt_among_others_fails_alone() -> None:
    write = continuation(TinyModel(by_tokens()), max_tokens=3)
    for wrong in (3.5, "", [WIDTH], [[True]], "\ud800"):
        outputs = write(["a", wrong, "b"])
        assert [output.stopped for output in outputs] == ["length", "error", "length"]
        assert isinstance(outputs[1].error, InvalidArgument)
        with pytest.raises(InvalidArgument):
            _ = outputs[1].value
        events = list(write.stream(["a", wrong], samples=2))
        assert sorted((e.prompt, e.sample) for e in events if isinstance(e, Finished)) == [
            (prompt, sample) for prompt in (0, 1) for sample in (0, 1)
        ]


def test_an_output_is_a_prompt_again() -> None:
    model = TinyModel(by_tokens())
    write = continuation(model, max_tokens=6, ignore_eos=True)
    whole = continuation(model, max_tokens=12, ignore_eos=True)("start")
    first = write("start")
    second = write(first)
    assert first.tokens + second.tokens == whole.tokens
    assert second.prompt == first.prompt + first.tokens
    third = write(first + " and" + " more")
    assert third.prompt == (*first.prompt, *first.tokens, *model.encode_continuation(b" and more"))


def test_an_unfinished_output_goes_on_within_its_format() -> None:
    model = TinyModel(by_tokens(3))
    write = completion(model, card())
    whole = write("x")
    for cut in range(1, len(whole.tokens)):
        part = completion(model, card(), max_tokens=cut, forced_text="off", fit=False)("x")
        assert part.stopped == "length"
        rest = write(part)
        assert rest.tokens == whole.tokens
        assert rest.value == whole.value
        assert rest.prompt == whole.prompt
        assert rest.logprobs == pytest.approx(whole.logprobs)
        assert part.stopped == "length"  # what was a prompt is left as it is
        assert len(part.tokens) == cut
    again = write(whole)  # a complete one is a prompt like any other
    assert again.prompt == whole.prompt + whole.tokens[:-1]


def test_what_a_stop_string_cut_is_no_part_of_the_next_prompt() -> None:
    model = TinyModel(writes(b"hello world", prompt=1))
    first = continuation(model, stop_strings="lo w")("x")
    assert first.text == "hel"
    assert continuation(model, max_tokens=1)(first).prompt == tuple(b"xhel")
    first = continuation(model, stop_ids=[ord("o")])("x")
    assert continuation(model, max_tokens=1)(first).prompt == tuple(b"xhell")


def test_a_stop_inside_a_token_leaves_the_text_before_it() -> None:
    model = TinyModel(lambda tokens: one_hot([ord("t"), 257, END][len(tokens) - 1]))
    first = continuation(model, stop_strings="at")("x")
    assert first.text == "tc"
    assert continuation(model, max_tokens=1)(first).prompt == tuple(b"xtc")


def one_hot(token: int) -> np.ndarray:
    row = np.zeros(WIDTH, dtype=np.single)
    row[token] = 50
    return row


def test_a_prompt_that_is_too_long_ends_that_sequence_alone() -> None:
    good, bad = continuation(TinyModel(by_tokens(), max_length=10), ignore_eos=True)(["abc", "a" * 10])
    assert good.stopped == "length"
    assert len(good.tokens) == 7
    with pytest.raises(PromptTooLong):
        bad.raise_error()


@pytest.mark.parametrize("seed", range(8))
def test_each_prompt_of_a_call_may_have_its_own_format_and_sampling(seed) -> None:
    random = Random(seed)
    model = TinyModel(by_tokens(seed))
    choices = [None, formats.regex("[ab]{2,6}"), formats.choice(["cat", "name"]), formats.regex("[0-9]{3}x")]
    draws = [multinomial(), multinomial(0.7, top_k=5), multinomial(0), lambda logits, rows: logits.argmax(axis=-1)]
    prompts = [f"prompt {number}" for number in range(random.randint(1, 5))]
    own = [(random.choice(choices), random.choice(draws)) for _ in prompts]
    mode = random.choice(["exact", "canonical", "off"])
    write = completion(model, max_tokens=12, forced_text=mode)
    together = write(prompts, samples=2, seed=3, formats=[one for one, _ in own], sampling=[how for _, how in own])
    for prompt, (format, how), samples in zip(prompts, own, together, strict=True):
        alone = completion(model, format, max_tokens=12, sampling=how, forced_text=mode)
        assert [one.tokens for one in alone(prompt, samples=2, seed=3)] == [one.tokens for one in samples]
        assert all((one.formatter is None) == (format is None) for one in samples)


def test_a_list_for_each_prompt_has_one_entry_for_each() -> None:
    write = continuation(TinyModel(by_tokens()), max_tokens=2)
    for wrong in ({"formats": [None]}, {"formats": card()}, {"sampling": [multinomial()]}, {"top_logprobs": [5]}):
        with pytest.raises(InvalidArgument, match="one entry for each of the 2 prompts"):
            write(["a", "b"], **wrong)


def test_arrays_and_what_tokenizers_return_are_prompts() -> None:
    write = continuation(TinyModel(by_tokens()), max_tokens=3)
    one, other = write([[97, 98], [99, 100, 101]])
    padded = np.array([[0, 97, 98], [99, 100, 101]])
    mask = np.array([[0, 1, 1], [1, 1, 1]])
    assert write(np.array([97, 98])) == one
    assert write(padded[1:]) == [other]
    assert write([np.array([97, 98]), np.array([[99, 100, 101]])]) == [one, other]
    for encoding in (
        {"input_ids": padded, "attention_mask": mask, "token_type_ids": mask},
        {"input_ids": padded.tolist(), "attention_mask": mask.tolist()},
        {"input_ids": [[97, 98], [99, 100, 101]]},
    ):
        assert write(encoding) == [one, other]
    assert write({"input_ids": [97, 98, 0], "attention_mask": [1, 1, 0]}) == one
    assert write([{"input_ids": [97, 98]}, {"input_ids": [[99, 100, 101]]}]) == [one, other]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"input_ids": [97, 98, 99], "attention_mask": [1, 0, 1]}, "only padding"),
        ({"input_ids": [97], "attention_mask": [1], "pixel_values": [0.5]}, "pixel_values"),
        ({"attention_mask": [1]}, "no input_ids"),
        ({"input_ids": [97, 98], "attention_mask": [1]}, "attention mask"),
        (np.array([0.5, 1.5]), "is not a prompt"),
    ],
)
def test_what_a_tokenizer_does_not_return_is_refused(wrong, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        continuation(TinyModel(by_tokens()), max_tokens=3)(wrong)


def test_only_text_follows_an_output_and_only_outputs_are_ranked() -> None:
    write = continuation(TinyModel(by_tokens()), max_tokens=3)
    output = write("a")
    for wrong in (5, None, b"b", output):
        with pytest.raises(InvalidArgument, match="only text"):
            output + wrong
        with pytest.raises(InvalidArgument, match="only text"):
            output + "b" + wrong
    for wrong in (output, [output, 5], 5, "outputs"):
        with pytest.raises(InvalidArgument):
            best_of(wrong)
    assert best_of([output]) == [output]
