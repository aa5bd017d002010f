"""Draws on torch logits: the same tokens as numpy draws, row by row."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.generation", reason="needs transformers")

from formatter_core import bitmask  # noqa: E402
from formatter_core.errors import InvalidArgument  # noqa: E402
from formatter_core.generation import NumpyLogits, Sampling, SamplingRows, multinomial  # noqa: E402
from formatter_transformers.model import TransformersModel  # noqa: E402
from formatter_transformers.torch_sampling import draw  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

SETTINGS = [
    Sampling(),
    multinomial(),
    multinomial(0.3),
    multinomial(1.5, top_k=7),
    multinomial(top_k=1),
    multinomial(top_k=5000),
    multinomial(top_p=0.6),
    multinomial(top_k=20, top_p=0.5),
    multinomial(min_p=0.1),
    multinomial(0.7, top_k=30, top_p=0.9, min_p=0.02),
    multinomial(typical_p=0.5),
    multinomial(typical_p=0.01),
    multinomial(top_k=50, typical_p=0.8),
    multinomial(top_p=1e-6),
]


def batch(rows: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((rows, width)) * 3).astype(np.single)
    logits[random.random((rows, width)) < 0.3] = -np.inf  # as a mask leaves them
    logits[:, random.integers(width)] = 1.0
    return logits, random.random(rows)


def rows_of(uniforms: np.ndarray) -> SamplingRows:
    return SamplingRows(uniforms, [0] * len(uniforms), range(len(uniforms)), [()] * len(uniforms))


@pytest.mark.parametrize("width", [100, 256, 1000])
@pytest.mark.parametrize("how", SETTINGS, ids=str)
def test_torch_and_numpy_draw_the_same_tokens(how: Sampling, width: int) -> None:
    logits, uniforms = batch(400, width, 3)
    ours = draw(how, torch.from_numpy(logits.copy()), uniforms).numpy()
    theirs = how(logits, rows_of(uniforms))
    # float32 here and float64 there may put a token that is exactly on a border on the other side of it.
    assert np.mean(ours == theirs) > 0.99
    assert np.isfinite(logits[np.arange(400), ours]).all()


@pytest.mark.parametrize("how", SETTINGS, ids=str)
def test_a_row_does_not_depend_on_its_batch(how: Sampling) -> None:
    logits, uniforms = batch(40, 300, 5)
    together = draw(how, torch.from_numpy(logits), uniforms)
    for row in range(40):
        alone = draw(how, torch.from_numpy(logits[row : row + 1]), uniforms[row : row + 1])
        assert alone.tolist() == [int(together[row])]


@pytest.mark.parametrize("how", [one for one in SETTINGS if one.temperature], ids=str)
@pytest.mark.parametrize("width", [120, 700])
def test_the_outermost_draws_stay_among_the_candidates(how: Sampling, width: int) -> None:
    logits, _ = batch(50, width, 7)
    for uniform in (0.0, np.nextafter(1.0, 0.0)):
        drawn = draw(how, torch.from_numpy(logits), np.full(50, uniform)).numpy()
        assert np.isfinite(logits[np.arange(50), drawn]).all()


@pytest.mark.parametrize("width", [64, 600, 768])
def test_one_allowed_token_is_taken_whatever_the_settings(width) -> None:
    logits = torch.full((3, width), -torch.inf)
    logits[[0, 1, 2], [5, width - 1, 0]] = torch.tensor([-80.0, 0.0, 900.0])
    for how in SETTINGS:
        assert draw(how, logits, np.array([0.0, 0.5, 0.999])).tolist() == [5, width - 1, 0]


def test_typical_tokens_are_those_of_transformers() -> None:
    from transformers import TypicalLogitsWarper

    logits, _ = batch(30, 200, 11)
    for mass in (0.2, 0.5, 0.9):
        kept = torch.isfinite(TypicalLogitsWarper(mass)(None, torch.from_numpy(logits)))
        for row in range(30):
            drawn = {
                int(token)
                for token in draw(
                    multinomial(typical_p=mass), torch.from_numpy(logits[row]).expand(500, -1), np.arange(500) / 500
                )
            }
            assert drawn <= set(torch.nonzero(kept[row])[:, 0].tolist())


def distribution_of_transformers(how: Sampling, logits: torch.Tensor) -> torch.Tensor:
    """Return the scores that `generate` draws from, float32 (rows, width)."""
    from transformers import (
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
        TypicalLogitsWarper,
    )

    warpers = [TemperatureLogitsWarper(float(how.temperature))]
    warpers += [TopKLogitsWarper(how.top_k)] if how.top_k else []
    warpers += [TopPLogitsWarper(how.top_p)] if how.top_p < 1 else []
    warpers += [MinPLogitsWarper(how.min_p)] if how.min_p else []
    warpers += [TypicalLogitsWarper(how.typical_p)] if how.typical_p < 1 else []
    for warper in warpers:
        logits = warper(None, logits)
    return torch.softmax(logits, -1)


def random_settings(random: Random) -> Sampling:
    return multinomial(
        random.choice([0.3, 0.7, 1.0, 1.8]),
        top_k=random.choice([0, 1, 3, 20, 5000]),
        top_p=random.choice([1.0, 0.9, 0.5, 0.05]),
        min_p=random.choice([0.0, 0.0, 0.05, 0.4]),
        typical_p=random.choice([1.0, 1.0, 0.9, 0.3]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_draws_have_the_distribution_of_transformers(seed) -> None:
    random = Random(seed)
    how = random_settings(random)
    logits = torch.from_numpy(batch(1, random.choice([8, 60, 300]), seed)[0])
    if seed % 2:  # as bfloat16 has them: many tokens tie
        logits = torch.where(logits.isfinite(), (logits * 4).round() / 4, logits)
        # Of equally good tokens at the border of a sum, which ones are kept is an accident of a sort.
        how = replace(how, top_p=1.0, typical_p=1.0)
    draws = 4000
    uniforms = (np.arange(draws) + 0.5) / draws
    ours = draw(how, logits.expand(draws, -1), uniforms)
    theirs = how(logits.expand(draws, -1).numpy(), rows_of(uniforms))
    expected = distribution_of_transformers(how, logits)[0].numpy()
    for drawn in (ours.numpy(), theirs):
        shares = np.bincount(drawn, minlength=len(expected)) / draws
        assert np.abs(shares - expected).max() < 2 / draws, how


@pytest.mark.parametrize("wrong", [{"typical_p": 0}, {"typical_p": 1.5}, {"top_p": 0}, {"temperature": -1}])
def test_faulty_settings_are_refused(wrong) -> None:
    with pytest.raises(InvalidArgument, match="invalid sampling parameters"):
        multinomial(**wrong)


@pytest.mark.parametrize("how", SETTINGS, ids=str)
def test_torch_and_numpy_weigh_tokens_alike(how: Sampling) -> None:
    logits = (np.random.default_rng(5).standard_normal((6, 300)) * 3).astype(np.single)
    rows = bitmask.allocate(6, 300)
    for index, row in enumerate(rows):
        bitmask.set_ids(row, range(index, 300, 3))
    ours, theirs = TransformersModel.weigh(torch.from_numpy(logits), rows, how), NumpyLogits.weigh(logits, rows, how)
    assert ours.weights == pytest.approx(theirs.weights, rel=1e-3, abs=1e-6)
    assert ours.scales == pytest.approx(theirs.scales, abs=1e-4)
    assert ours.allowed_logprobs == pytest.approx(theirs.allowed_logprobs, abs=1e-5)
    mass = TransformersModel.allowed_logprobs(torch.from_numpy(logits), rows)
    assert mass == pytest.approx(NumpyLogits.allowed_logprobs(logits, rows), abs=1e-5)
