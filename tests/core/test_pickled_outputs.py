"""Outputs and results go through pickling, as multiprocessing and caches do, and say afterwards what they said."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import FormatterError, IncompleteResult, InvalidValue, LimitExceeded
from formatter_core.generation import (
    Generated,
    ScoreSettings,
    beam_search,
    choose,
    completion,
    continuation,
    multinomial,
)
from tests.core.test_sequences import card
from tests.core.tiny_logits_model import TinyModel, by_tokens, writes


@dataclass
class Pair:
    a: int
    b: bool


@dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("not even")


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def what(read: Any) -> Any:
    """Return the value that is read, or the error's class and message."""
    try:
        return read()
    except FormatterError as error:
        return type(error), str(error)


def said(output: Generated) -> dict[str, Any]:
    """All that an output says, its formatter apart."""
    names = ["tokens", "bytes", "text", "stopped", "chosen", "prompt", "passes_saved", "prompt_chosen", "branches"]
    names += ["passes", "draws", "log_weight", "cached_tokens", "usage", "logprobs", "unmasked_logprobs", "logprob"]
    names += ["unmasked_logprob", "masked_logprob", "captures", "value"]
    told = {name: what(lambda name=name: getattr(output, name)) for name in names}
    result = what(lambda: output.result)
    if result is not None and not isinstance(result, tuple):
        told |= {name: what(lambda name=name: getattr(result, name)) for name in ("value", "captures", "spans")}
        told |= {name: getattr(result, name) for name in ("missing", "ended", "is_complete", "shortened", "text")}
    return {**told, "html": what(output._repr_html_), "repr": repr(output), "error": repr(output.error)}


@pytest.mark.parametrize("cut", [None, 3, 9])
@pytest.mark.parametrize("make", [card, lambda: None, lambda: Pair, lambda: formats.regex("[a-c]{3,20}")])
@pytest.mark.parametrize("scores", [ScoreSettings(), ScoreSettings(top=3, logprob=True, rank=True)], ids=str)
def test_outputs_say_the_same(make: Any, cut: Any, scores: ScoreSettings) -> None:
    write = completion(TinyModel(by_tokens(3)), make(), scores=scores, fit=False, max_tokens=cut or 60)
    outputs = write(["x", "yy"], n=2)
    for one, other in zip(chain(*outputs), chain(*again(outputs)), strict=True):
        assert said(other) == said(one)
        assert other.formatter is None
        assert other.result == one.result
        assert said(again(again(other))) == said(one)


def test_what_other_loops_return_is_pickled() -> None:
    model = TinyModel(by_tokens(1))
    scores = choose(model, "x", ["yes", "no"])
    assert again(scores) == scores
    found = beam_search(model, "x", formats.choice(["yes", "no"]), width=2)
    assert [said(one) for one in again(found)] == [said(one) for one in found]
    particles = completion(model, card(), particles=True, sampling=multinomial())("x", n=3)
    assert [said(one) for one in again(particles)] == [said(one) for one in particles]
    b = FormatterBuilder()
    b.append(b.choice(["yes", "no"], name="which"))
    (branch,) = again(completion(model, b, scores=ScoreSettings(branches=True))("x")).branches
    assert branch.name == "which"
    more = completion(model, card())("x") + " more"
    assert again(more).text == " more"


def test_an_output_goes_on_within_its_format() -> None:
    model = TinyModel(by_tokens(3))
    write = completion(model, card())
    whole = write("x")
    for cut in range(1, len(whole.tokens)):
        part = again(completion(model, card(), max_tokens=cut, forced_text="off", fit=False)("x"))
        rest = write(part)
        assert (rest.tokens, rest.value, rest.prompt) == (whole.tokens, whole.value, whole.prompt)
        assert part.formatter is None
    other = completion(model, formats.regex("[ab]{1,3}"))(again(part))  # in another format it is a prompt
    assert other.prompt == part.prompt + part.tokens
    assert continuation(model, max_tokens=2)(again(whole)).prompt == continuation(model, max_tokens=2)(whole).prompt


class Stubborn(Exception):
    """An error as those of HTTP clients: it cannot be made again from its message."""

    def __init__(self, message: str, *, response: int) -> None:
        super().__init__(message)


def test_errors_survive_or_say_the_same() -> None:
    failed = Generated((), b"ab", "error", ValueError("bad"))
    assert repr(again(failed).error) == "ValueError('bad')"
    for error in (Stubborn("gone", response=3), type("Local", (Exception,), {})("gone")):
        kept = again(Generated((), b"ab", "error", error)).error
        assert type(kept) is FormatterError
        assert str(kept) == f"{type(error).__name__}: gone"
    with pytest.raises(ValueError, match="bad"):
        again(failed).raise_error()


def test_results_keep_what_reading_them_raises() -> None:
    compiler = Compiler(Vocabulary.of_bytes())
    cut = compiler.compile(Pair).parse('{"a": 1')
    with pytest.raises(IncompleteResult) as caught:
        _ = again(cut).value
    assert (caught.value.text, caught.value.position) == ('{"a": 1', None)
    assert again(cut) == cut
    b = FormatterBuilder()
    b.append(b.json(Pair, name="pair"), b.json(Even, name="even"))
    wrong = compiler.compile(b).parse('{"a": 1, "b": true}{"n": 3}')
    assert wrong.is_complete
    for name in ("captures", "spans"):
        with pytest.raises(InvalidValue, match="not even"):
            getattr(again(wrong), name)
    kept, itself = again(compiler.compile(Even).parse('{"n": 3}')), compiler.compile(Even).parse('{"n": 3}')
    assert (kept.is_complete, kept.captures) == (True, itself.captures)
    with pytest.raises(InvalidValue, match="not even"):
        _ = kept.value


def test_a_limit_is_raised_where_the_copy_is_read() -> None:
    model = TinyModel(writes(b"aaaaaaaa", prompt=1))
    output = completion(model, formats.regex("a{3,9}"))("x")

    class Limited:
        compiled = output.formatter.compiled

        def result(self, ended: Any) -> Any:
            raise LimitExceeded("work", 10, "this")

    limited = copy.copy(output)
    object.__setattr__(limited, "formatter", Limited())
    limited.__dict__.pop("result", None)
    with pytest.raises(LimitExceeded):
        _ = again(limited).value


def test_copies_in_this_process_keep_the_formatter() -> None:
    output = completion(TinyModel(by_tokens(3)), Pair)("x")
    assert copy.copy(output).formatter is output.formatter
    deep = copy.deepcopy(output)
    assert deep.formatter is not None
    assert deep.formatter is not output.formatter
    assert deep.value == output.value
    kept = again(output)
    assert copy.deepcopy(kept).value == kept.value
    assert copy.deepcopy(kept).value is not kept.value


def test_a_class_that_cannot_be_pickled_says_so() -> None:
    @dataclass
    class Inner:
        a: bool

    with pytest.raises((pickle.PicklingError, AttributeError), match="Inner"):
        pickle.dumps(completion(TinyModel(by_tokens(3)), Inner)("x"))


def test_another_process_reads_it() -> None:
    output = completion(TinyModel(by_tokens(3)), Pair)("x")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(repr, (output,)) == repr(output)
        assert pool.apply(copy.copy, (output,)).value == output.value
