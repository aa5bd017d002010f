"""Wrong calls of the loops of `formatter_core.generation` raise errors of ours, whatever the arguments."""

from __future__ import annotations

from typing import Any

import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import (
    Faithful,
    Sampling,
    ScoreSettings,
    beam_search,
    branches,
    choose,
    completion,
    continuation,
    greedy,
    multinomial,
)
from formatter_core.trace import trace_of
from tests.core.tiny_logits_model import TinyModel, by_tokens
from tests.core.wrong_calls import WRONG, Call, raw_errors

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

MODEL = TinyModel(by_tokens())
FORMAT = formats.regex("(?P<a>[ab]{1,3})")
COUNTS = {"max_tokens": 4, "scores": ScoreSettings(logprob=True), "top_logprobs": 2, "batch": 2}
#: Without numbers of samples of which there is no end, and without functions, which may be samplers.
ENDING = [make for make in WRONG if not callable(value := make()) and not (isinstance(value, int) and value > 2**30)]


def written(make: Any) -> Any:
    """The call, and what its writer writes: an argument that is taken must not fail later as something else."""
    return lambda *arguments, **options: make(*arguments, **options)(["x", "y"])


CALLS = [
    Call(
        "completion",
        written(completion),
        lambda: (MODEL, FORMAT),
        lambda: {**COUNTS, "sampling": greedy(), "forced_text": "exact", "fit": True},
    ),
    Call(
        "faithful samples",
        written(completion),
        lambda: (MODEL, FORMAT),
        lambda: {"max_tokens": 4, "faithful": Faithful(max_draws=20), "stop_strings": ["q"], "fit": True},
    ),
    Call("Faithful", Faithful, tuple, lambda: {"max_draws": 3, "otherwise": "error", "memory_bytes": 9, "keep": True}),
    Call(
        "continuation",
        written(continuation),
        lambda: (MODEL,),
        lambda: {**COUNTS, "sampling": greedy(), "stop_strings": ["q"], "stop_ids": [3], "ignore_eos": False},
    ),
    Call("a prompt", completion(MODEL, FORMAT, max_tokens=4), lambda: ("x",), lambda: {"samples": 2, "seed": 1}),
    Call(
        "prompts",
        completion(MODEL, FORMAT, max_tokens=4),
        lambda: (["x", [1, 2]],),
        lambda: {"formats": [None, FORMAT], "sampling": [greedy(), multinomial()], "top_logprobs": [0, 1]},
    ),
    Call(
        "a stream",
        lambda *given, **options: [*completion(MODEL, FORMAT).stream(*given, **options)],
        lambda: ("x",),
        lambda: {"snapshots": "plain", "deltas": True},
    ),
    Call("choose", choose, lambda: (MODEL, "x", ["a", "bc"]), lambda: {"with_end": True}),
    Call("beam_search", beam_search, lambda: (MODEL, "x", FORMAT), lambda: {"width": 2, "max_tokens": 4}),
    Call("branches", branches, lambda: (MODEL, completion(MODEL, FORMAT)("x"))),
    Call("trace_of", trace_of, lambda: (completion(MODEL, FORMAT)("x"),)),
    *(
        Call(name, make, tuple, lambda: {"temperature": 1.0, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.5})
        for name, make in (("Sampling", Sampling), ("multinomial", multinomial))
    ),
    Call(
        "ScoreSettings",
        ScoreSettings,
        tuple,
        lambda: {"top": 1, "logprob": True, "unmasked": True, "rank": True, "prompt": False, "branches": False},
    ),
]


@pytest.mark.parametrize("seed", range(4))
def test_wrong_calls_raise_errors_of_ours(seed: int) -> None:
    assert raw_errors(CALLS, 400, seed, ENDING) == []


@pytest.mark.parametrize("given", [[1, 2, 3], [[1, 2]], [0.5, 1.5], ["a", "b"], [[1], [2, 3]], None])
def test_a_sampler_gives_a_token_for_each_row(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="the sampler gave"):
        completion(MODEL, FORMAT, sampling=lambda logits, rows: given)(["x", "y"])


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "typical_p"])
def test_a_number_above_all_floats_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Sampling(**{name: 10**400})


@pytest.mark.parametrize("prompt", ["x", [120]])
def test_half_a_surrogate_pair_is_no_option(prompt: Any) -> None:
    with pytest.raises(InvalidArgument, match="option has half of a surrogate pair at 1"):
        choose(MODEL, prompt, ["a", "b\ud800"])


@pytest.mark.parametrize("wrong", [-1, 2**40])
def test_a_token_that_is_none_ends_its_output_alone(wrong: int) -> None:
    good, bad = completion(
        MODEL, formats.regex("ab"), forced_text="off", sampling=lambda logits, rows: [97, wrong][: len(logits)]
    )(["x", "y"])
    assert (good.text[:1], bad.stopped) == ("a", "error")
