"""Outputs have their log-probability under the masks and among all tokens, and so the difference that masks make."""

from __future__ import annotations

import math

import numpy as np
import pytest

from formatter_core import bitmask, formats
from formatter_core.generation import (
    NumpyLogits,
    Sampling,
    ScoreSettings,
    beam_search,
    choose,
    completion,
    continuation,
    log_softmax,
    multinomial,
)
from tests.core.tiny_logits_model import TinyModel, by_tokens

FORMAT = formats.regex("(ab|cat|na){1,3}!")
ALL = ScoreSettings(logprob=True)


def allowed_mass(model: TinyModel, output) -> float:
    """The logarithm of the product of the allowed mass, token by token."""
    formatter = model.compiler.compile(FORMAT).formatter()
    row, total = bitmask.allocate(1, len(model.vocabulary))[0], 0.0
    for place, token in enumerate(output.tokens):
        formatter.fill_bitmask(row)
        logprobs = log_softmax(model.function((*output.prompt, *output.tokens[:place])))
        total += float(np.logaddexp.reduce(logprobs[bitmask.allowed_ids(row)]))
        formatter.accept_token(token)
    return total


@pytest.mark.parametrize("forced_text", ["exact", "off"])
@pytest.mark.parametrize("seed", range(3))
def test_an_output_says_how_far_it_was_bent(seed: int, forced_text) -> None:
    model = TinyModel(by_tokens(seed))
    output = completion(model, FORMAT, sampling=multinomial(), scores=ALL, forced_text=forced_text)("x", seed=seed)
    assert output.logprob == pytest.approx(sum(output.logprobs))
    assert output.unmasked_logprob == pytest.approx(sum(output.unmasked_logprobs))
    assert output.masked_logprob == pytest.approx(allowed_mass(model, output), abs=1e-4)


def test_by_default_only_the_log_probability_under_the_masks_is_computed() -> None:
    output = completion(TinyModel(by_tokens()), FORMAT)("x")
    assert output.logprob is not None
    assert output.unmasked_logprob is None
    assert output.masked_logprob is None
    output = completion(TinyModel(by_tokens()), FORMAT, scores=ScoreSettings())("x")
    assert (output.logprob, output.masked_logprob) == (None, None)


def test_free_text_is_not_bent() -> None:
    output = continuation(TinyModel(by_tokens()), max_tokens=5, scores=ALL)("x")
    assert output.masked_logprob == 0.0
    assert output.logprob == output.unmasked_logprob


def test_a_continued_output_counts_all_its_tokens() -> None:
    model = TinyModel(by_tokens(2))
    step = completion(model, FORMAT, max_tokens=2, fit=False, scores=ALL)
    output = step("x")
    while output.stopped == "length":
        output = step(output)
    assert output.masked_logprob == pytest.approx(allowed_mass(model, output), abs=1e-4)


def test_beams_say_it_too() -> None:
    model = TinyModel(by_tokens(1))
    outputs = beam_search(model, "x", FORMAT, width=3)
    assert len(outputs) == 3
    for output in outputs:
        assert output.masked_logprob == pytest.approx(allowed_mass(model, output), abs=1e-4)
        assert output.logprob is not None


def test_beams_of_a_model_that_does_not_weigh_leave_it_out() -> None:
    class Plain(TinyModel):
        allowed_logprobs = None

    outputs = beam_search(Plain(by_tokens(1)), "x", FORMAT, width=2)
    assert [output.masked_logprob for output in outputs] == [None, None]
    assert [output.tokens for output in outputs] == [
        output.tokens for output in beam_search(TinyModel(by_tokens(1)), "x", FORMAT, width=2)
    ]


def test_options_say_how_probable_all_of_them_were() -> None:
    scores = choose(TinyModel(by_tokens()), "x", ["ab", "cat", "na"])
    total = math.log(sum(math.exp(score.logprob) for score in scores))
    assert [score.masked_logprob for score in scores] == pytest.approx([total] * 3)


# --- weights -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.0), Sampling(0.7), Sampling(1.0, top_k=3), Sampling(1.5, top_p=0.8, min_p=0.1), Sampling(0.0)],
    ids=str,
)
def test_weights_are_what_the_sampling_draws_before_the_mask(sampling: Sampling) -> None:
    logits = np.random.default_rng(0).standard_normal((2, 40)).astype(np.single) * 2
    rows = bitmask.allocate(2, 40)
    for row in rows:
        bitmask.set_ids(row, [0, *range(3, 40, 2)])
    found = NumpyLogits.weigh(logits, rows, sampling)
    for row, weights, scale, mass in zip(logits, found.weights, found.scales, found.allowed_logprobs, strict=True):
        ids, shares = sampling.candidates(row)
        allowed = set(bitmask.allowed_ids(rows[0]))
        expected = {int(i): float(share) for i, share in zip(ids, shares, strict=True) if i in allowed}
        assert {int(i): float(weights[i]) for i in np.flatnonzero(weights)} == pytest.approx(expected, rel=1e-5)
        plain = log_softmax(row)
        for token, weight in expected.items():
            assert sampling.temperature * math.log(weight) + scale == pytest.approx(plain[token], abs=1e-5)
        assert mass == pytest.approx(np.logaddexp.reduce(plain[sorted(allowed)]), abs=1e-6)
    assert NumpyLogits.allowed_logprobs(logits, rows) == pytest.approx(found.allowed_logprobs.tolist())


def test_logits_that_are_not_numbers_weigh_nothing() -> None:
    logits = np.array([[0.0, 1.0], [np.nan, 1.0]], dtype=np.single)
    found = NumpyLogits.weigh(logits, bitmask.allocate(2, 2, fill="all"), Sampling(1.0))
    assert found.weights[0].sum() == pytest.approx(1.0)
    assert np.isnan(found.weights[1]).all()
