"""The small trained model of the examples: right answers stay right, and no sample ever leaves its format."""

from __future__ import annotations

import importlib
import json
import random
import re
import runpy
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.generation", reason="needs transformers")

from formatter_core import formats  # noqa: E402
from formatter_core.generation import (  # noqa: E402
    Particles,
    ScoreSettings,
    choose,
    completion,
    multinomial,
    shares,
)
from formatter_transformers import create_logits_processor, transformers_model  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OFF_THE_BEATEN_TRACK = "Dr. Grace Hopper (85) was an admiral in Arlington.\n"


@pytest.fixture(scope="module")
def quickstart():
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("quickstart")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def writer(quickstart):
    return quickstart.Writer(str(EXAMPLES / "tiny_model"), temperature=1.5)


def is_person(text: str) -> bool:
    value = json.loads(text)
    types = {key: type(item) for key, item in value.items()}
    return list(types) == ["name", "age", "city", "job"] and value["age"] == int(value["age"])


def is_card(text: str) -> bool:
    found = re.fullmatch(r"[^\W\d_][\w .]{0,30} \(([0-9]+)\), [a-z]{1,20} from [\w ]+", text)
    return found is not None and int(found[1]) <= 150


def is_option(text: str) -> bool:
    return text in ("admiral", "doctor", "engineer", "pilot", "teacher")


@pytest.mark.parametrize(("task", "judge"), list(enumerate([is_person, is_card, is_option])))
def test_two_hundred_samples_of_each_format(quickstart, writer, task, judge) -> None:
    """Hot samples of a sentence unlike those of the training. A string without a bound may be cut by the length."""
    _, cue, wanted = quickstart.TASKS[task]
    cut = 0
    for seed in range(2):
        for result in writer.constrained(OFF_THE_BEATEN_TRACK + cue, seed, wanted, count=100):
            if result.ended == "length" and task == 0:
                cut += 1
                continue
            assert result.ended == "end"
            assert result.is_complete
            assert judge(result.text), result.text
    assert cut <= 20


def test_right_answers_stay_right(quickstart, writer) -> None:
    """Constrained, greedily: the values are those of the sentences, in a batch of left-padded prompts."""
    training = importlib.import_module("train_tiny_model")
    rng = random.Random(11)
    people = [training.person(rng) for _ in range(24)]
    prompts = [f"{training.sentence(who, rng)}\n" for who in people]
    processor = create_logits_processor(writer.tokenizer, quickstart.Person, model=writer.model)
    inputs = writer.tokenizer(prompts, return_tensors="pt", padding=True)
    output = writer.model.generate(**inputs, max_new_tokens=120, logits_processor=[processor])
    answers = [asdict(result.value) for result in processor.results(output)]
    assert sum(answer == asdict(who) for answer, who in zip(answers, people, strict=True)) >= 20


def test_the_quickstart_prints_its_table(quickstart, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["quickstart.py", "--seeds", "5"])
    quickstart.main()
    printed = capsys.readouterr().out
    assert "Person(name='Ivo', age=41, city='Delhi', job='pilot')" in printed  # the answer that it knows
    assert printed.count("Person(name=") == 2
    assert printed.count("100.0%") >= 3


GALLERY = {
    "typed_data": "Person(name='Zoë', age=29, city='Kraków', job='nurse')",
    "classification": "\n  pilot\n",
    "tool_calls": "a nurse from Kraków",
    "reasoning_first": "answer     Person(name='Ivo', age=41, city='Delhi', job='pilot')",
    "streaming_form": "age   41  (int)",
}


@pytest.mark.parametrize("name", GALLERY)
def test_the_gallery_runs_without_a_network(name: str, capsys) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert GALLERY[name] in capsys.readouterr().out


# --- faithful samples --------------------------------------------------------------------------------------------

PARIS = "Ivo is 41 years old, lives in Paris and works as a pilot.\ncard: Ivo (41), pilot from "
CITIES = ["Parma", "Oslo", "Lagos"]


@pytest.fixture(scope="module")
def model():
    return transformers_model(str(EXAMPLES / "tiny_model"))


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("method", [{"faithful": True}, {"particles": Particles(resample_below=0)}], ids=str)
def test_what_the_model_would_not_write_is_not_drawn(model, method, batch) -> None:
    """Under the mask it often begins with P, and then has to write Parma."""
    if "particles" in method and batch < 64:
        pytest.skip("particles are computed together")
    expected = {score.text: score.probability for score in choose(model, PARIS, CITIES, with_end=True)}
    found = shares(completion(model, CITIES, sampling=multinomial(), batch=batch, **method)(PARIS, samples=64, seed=1))
    masked = shares(completion(model, CITIES, sampling=multinomial(), batch=batch)(PARIS, samples=64, seed=1))
    assert sum(abs(found.get(city, 0) - expected[city]) for city in CITIES) / 2 < 0.15
    assert found.get("Parma", 0) < 1e-6
    assert masked["Parma"] > 0.1


def test_faithful_drafts_share_a_batch_and_take_back_tokens(model) -> None:
    """Hot drafts of a sentence unlike those of the training, whose log-probabilities the model gives again."""
    format = formats.regex(r"[A-Za-z. ]{1,30} \([0-9]{1,3}\), [a-z]{1,12} from [A-Za-z ]{1,20}")
    prompt = OFF_THE_BEATEN_TRACK + "card: "
    draw = completion(model, format, sampling=multinomial(1.5), faithful=True, max_tokens=60)
    for output in draw(prompt, samples=8, seed=1):
        whole = model.score_prompt([*output.prompt, *output.tokens], ScoreSettings(logprob=True))
        scores = [one.unmasked_logprob for one in whole[len(output.prompt) :]]
        assert output.unmasked_logprobs == pytest.approx(scores, abs=0.1)  # the weights are float16
        assert output.value


def test_particles_of_one_prompt_are_copied_with_their_keys_and_values(model) -> None:
    format = formats.regex(r"[A-Z][a-z]{1,8} [A-Z][a-z]{1,8} \(8[0-9]\), [a-z]{1,8} from [A-Z][a-z]{1,10}")
    draw = completion(model, format, sampling=multinomial(), particles=Particles(resample_below=1))
    for output in draw(OFF_THE_BEATEN_TRACK + "card: ", samples=6, seed=1):
        whole = model.score_prompt([*output.prompt, *output.tokens], ScoreSettings(logprob=True))
        scores = [one.unmasked_logprob for one in whole[len(output.prompt) :]]
        assert output.unmasked_logprobs == pytest.approx(scores, abs=0.1)  # the weights are float16
