"""Particles against enumeration: weighted samples of the model's own distribution given the format and a score."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from formatter_core.errors import InvalidArgument, NoParticleLeft
from formatter_core.generation import Generated, Particles, Sampling, completion, log_evidence, multinomial, shares
from tests.core.enumeration import FORMATS, outputs_of, total_variation
from tests.core.tiny_logits_model import TinyModel, by_tokens

WARM = multinomial()
WORDS = FORMATS["words"]
PROMPT = tuple(b"x")


def runs(model: TinyModel, format: Any, count: int, samples: int, **options: Any) -> list[list[Generated]]:
    draw = completion(model, format, **{"sampling": WARM, "particles": True, **options})
    return [draw("x", samples=samples, seed=seed) for seed in range(count)]


def estimates(found: list[list[Generated]]) -> np.ndarray:
    """The estimate of the evidence in each run."""
    return np.array([math.exp(log_evidence(outputs)) for outputs in found])


def is_near_mean(values: np.ndarray, expected: float) -> bool:
    """Tell whether the mean is within four standard errors."""
    return bool(abs(values.mean() - expected) < 4 * values.std() / math.sqrt(len(values)) + 1e-9 * expected)


@pytest.mark.parametrize("resample_below", [0, 0.5, 1])
@pytest.mark.parametrize("name", ["words", "bits", "text with holes"])
def test_weights_are_unbiased(name: str, resample_below: float) -> None:
    model = TinyModel(by_tokens(1, 0.5))
    expected = outputs_of(model, FORMATS[name], PROMPT, WARM)
    found = runs(model, FORMATS[name], 60, 8, particles=Particles(resample_below=resample_below))
    assert is_near_mean(estimates(found), sum(expected.values()))
    best = max(expected, key=lambda tokens: expected[tokens])
    of_best = [
        sum(math.exp(one.log_weight or 0) for one in outputs if one.tokens == best) / len(outputs) for outputs in found
    ]
    assert is_near_mean(np.array(of_best), expected[best])


def test_shares_approach_the_model_given_the_format() -> None:
    model = TinyModel(by_tokens(1, 0.5))
    expected: Counter[str] = Counter()
    for tokens, probability in outputs_of(model, WORDS, PROMPT, WARM).items():
        expected[b"".join(model.vocabulary.text_token(token) or b"" for token in tokens).decode()] += probability
    errors = []
    for particles in (10, 40, 160):
        draw = completion(model, WORDS, sampling=WARM, particles=Particles(resample_below=0), batch=160)
        errors.append(
            np.mean([total_variation(expected, shares(draw("x", samples=particles, seed=seed))) for seed in range(12)])
        )
    # A hundred times the particles have a tenth of the error; here each step has four times as many.
    assert errors[1] < 0.75 * errors[0]
    assert errors[2] < 0.75 * errors[1]


@pytest.mark.parametrize("each_step", [False, True])
@pytest.mark.parametrize("sampling", [WARM, Sampling(0.8)], ids=str)
def test_a_score_counts_beside_the_model(each_step: bool, sampling: Sampling) -> None:
    def score(output: Generated) -> float:
        return 0.25 + output.text.count("ab")

    model = TinyModel(by_tokens(2, 0.5))
    expected = 0.0
    for tokens, probability in outputs_of(model, WORDS, PROMPT, sampling).items():
        text = b"".join(model.vocabulary.text_token(token) or b"" for token in tokens)
        expected += probability * (0.25 + text.count(b"ab"))
    how = Particles(score=score, each_step=each_step)
    assert is_near_mean(estimates(runs(model, WORDS, 80, 8, particles=how, sampling=sampling)), expected)


def test_a_score_of_nothing_rules_an_output_out() -> None:
    model = TinyModel(by_tokens(2, 0.5))
    how = Particles(score=lambda output: output.text != "ab!")
    outputs = completion(model, WORDS, sampling=WARM, particles=how)("x", samples=30, seed=1)
    assert all(output.stopped == "end" and output.text != "ab!" for output in outputs)
    none = Particles(score=lambda output: False, each_step=True)
    with pytest.raises(NoParticleLeft, match="all 5 particles"):
        completion(model, WORDS, sampling=WARM, particles=none)("x", samples=5, seed=1)


def test_a_score_sees_what_is_written_so_far() -> None:
    seen: list[Generated] = []

    def score(output: Generated) -> float:
        seen.append(output)
        return 1.0

    model = TinyModel(by_tokens(2, 0.5))
    (output,) = [completion(model, WORDS, sampling=WARM, particles=Particles(score=score, each_step=True))("x", seed=1)]
    assert [one.tokens for one in seen] == [output.tokens[: len(one.tokens)] for one in seen]
    assert seen[-1].stopped == "end"
    assert {one.stopped for one in seen[:-1]} == {"cancelled"}


def test_a_copy_goes_on_by_itself() -> None:
    model = TinyModel(by_tokens(3, 2.0))
    outputs = completion(model, FORMATS["dates"], sampling=WARM, particles=Particles(resample_below=1))(
        "x", samples=40, seed=1
    )
    assert [output.result.text for output in outputs] == [output.text for output in outputs]
    assert len({output.formatter for output in outputs}) == 40
    for output in outputs:
        assert output.unmasked_logprob is not None
        assert len(output.chosen) == len(output.tokens)


def test_prompts_and_free_text_are_apart() -> None:
    model = TinyModel(by_tokens(3, 0.5))
    draw = completion(model, WORDS, sampling=WARM, particles=True, max_tokens=6)
    words, free = draw(["x", "y"], samples=6, seed=1, formats=[WORDS, None])
    assert {output.stopped for output in words} == {"end"}
    assert [output.log_weight for output in free] == pytest.approx([0.0] * 6, abs=1e-6)
    again = draw(["y", "x"], samples=6, seed=1, formats=[None, WORDS])
    assert [output.tokens for output in again[1]] == [output.tokens for output in words]


def test_forced_text_changes_nothing_but_the_passes() -> None:
    model = TinyModel(by_tokens(3, 0.5))
    expected = sum(outputs_of(model, FORMATS["const"], PROMPT, WARM).values())
    passes = {}
    for forced_text in ("exact", "off"):
        model.passes = 0
        found = runs(model, FORMATS["text with holes"], 5, 4, forced_text=forced_text)
        passes[forced_text] = model.passes
        assert all(output.stopped == "end" for outputs in found for output in outputs)
    assert passes["exact"] < passes["off"]
    assert is_near_mean(estimates(runs(model, FORMATS["const"], 60, 8, forced_text="off")), expected)


def test_outputs_that_do_not_end_in_time_are_replaced() -> None:
    model = TinyModel(by_tokens(3, 0.5))
    draw = completion(model, FORMATS["until"], sampling=WARM, particles=True, max_tokens=3, fit=False)
    assert {output.stopped for output in draw("x", samples=60, seed=1)} == {"end"}


def test_shares_of_exact_and_of_weighted_samples() -> None:
    def output(text: str, log_weight: float | None) -> Generated:
        return Generated((), text.encode(), "end", log_weight=log_weight)

    assert shares([output("a", None), output("b", None), output("a", None)]) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    mixed = [output("a", None), output("b", -700.0 + math.log(3)), output("c", -700.0)]
    assert shares(mixed) == pytest.approx({"b": 1 / 2, "a": 1 / 3, "c": 1 / 6})
    assert log_evidence(mixed) == pytest.approx(-700 + math.log(2))
    assert log_evidence(mixed[:1]) == -math.inf
    assert shares([]) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"faithful": True}, "leave out one"),
        ({"particles": 3}, "particles"),
        ({"batch": 2}, "particles are computed together"),
        ({"particles": Particles(score=lambda output: -1.0)}, "score"),
        ({"particles": Particles(score=lambda output: "good")}, "score"),
        ({"particles": Particles(score=lambda output: math.nan)}, "score"),
    ],
)
def test_wrong_calls_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        completion(TinyModel(by_tokens()), WORDS, **{"particles": True, "sampling": WARM, **options})("x", samples=3)


@pytest.mark.parametrize(
    "wrong", [{"score": 3}, {"each_step": "x"}, {"resample_below": 2}, {"resample_below": "x"}, {"with_end": 1}]
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Particles(**wrong)
