"""Measure what a mask does to a model, and what faithful samples and particles cost.

    python3.11 dev.py bench faithful --plot docs/images/faithful.png

- *one case*: three options, one of them all but impossible for the model, drawn under the mask, faithfully and by
  particles; by the small trained model of the examples.
- *other methods*: expected drafts of plain rejection, and how far ASAp (Park et al. 2024, "Grammar-Aligned Decoding")
  is from the model after as many samples, on formats such as those of its paper, with models of random logits that
  mostly follow them.
- *passes*: of the small trained model for each sample, under the mask and faithfully.

`tests/core/test_faithful.py` and `test_particles.py` compare the samples with enumerated distributions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.harness import bars, markdown
from formatter_core import formats
from formatter_core.generation import (
    Faithful,
    LogitsWriter,
    Particles,
    Sampling,
    ScoreSettings,
    choose,
    completion,
    multinomial,
    shares,
)
from formatter_transformers import transformers_model
from tests.core.enumeration import asap, outputs_of, total_variation
from tests.core.tiny_logits_model import TinyModel, by_tokens, following

__all__ = ["OPTIONS", "SMOKE", "measure", "plot", "show"]

OPTIONS: dict[str, dict[str, Any]] = {
    "--draws": {"type": int, "default": 2000},
    "--parts": {"nargs": "+", "help": "measure only these; the others are taken from the file that is there"},
}
SMOKE = {"draws": 40}

WARM = multinomial()
SEED = 1

SENTENCES = {
    "trained on": "Ivo is 41 years old, lives in Paris and works as a pilot.\n",
    "unfamiliar": "Dr. Grace Hopper (85) was an admiral in Arlington.\n",
}
CITIES = ["Parma", "Oslo", "Lagos"]
PAPERS = {
    "bits": formats.regex("00000|1[01]{4}"),
    "SQL": formats.regex(r"SELECT [ab](, [ab])? FROM t( WHERE [ab][=<][01])?"),
    "molecules": formats.regex(r"[CNO](=?[CNO]|\(=?[CNO]\)[CNO]){0,2}"),
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    model = transformers_model("examples/tiny_model")
    parts: dict[str, Callable[[], Any]] = {
        "one case": lambda: one_case(model, options.draws),
        "other methods": lambda: other_methods(20 if options.smoke else 1000),
        "passes": lambda: passes(model, options.smoke),
    }
    before = {}
    if options.parts:
        before = json.loads(options.output.with_suffix(".json").read_text(encoding="utf-8"))
    return {
        name: before[name] if options.parts and name not in options.parts else part() for name, part in parts.items()
    }


# --- one case ----------------------------------------------------------------------------------------------------


def one_case(model: Any, draws: int) -> dict[str, Any]:
    prompt = SENTENCES["trained on"] + "card: Ivo (41), pilot from "
    scores = choose(model, prompt, CITIES, with_end=True)
    count = min(draws, 1000)
    found = {"the model, given the format": {score.text: score.probability for score in scores}}
    for name, method in (
        ("under the mask", {}),
        ("faithful", {"faithful": True}),
        ("particles", {"particles": Particles(resample_below=0)}),
    ):
        draw = completion(model, CITIES, sampling=WARM, batch=count, **method)
        found[name] = shares(draw([prompt], samples=count, seed=SEED)[0])
    return {"prompt": prompt, "draws": count, "shares": found}


# --- other methods -----------------------------------------------------------------------------------------------


def other_methods(samples: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, format in PAPERS.items():
        model = TinyModel(following(format, by_tokens(1, 1.0), 6.5))
        expected = outputs_of(model, format, tuple(b"x"), WARM)
        mass = sum(expected.values())
        draw = completion(model, format, sampling=WARM, faithful=True)
        outputs = draw(["x"], samples=samples, seed=SEED)[0]
        masked = completion(model, format, sampling=WARM)(["x"], samples=samples, seed=SEED)[0]
        found[name] = {
            "outputs": len(expected),
            "drafts": {
                "plain rejection": 1 / mass,
                "faithful": sum(output.draws for output in outputs) / samples,
                "faithful, first 10": sum(output.draws for output in outputs[:10]) / 10,
            },
            "distance": {
                "masked": total_variation(expected, tally(masked)),
                "ASAp": total_variation(expected, tally(asap(model, format, tuple(b"x"), samples, SEED))),
                "faithful": total_variation(expected, tally(outputs)),
                "as many exact draws": noise(expected, samples),
            },
        }
    return {"samples": samples, "formats": found}


def tally(outputs: list[Any]) -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for output in outputs:
        tokens = output if isinstance(output, tuple) else output.tokens
        found[tokens] = found.get(tokens, 0) + 1
    return found


def noise(expected: Mapping[tuple[int, ...], float], draws: int) -> float:
    """Compute the distance of as many draws from the distribution itself."""
    weights = np.array([*expected.values()])
    counts = np.random.default_rng(0).multinomial(draws, weights / weights.sum())
    return total_variation(expected, dict(zip(expected, counts.tolist(), strict=True)))


# --- passes ------------------------------------------------------------------------------------------------------


def passes(model: Any, is_smoke: bool) -> dict[str, Any]:
    sys.path.insert(0, "examples")
    tasks = importlib.import_module("quickstart").TASKS

    cases = {
        "person": (tasks[0][1], tasks[0][2]),
        "card": (tasks[1][1], tasks[1][2]),
        "job": (tasks[2][1], tasks[2][2]),
        "card of ASCII letters": (
            "card: ",
            formats.regex(r"[A-Za-z. ]{1,30} \([0-9]{1,3}\), [a-z]{1,12} from [A-Za-z ]{1,20}"),
        ),
        "person of bounded texts": (
            "",
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 12},
                    "age": {"type": "integer", "minimum": 18, "maximum": 99},
                    "city": {"type": "string", "maxLength": 10},
                    "job": {"type": "string", "maxLength": 10},
                },
                "required": ["name", "age", "city", "job"],
                "additionalProperties": False,
            },
        ),
    }
    found: dict[str, Any] = {}
    for sentence in SENTENCES:
        for temperature in (1.0, 1.5):
            for name, (cue, format) in cases.items():
                prompt = SENTENCES[sentence] + cue
                key = f"{name}, {sentence}, temperature {temperature}"
                found[key] = one_passes(model, prompt, format, multinomial(temperature), 2 if is_smoke else 64)
    return found


def one_passes(model: Any, prompt: str, format: Any, sampling: Sampling, samples: int) -> dict[str, Any]:
    scores = ScoreSettings(logprob=True)
    plain = completion(model, format, sampling=sampling, scores=scores, max_tokens=80)
    exact = completion(model, format, sampling=sampling, faithful=Faithful(max_draws=200), max_tokens=80)
    masked = plain([prompt], samples=samples, seed=SEED)[0]
    found: dict[str, Any] = {"masked": sum(output.passes for output in masked) / samples}
    found["log of allowed mass"] = float(np.mean([output.masked_logprob for output in masked]))
    for count in (1, 8, samples):
        outputs = exact([prompt], samples=count, seed=SEED)[0]
        outputs = outputs if isinstance(outputs, list) else [outputs]
        good = [output for output in outputs if output.error is None]
        found[f"faithful, {count}"] = {
            "passes": sum(output.passes for output in outputs) / max(1, len(good)),
            "drafts": sum(output.draws for output in outputs) / count,
            "exact": len(good),
            "bytes": exact.lost_mass.bytes if isinstance(exact, LogitsWriter) else 0,
        }
    return found


# --- showing -----------------------------------------------------------------------------------------------------


def show(found: dict[str, Any]) -> str:
    """Write a table for each part."""
    lines = [
        markdown(
            ["", *CITIES],
            (
                [name, *(f"{100 * share.get(city, 0):.1f} %" for city in CITIES)]
                for name, share in found["one case"]["shares"].items()
            ),
        ),
        "",
        markdown(
            ["", "drafts: rejection", "faithful", "distance: mask", "ASAp", "faithful", "noise"],
            (
                [
                    name,
                    f"{one['drafts']['plain rejection']:.1f}",
                    f"{one['drafts']['faithful']:.2f}",
                    *(f"{value:.3f}" for value in one["distance"].values()),
                ]
                for name, one in found["other methods"]["formats"].items()
            ),
        ),
        "",
        markdown(
            ["passes of a sample", "log of allowed mass", "mask", "faithful: 1 sample", "8", "more"],
            (
                [
                    name,
                    f"{one['log of allowed mass']:.2f}",
                    f"{one['masked']:.1f}",
                    *(passes_of(value) for key, value in one.items() if key.startswith("faithful")),
                ]
                for name, one in found["passes"].items()
            ),
        ),
    ]
    return "\n".join(lines)


def passes_of(one: Mapping[str, Any]) -> str:
    return f"{one['passes']:.1f}" if one["exact"] else "none"


TITLE = "Samples of three cities, by how formatter-core draws them"


def plot(pyplot: Any, found: dict[str, Any]) -> Any:
    """Draw the shares of three options, by how they were drawn."""
    figure, axis = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    bars(axis, found["one case"]["shares"])
    axis.set_ylabel("share of the samples")
    axis.set_title('"… lives in Paris …" card: Ivo (41), pilot from', fontsize=10)
    axis.legend(fontsize=8)
    return figure
