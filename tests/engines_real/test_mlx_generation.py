"""The generation loops on a model of real mlx-lm: every logit beside the model's own forward pass."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

for name in ("mlx", "mlx_lm"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

import mlx.core as mx  # noqa: E402
import mlx_lm  # noqa: E402
from mlx_lm.models import gemma3_text  # noqa: E402

from formatter_core import formats, parse  # noqa: E402
from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion  # noqa: E402
from formatter_core.generation import ScoreSettings, beam_search, choose, completion, multinomial  # noqa: E402
from formatter_mlx import MlxModel, mlx_model  # noqa: E402
from tests.core.wrong_calls import Call, raw_errors  # noqa: E402
from tests.schemas import closed  # noqa: E402

TINY = Path(__file__).resolve().parents[2] / "examples" / "tiny_model"
PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"
SCHEMA = closed({"name": {"type": "string", "maxLength": 12}, "city": {"enum": ["Oslo", "Delhi"]}})


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    model, tokenizer = mlx_lm.load(str(TINY))
    model.set_dtype(mx.float32)
    return model, tokenizer


@pytest.fixture(scope="module")
def model(loaded: tuple[Any, Any]) -> MlxModel:
    return mlx_model(*loaded)


def logits_of(loaded: tuple[Any, Any], ids: list[int]) -> NDArray[np.float64]:
    """Compute the logits after each token by one forward pass without a cache."""
    return np.array(loaded[0](mx.array([ids]))[0].astype(mx.float32)).astype(np.float64)


def logprobs_of(loaded: tuple[Any, Any], ids: list[int]) -> NDArray[np.float64]:
    logits = logits_of(loaded, ids)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_any_length_are_what_each_is_alone(loaded: tuple[Any, Any], model: MlxModel, seed: int) -> None:
    rng = random.Random(seed)
    ids = model.encode(PROMPT)
    batch = model.start([ids, [*ids[:10], 5, 6], ids[:4]])
    rows = [list(row) for row in batch.tokens]
    for _ in range(30):
        if rng.random() < 0.3:
            chosen = [rng.randrange(len(rows)) for _ in range(rng.randint(1, 4))]
            batch.select(chosen)
            rows = [list(rows[row]) for row in chosen]
        if rng.random() < 0.3:
            rows = [row[: max(1, len(row) - rng.randrange(5))] for row in rows]
            batch.crop([len(row) for row in rows])
        new = [[rng.randrange(1, 440) for _ in range(rng.choice([1, 1, 1, 3, 7]))] for _ in rows]
        keep = rng.randint(1, 4)
        found = batch.forward(new, keep=keep)
        for number, (row, more) in enumerate(zip(rows, new, strict=True)):
            row.extend(more)
            expected, count = logits_of(loaded, row), min(keep, len(more))
            assert np.allclose(found[number, keep - count :], expected[-count:], atol=1e-4)
            assert np.allclose(batch.logits[number], expected[-1], atol=1e-4)
    assert batch.tokens == rows


def test_a_long_prompt_is_computed_in_pieces(loaded: tuple[Any, Any], model: MlxModel) -> None:
    rng = random.Random(0)
    ids = [rng.randrange(1, 440) for _ in range(200)]
    prompts = [[*ids, *(rng.randrange(1, 440) for _ in range(count))] for count in (1, 90, 300, 700)]
    batch = model.start(prompts)
    for row, prompt in enumerate(prompts):
        assert np.allclose(batch.logits[row], logits_of(loaded, prompt)[-1], atol=1e-3)


def test_log_probabilities_are_the_models_own(loaded: tuple[Any, Any], model: MlxModel) -> None:
    scores = ScoreSettings(top=3, logprob=True)
    write = completion(model, SCHEMA, max_tokens=60, sampling=multinomial(), scores=scores, forced_text="off")
    prompt = model.encode(PROMPT)
    for output in write(PROMPT, samples=6, seed=1):
        assert parse(SCHEMA, output.bytes).is_complete
        logprobs = logprobs_of(loaded, [*prompt, *output.tokens])[len(prompt) - 1 :]
        for token, chosen, row in zip(output.tokens, output.chosen, logprobs, strict=False):
            assert chosen.unmasked_logprob == pytest.approx(row[token], abs=1e-4)


def test_forced_text_changes_no_output(model: MlxModel) -> None:
    for seed in range(3):
        found = {
            completion(model, SCHEMA, max_tokens=60, sampling=multinomial(), forced_text=mode)(PROMPT, seed=seed).bytes
            for mode in ("off", "exact")
        }
        assert len(found) == 1


def test_options_and_beams_are_scored_as_the_model_would(loaded: tuple[Any, Any], model: MlxModel) -> None:
    prompt, options = model.encode(PROMPT), [f"{name} {word}" for name in ("Ivo", "Ann") for word in ("is", "was", "a")]
    for score in choose(model, PROMPT, options):
        ids = [*prompt, *score.tokens]
        expected = sum(logprobs_of(loaded, ids)[at - 1, ids[at]] for at in range(len(prompt), len(ids)))
        assert score.logprob == pytest.approx(expected, abs=1e-3)
    beams = beam_search(model, PROMPT, formats.choice(options), width=6, max_tokens=20)
    assert sorted(beam.text for beam in beams) == sorted(options)


def test_what_is_refused(loaded: tuple[Any, Any], model: MlxModel) -> None:
    arguments = {"model_type": "gemma3_text", "hidden_size": 8, "num_hidden_layers": 6, "intermediate_size": 8,
                 "num_attention_heads": 1, "head_dim": 8, "rms_norm_eps": 1e-6, "vocab_size": 448}  # fmt: skip
    forgets = gemma3_text.Model(gemma3_text.ModelArgs.from_dict(arguments))
    with pytest.raises(UnsupportedEngineVersion, match="RotatingKVCache"):
        mlx_model(forgets, loaded[1])
    assert raw_errors([Call("mlx_model", mlx_model, lambda: loaded)], 80, seed=1) == []
    for prompts in ([], [[]], [[1], []]):
        with pytest.raises(InvalidArgument, match="at least one token"):
            model.start(prompts)
    with pytest.raises(InvalidArgument, match="select one row"):
        model.start([[1], [2]]).forward_tree([1], [-1])
