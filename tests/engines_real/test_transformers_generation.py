"""completion and continuation on models of transformers: three architectures, made on the spot, beside `generate`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

from formatter_core import FormatterBuilder, Limits, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    FormatterError,
    InvalidArgument,
    InvalidVocabulary,
    LimitExceeded,
    UnsupportedEngineVersion,
)
from formatter_core.generation import (  # noqa: E402
    LogitsModel,
    SamplingRows,
    ScoreSettings,
    completion,
    continuation,
    multinomial,
)
from formatter_transformers import TransformersModel, transformers_model  # noqa: E402
from tests.engines_real.transformers_models import TAIL, metaspace_tokenizer, random_model, trained_tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = ["abc def gab", "hi", "a much longer prompt: abc bed head " * 3]
LONG = "the cab is bad and the jade is a fade " * 6
WARM = multinomial(temperature=1.0)
ALL_LOGPROBS = ScoreSettings(logprob=True)


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer()


@pytest.fixture(scope="module", params=["llama", "gpt2", "qwen"])
def torch_model(request, tokenizer):
    return random_model(request.param, tokenizer)


@pytest.fixture
def model(torch_model, tokenizer) -> TransformersModel:
    return transformers_model(torch_model, tokenizer=tokenizer)


@pytest.fixture
def uncached(torch_model, tokenizer) -> TransformersModel:
    return transformers_model(torch_model, tokenizer=tokenizer, cache_bytes=0)


@pytest.fixture
def shapes(torch_model) -> Iterator[list[tuple[int, int]]]:
    """(rows, columns) of every forward pass."""
    seen: list[tuple[int, int]] = []
    hook = torch_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    yield seen
    hook.remove()


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    b.append(
        '{"name": "', b.regex("[a-z]{1,12}", name="name"), '", "age": ', b.integer(name="age", minimum=0, maximum=150)
    )
    return b.append(', "and some text that is always the same": true}')


def generated(torch_model, tokenizer, prompt: str, **options) -> list[int]:
    inputs = tokenizer(prompt, return_tensors="pt")
    output = torch_model.generate(**inputs, do_sample=False, **options)
    return output[0, inputs["input_ids"].shape[1] :].tolist()


def logprobs_of(torch_model, output) -> list[float]:
    """Compute the log-probabilities of an output's tokens by one forward pass of the model itself."""
    ids = torch.tensor([output.prompt + output.tokens])
    with torch.no_grad():
        logprobs = torch.log_softmax(torch_model(ids).logits[0].float(), -1)
    places = range(len(output.prompt) - 1, ids.shape[1] - 1)
    return [float(logprobs[place, token]) for place, token in zip(places, output.tokens, strict=True)]


# --- the same as generate ------------------------------------------------------------------------------------------


def test_greedy_outputs_are_those_of_generate_token_for_token(model, torch_model, tokenizer) -> None:
    outputs = continuation(model, max_tokens=60)(PROMPTS, samples=2)
    for prompt, samples in zip(PROMPTS, outputs, strict=True):
        expected = generated(torch_model, tokenizer, prompt, max_new_tokens=60)
        assert [list(sample.tokens) for sample in samples] == [expected] * 2
    suppressed = continuation(model, max_tokens=60, ignore_eos=True)(PROMPTS)
    for prompt, output in zip(PROMPTS, suppressed, strict=True):
        expected = generated(torch_model, tokenizer, prompt, max_new_tokens=60, min_new_tokens=60)
        assert list(output.tokens) == expected


def test_log_probabilities_are_those_of_the_model(model, torch_model) -> None:
    output = completion(model, card(), sampling=WARM, scores=ALL_LOGPROBS)(PROMPTS[0], seed=1)
    assert output.unmasked_logprobs == pytest.approx(logprobs_of(torch_model, output), abs=2e-3)


def test_it_is_a_model_with_logits(model, torch_model, tokenizer) -> None:
    assert isinstance(model, LogitsModel)
    assert model.max_length == 1024
    assert len(model.vocabulary) == len(tokenizer) + TAIL
    assert set(model.vocabulary.end_ids) == set(torch_model.generation_config.eos_token_id)


# --- one prefill a prompt ------------------------------------------------------------------------------------------


def test_samples_fan_out_from_one_prefill(uncached, shapes) -> None:
    continuation(uncached, max_tokens=5, ignore_eos=True, sampling=WARM)(LONG, samples=8)
    prefill, *steps = shapes
    assert prefill == (1, len(uncached.encode(LONG)))
    assert [rows * columns for rows, columns in steps] == [8] * 4


def test_samples_go_on_alone_once_most_columns_are_their_own(uncached, torch_model) -> None:
    outputs = continuation(uncached, max_tokens=80, ignore_eos=True, sampling=WARM, scores=ALL_LOGPROBS)(
        LONG, samples=6, seed=1
    )
    for output in outputs:
        assert output.unmasked_logprobs == pytest.approx(logprobs_of(torch_model, output), abs=2e-3)


def test_what_samples_write_is_what_they_would_write_alone(uncached) -> None:
    write = completion(uncached, card(), sampling=WARM)
    together = write(PROMPTS, samples=4, seed=3)
    for prompt, samples in zip(PROMPTS, together, strict=True):
        assert [sample.tokens for sample in write(prompt, samples=4, seed=3)] == [sample.tokens for sample in samples]
        assert all(json.loads(sample.text)["name"] == sample.value["name"] for sample in samples)
    assert len({sample.text for samples in together for sample in samples}) > 6


def test_the_prefix_cache_changes_nothing_but_what_is_computed(model, uncached, shapes) -> None:
    write, write_uncached = (completion(one, card(), sampling=WARM) for one in (model, uncached))
    prompts = [LONG + ending for ending in ("one", "two", "three")]
    expected = [output.tokens for output in write_uncached(prompts, seed=1)]
    shapes.clear()
    assert [output.tokens for output in write(prompts, seed=1)] == expected
    # The common beginning was computed once, alone, then the endings.
    assert shapes[0][0] == 1
    assert shapes[1][0] == 3
    assert shapes[1][1] < 10
    shapes.clear()
    assert [output.tokens for output in write(prompts, seed=1)] == expected
    assert shapes[0] == (3, 1)


def test_an_output_goes_on_with_its_keys_and_values(model, torch_model, tokenizer, shapes) -> None:
    write = continuation(model, max_tokens=20, ignore_eos=True)
    first = write(LONG)
    shapes.clear()
    second = write(first)
    assert shapes[0][0] == 1
    assert shapes[0][1] <= 2
    assert list(first.tokens + second.tokens) == generated(
        torch_model, tokenizer, LONG, max_new_tokens=40, min_new_tokens=40
    )
    shapes.clear()
    third = write(second + " and then ")
    assert third.prompt[: len(second.prompt + second.tokens)] == second.prompt + second.tokens
    assert shapes[0][1] < 12
    assert list(third.tokens) == expected_after(torch_model, third.prompt, 20)


def expected_after(torch_model, prompt: tuple[int, ...], count: int) -> list[int]:
    ids = torch.tensor([prompt])
    output = torch_model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, min_new_tokens=count
    )
    return output[0, len(prompt) :].tolist()


def test_the_prefix_cache_keeps_within_its_bytes(torch_model, tokenizer) -> None:
    model = transformers_model(torch_model, tokenizer=tokenizer, cache_bytes=400_000)
    write = continuation(model, max_tokens=30, ignore_eos=True, sampling=WARM)
    for number in range(12):
        write(f"{number} {LONG}", samples=3)
        assert 0 < model.prefix_cache.bytes <= 400_000
    model.prefix_cache.clear()
    assert model.prefix_cache.bytes == 0
    assert model.prefix_cache.covered(model.encode(LONG)) == 0


def test_a_prefix_cache_splits_and_forgets_the_oldest(torch_model, tokenizer) -> None:
    model = transformers_model(torch_model, tokenizer=tokenizer)
    cache = model.prefix_cache
    first, second = [*range(10, 60)], [*range(10, 40), 5, 6]
    model.start([first])
    one_token = cache.bytes // 50
    model.start([second])
    assert cache.bytes == 52 * one_token
    assert cache.covered([*first, 1]) == 50
    assert cache.covered(second) == 32
    assert cache.covered([9]) == 0
    batch = model.start([first, second])
    assert [len(tokens) for tokens in batch.tokens] == [50, 32]
    model.start([second])
    cache.limit = 40 * one_token
    model.start([second])
    assert cache.covered(second) == 32
    assert cache.covered(first) == 30


def test_a_cache_of_ones_own_as_the_start(model, torch_model, shapes) -> None:
    ids = model.encode(LONG)
    with torch.no_grad():
        past = torch_model(input_ids=torch.tensor([ids[:-3]]), use_cache=True).past_key_values
    model.prefix_cache.add_cache(ids[:-3], past)
    shapes.clear()
    batch = model.start([ids])
    assert shapes == [(1, 3)]
    with torch.no_grad():
        expected = torch_model(input_ids=torch.tensor([ids])).logits[0, -1]
    assert torch.allclose(batch.logits[0], expected, atol=1e-3)
    with pytest.raises(InvalidArgument, match="tokens"):
        model.prefix_cache.add_cache(ids, past)


def made_up_cache(torch_model, ids):
    """Make keys and values that the model would not compute from these ids."""
    with torch.no_grad():
        return torch_model(input_ids=torch.tensor([[token % 97 + 5 for token in ids]]), use_cache=True).past_key_values


def test_a_pinned_cache_outlasts_everything_that_is_written(torch_model, tokenizer) -> None:
    model = transformers_model(torch_model, tokenizer=tokenizer, cache_bytes=300_000)
    write = continuation(model, max_tokens=12, ignore_eos=True)
    prompt, head = LONG, model.encode(LONG)[:40]
    without = write(prompt).tokens
    model.prefix_cache.add_cache(head, made_up_cache(torch_model, head), pin=True)
    expected = write(prompt).tokens
    assert expected != without
    random = Random(0)
    for number in range(25):
        write(f"{number} {LONG * random.randint(1, 3)}", samples=random.randint(1, 3))
        model.prefix_cache.limit = random.choice([0, 1000, 300_000])
        assert model.prefix_cache.covered(head) == len(head)
        assert write(prompt).tokens == expected
    with pytest.raises(InvalidArgument, match="unpin it first"):
        model.prefix_cache.add_cache(head[:20], made_up_cache(torch_model, [*range(20)]), pin=True)
    with pytest.raises(InvalidArgument, match="no pinned sequence"):
        model.prefix_cache.unpin(head[:20])
    longer = [*head[:7], *range(20, 30)]
    model.prefix_cache.add_cache(longer, longer_cache := made_up_cache(torch_model, longer), pin=True)
    model.prefix_cache.add_cache(longer, longer_cache, pin=True)
    assert write(prompt).tokens == expected
    model.prefix_cache.unpin(longer)
    assert model.prefix_cache.covered(longer) == 7
    assert write(prompt).tokens == expected
    model.prefix_cache.limit = 0
    model.prefix_cache.unpin(head)
    assert model.prefix_cache.covered(head) == 0
    assert model.prefix_cache.bytes == 0
    assert write(prompt).tokens == without


# --- what the model's own configuration asks for -------------------------------------------------------------------


def test_the_generation_config_is_followed_and_its_differences_are_said(tokenizer, caplog) -> None:
    torch_model = random_model("llama", tokenizer)
    model = transformers_model(torch_model, tokenizer=tokenizer)
    assert model.sampling == multinomial(0)
    assert not caplog.records
    torch_model.generation_config.do_sample = True
    torch_model.generation_config.temperature = 0.7
    torch_model.generation_config.top_p = 0.9
    torch_model.generation_config.repetition_penalty = 1.3
    model = transformers_model(torch_model, tokenizer=tokenizer)
    assert "repetition_penalty=1.3" in caplog.text
    assert model.sampling == multinomial(0.7, top_k=50, top_p=0.9)
    of_config = continuation(model, max_tokens=20)(PROMPTS, seed=1)
    explicit = continuation(model, max_tokens=20, sampling=multinomial(0.7, top_k=50, top_p=0.9))(PROMPTS, seed=1)
    assert [one.tokens for one in of_config] == [one.tokens for one in explicit]
    best = continuation(model, max_tokens=20, sampling=multinomial(0))(PROMPTS)
    assert [one.tokens for one in of_config] != [one.tokens for one in best]


# --- every prompt in its own way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_formats_sampling_and_lists_differ_from_prompt_to_prompt(uncached, seed) -> None:
    random = Random(seed)
    own = [(random.choice([None, *FORMATS]), random.choice(SAMPLERS), random.choice([0, 0, 1, 5, 20])) for _ in PROMPTS]
    columns = [list(column) for column in zip(*own, strict=True)]
    named = dict(zip(("formats", "sampling", "top_logprobs"), columns, strict=True))
    together = completion(uncached, max_tokens=15, fit=False)(PROMPTS, samples=2, seed=seed, **named)
    for prompt, (format, how, top), samples in zip(PROMPTS, own, together, strict=True):
        write = completion(uncached, format, max_tokens=15, fit=False, sampling=how, top_logprobs=top)
        for alone, output in zip(write(prompt, samples=2, seed=seed), samples, strict=True):
            assert alone.tokens == output.tokens
            assert alone.logprobs == pytest.approx(output.logprobs, abs=1e-3)
            assert alone.passes_saved == output.passes_saved
            for one, other in zip(alone.chosen, output.chosen, strict=True):
                assert [score.token_id for score in one.top] == [score.token_id for score in other.top]


def test_a_longer_list_needs_a_higher_limit(uncached) -> None:
    with pytest.raises(LimitExceeded, match=r"Limits\.max_top_n = 64"):
        ScoreSettings(top=65)
    scores = ScoreSettings(top=200, logprob=True, limits=Limits(max_top_n=300))
    (token,) = continuation(uncached, max_tokens=1, scores=scores)(PROMPTS[0]).chosen
    assert 200 <= len(token.top) <= 300
    assert [score.rank for score in token.top] == sorted(score.rank for score in token.top)


def test_what_the_tokenizer_returns_is_a_prompt(uncached, tokenizer) -> None:
    write = continuation(uncached, max_tokens=5)
    expected = write(PROMPTS)
    padded = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    assert [one.tokens for one in write(padded)] == [one.tokens for one in expected]
    assert [one.tokens for one in write(tokenizer(PROMPTS))] == [one.tokens for one in expected]
    assert write(tokenizer(PROMPTS[0])).tokens == expected[0].tokens
    (only,) = write(tokenizer(PROMPTS[0], return_tensors="pt").input_ids)
    assert only.tokens == expected[0].tokens
    assert write([torch.tensor(uncached.encode(prompt)) for prompt in PROMPTS]) == expected


# --- batches of one's own ------------------------------------------------------------------------------------------


def test_rows_of_any_length_fork_grow_and_shrink(model, torch_model) -> None:
    def check(batch) -> None:
        for tokens, logits in zip(batch.tokens, batch.logits, strict=True):
            with torch.no_grad():
                expected = torch_model(torch.tensor([tokens])).logits[0, -1]
            assert torch.allclose(logits, expected, atol=1e-3)

    batch = model.start([[*range(5, 35)], [7, 8], [40, 41, 42, 43, 44]], room=9)
    check(batch)
    batch.select([0, 1, 2, 2, 0])
    batch.forward([[5], [6, 7, 8], [9], [10, 11], []])
    check(batch)
    scores = batch.forward_scored([[50, 51], [], [52], [53], [54, 55, 56]])
    assert scores.shape == (5, 3)
    check(batch)
    tokens = [list(row) for row in batch.tokens]
    batch.crop([len(row) - number % 3 for number, row in enumerate(tokens)])
    with pytest.raises(InvalidArgument, match="dropped"):
        batch.logits  # noqa: B018
    batch.forward([[number] for number in range(5)])
    check(batch)
    for _ in range(70):  # so many unused columns that the batch is packed anew
        batch.forward([[3], [3, 4, 5], [], [6], [7]])
    check(batch)
    batch.select([1])
    for nodes, parents in (([5, 6, 7, 8], [-1, 0, 0, 2]), ([9], [-1])):
        logits = batch.forward_tree(nodes, parents)
        for node in range(len(nodes)):
            path, at = [], node
            while at >= 0:
                path.insert(0, nodes[at])
                at = parents[at]
            with torch.no_grad():
                expected = torch_model(torch.tensor([[*batch.tokens[0], *path]])).logits[0, -1]
            assert torch.allclose(logits[node], expected, atol=1e-3)
    check(batch)


@pytest.mark.parametrize("name", ["Mistral", "Qwen2", "Gemma3Text"])
def test_a_window_sees_no_unused_columns(name, tokenizer) -> None:
    config = getattr(transformers, f"{name}Config", None)
    if config is None:
        pytest.skip(f"this transformers has no {name}")
    sizes = {
        "vocab_size": 564,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
        "sliding_window": 6,
    }
    extra = {"Qwen2": {"use_sliding_window": True, "max_window_layers": 1}, "Gemma3Text": {"head_dim": 16}}
    torch.manual_seed(0)
    made = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(
        config(**sizes, **extra.get(name, {}))
    ).eval()
    made.generation_config.eos_token_id = 0
    try:
        model = transformers_model(made, tokenizer=tokenizer)
    except UnsupportedEngineVersion:
        assert config().cache_implementation == "hybrid"
        pytest.skip(f"this transformers runs {name} with a cache of its own kind only")
    for _ in range(2):  # the second time from the prefix cache
        batch = model.start([[*range(10, 30)], [7, 8, 9], [*range(10, 20)]])
        batch.forward([[5], [5, 6, 7], []])
        batch.select([0, 1, 1, 2])
        batch.forward([[5], [*range(40, 49)], [5], [3]])
        for tokens, logits in zip(batch.tokens, batch.logits, strict=True):
            with torch.no_grad():
                expected = made(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            assert torch.allclose(logits, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Mamba", {"state_size": 4}),
        (
            "Lfm2",
            {"intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["conv"]},
        ),
    ],
)
def test_models_that_keep_something_else_are_refused(name, sizes, tokenizer) -> None:
    config = getattr(transformers, f"{name}Config", None)
    if config is None:
        pytest.skip(f"this transformers has no {name}")
    made = getattr(transformers, f"{name}ForCausalLM")(
        config(vocab_size=564, hidden_size=16, num_hidden_layers=1, **sizes)
    )
    with pytest.raises(UnsupportedEngineVersion, match="keys and values"):
        transformers_model(made, tokenizer=tokenizer)


@pytest.mark.parametrize("name", ["Bart", "Roberta", "BertGeneration"])
def test_models_that_cannot_be_told_where_a_token_stands_are_refused(name, tokenizer) -> None:
    sizes = {"d_model": 16, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "pad_token_id": 2}
    config = getattr(transformers, f"{name}Config")(vocab_size=564, decoder_layers=1, **sizes)
    decoder = "BertGenerationDecoder" if name == "BertGeneration" else f"{name}ForCausalLM"
    made = getattr(transformers, decoder)(config)
    with pytest.raises(UnsupportedEngineVersion, match="positions"):
        transformers_model(made, tokenizer=tokenizer)


def test_a_model_in_bfloat16_keeps_its_format(torch_model, tokenizer) -> None:
    half = type(torch_model)(torch_model.config).to(torch.bfloat16)
    half.generation_config = torch_model.generation_config
    model = transformers_model(half.eval(), tokenizer=tokenizer)
    for output in completion(model, card(), sampling=WARM)(PROMPTS[0], samples=3, seed=1):
        assert output.result.is_complete


# --- one small copy a step -----------------------------------------------------------------------------------------


@pytest.fixture
def host_copies(monkeypatch) -> list[str]:
    """Count the ways in which our code brings values of a tensor to the host; results of `cpu` are there already."""
    copies: list[str] = []
    on_host: set[int] = set()
    kept = []

    def watch(name: str) -> None:
        real = getattr(torch.Tensor, name)

        def watched(self, *args, **kwargs):
            caller = sys._getframe(1).f_code.co_filename
            if ("formatter_transformers" in caller or "formatter_core" in caller) and id(self) not in on_host:
                copies.append(name)
            result = real(self, *args, **kwargs)
            if name == "cpu":
                kept.append(result)
                on_host.add(id(result))
            return result

        monkeypatch.setattr(torch.Tensor, name, watched)

    for name in ("cpu", "numpy", "tolist", "item", "__bool__", "__int__", "__float__", "__index__", "__iter__"):
        watch(name)
    return copies


@pytest.mark.parametrize("format", [None, formats.regex("[a-z ]{40,60}")], ids=["free", "format"])
@pytest.mark.parametrize("sampler", [multinomial(0), WARM, multinomial(top_k=5, top_p=0.9, typical_p=0.9)], ids=str)
def test_a_step_copies_ids_to_the_host_once(uncached, host_copies, sampler, format) -> None:
    options: Any = {"max_tokens": 12, "fit": False, "forced_text": "off", "scores": ALL_LOGPROBS}
    write = completion(uncached, format, sampling=sampler, **options)
    outputs = write(PROMPTS, samples=3, seed=1)
    steps = max(len(output.tokens) for samples in outputs for output in samples)
    assert host_copies == ["cpu"] * steps


# --- forced text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [ScoreSettings(), ALL_LOGPROBS])
def test_forced_text_is_exact_and_goes_through_at_once(uncached, scores) -> None:
    passes, outputs = {}, {}
    for mode in ("off", "exact", "canonical"):
        before = uncached.passes
        write = completion(uncached, card(), sampling=WARM, forced_text=mode, scores=scores)
        outputs[mode] = write(PROMPTS[0], samples=4, seed=5)
        passes[mode] = uncached.passes - before
    for off, exact in zip(outputs["off"], outputs["exact"], strict=True):
        assert off.tokens == exact.tokens
        assert off.unmasked_logprobs == pytest.approx(exact.unmasked_logprobs, abs=2e-3)
        assert exact.passes_saved > 10 > off.passes_saved == 0
    assert passes["exact"] < passes["off"] - 10
    assert passes["canonical"] < passes["off"] - 10
    fixed = ', "and some text that is always the same": true}'
    for output in outputs["canonical"]:
        assert output.result.is_complete
        spelt = uncached.encode_continuation(fixed.encode())
        assert list(output.tokens[-len(spelt) :][:-1]) == spelt[1:]


FORMATS = [
    formats.regex('("[a-z]{1,5}"|none), [0-9]{1,3}---------(x|yy)'),
    formats.json_schema({"properties": {"some_name": {"maximum": 99, "type": "integer"}}, "required": ["some_name"],
                         "type": "object", "additionalProperties": False}),
    formats.choice(["admiral", "admirable", "adm", "été 日本"]),
    formats.regex("(日本|été){1,3}😀?"),
]  # fmt: skip
SAMPLERS = [multinomial(0), WARM, multinomial(1.5, top_k=20), multinomial(top_p=0.9, typical_p=0.9)]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_asked_the_ways_to_compute_it_agree(model, uncached, seed) -> None:
    random = Random(seed)
    format, sampler = FORMATS[seed % 4], random.choice(SAMPLERS)
    prompts = ["".join(random.choices("abc def\n日", k=random.randint(1, 60))) for _ in range(random.randint(1, 4))]
    most, samples = random.choice([5, 20, 300]), random.randint(2, 4)
    outputs = {}
    for one, mode in ((uncached, "off"), (model, "exact"), (model, "canonical"), (model, "off")):
        batch = random.choice([2, 5, 64])
        options: Any = {"max_tokens": most, "fit": most > 20, "forced_text": mode, "scores": ALL_LOGPROBS}
        write = completion(one, format, sampling=sampler, batch=batch, **options)
        outputs[one is model, mode] = [one for row in write(prompts, samples=samples, seed=seed) for one in row]
    for off, exact, canonical, cached in zip(*outputs.values(), strict=True):
        assert off.tokens == exact.tokens == cached.tokens
        assert off.unmasked_logprobs == pytest.approx(exact.unmasked_logprobs, abs=5e-3)
        for output in (off, exact, canonical):
            assert output.error is None
            assert len(output.logprobs) == len(output.unmasked_logprobs) == len(output.tokens)
            if output.stopped == "end":
                assert output.result.is_complete
            else:
                assert (output.stopped, len(output.tokens)) == ("length", most)


def test_a_metaspace_tokenizer_spells_continuations() -> None:
    tokenizer = metaspace_tokenizer()
    model = transformers_model(random_model("llama", tokenizer), tokenizer=tokenizer)
    for text in ("cab", " cab", "é", "a bad head", "\n\n x"):
        tokens = model.encode_continuation(text.encode())
        assert b"".join(model.vocabulary.text_token(token) or b"" for token in tokens) == text.encode()
    assert model.encode_continuation(b"\xc3") is None
    for mode in ("exact", "canonical", "off"):
        output = completion(model, formats.regex("the cab is (bad|a jade)"), forced_text=mode)("a head")
        assert output.text in ("the cab is bad", "the cab is a jade")


# --- errors --------------------------------------------------------------------------------------------------------


def by_torch(logits: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    """Refuse rows that are no distribution."""
    generator = torch.Generator().manual_seed(len(rows.tokens[0]))
    return torch.multinomial(torch.softmax(logits, dim=-1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("sampler", [WARM, by_torch])
def test_logits_that_are_not_numbers_end_that_sequence_alone(uncached, torch_model, sampler) -> None:
    calls = []

    def spoil(module, args, output):
        calls.append(1)
        if len(calls) == 4:
            output = output.clone()
            output.flatten(0, 1)[1] = torch.nan
        return output

    write = completion(uncached, card(), sampling=sampler, forced_text="off")
    expected = write(PROMPTS[0], samples=3, seed=1)
    hook = torch_model.get_output_embeddings().register_forward_hook(spoil)
    try:
        outputs = write(PROMPTS[0], samples=3, seed=1)
    finally:
        hook.remove()
    assert [output.stopped for output in outputs] == ["end", "error", "end"]
    assert outputs[1].tokens == expected[1].tokens[:3]
    if sampler is WARM:  # the other one draws for a batch, not for a sequence
        assert outputs[0].tokens == expected[0].tokens
        assert outputs[2].tokens == expected[2].tokens
    with pytest.raises(FormatterError, match="not numbers"):
        outputs[1].value  # noqa: B018


def test_a_sampler_of_ones_own_in_torch(uncached) -> None:
    def worst(logits: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
        return torch.where(torch.isfinite(logits), logits, torch.inf).argmin(dim=-1)

    outputs = completion(uncached, formats.regex("[ab]{1,4}"), sampling=worst)(PROMPTS)
    assert all(output.result.is_complete for output in outputs)


@pytest.mark.parametrize("given", [None, "x", [1, 2, 3], [[1, 2]], [0.5, 1.5]], ids=repr)
def test_a_sampler_gives_a_token_for_each_row(uncached, given) -> None:
    with pytest.raises(InvalidArgument, match="the sampler gave"):
        continuation(uncached, sampling=lambda logits, rows: given)(PROMPTS[:2])


@pytest.mark.parametrize("wrong", [-1, 2**40])
def test_a_token_that_is_none_ends_its_output_alone(uncached, wrong) -> None:
    write = continuation(uncached, max_tokens=1, sampling=lambda logits, rows: [5, wrong])
    assert [output.stopped for output in write(PROMPTS[:2])] == ["length", "error"]


# --- from a folder -------------------------------------------------------------------------------------------------


def test_a_model_by_its_name() -> None:
    folder = ROOT / "examples" / "tiny_model"
    model = transformers_model(str(folder), device="cpu", dtype=torch.float64)
    assert model.model.dtype == torch.float64
    output = completion(model, formats.choice(["admiral", "pilot"]))("Ann is 7 years old and works as a pilot.\njob: ")
    assert output.value == "pilot"
    loaded = transformers_model(model.model)
    assert loaded.tokenizer is not model.tokenizer
    assert loaded.encode("a b") == model.encode("a b")


def test_a_conversation_is_a_prompt(tokenizer) -> None:
    model = transformers_model(random_model("llama", tokenizer), tokenizer=trained_tokenizer())
    model.tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|turn|>{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    conversation = [{"role": "user", "content": "abc"}]
    with_template, model.tokenizer.chat_template = model.tokenizer.chat_template, None
    with pytest.raises(InvalidArgument, match="no chat template"):
        continuation(model)(conversation)
    model.tokenizer.chat_template = with_template
    ids = model.encode_chat(conversation)
    assert ids == model.encode("user: abc<|turn|>assistant: ")
    assert completion(model, formats.choice(["abc", "cab"]))(ids).value in ("abc", "cab")


def test_a_model_without_a_name_needs_a_tokenizer(tokenizer) -> None:
    with pytest.raises(InvalidVocabulary, match="tokenizer="):
        transformers_model(random_model("llama", tokenizer))


def test_sequential_monte_carlo_prints_its_shares(monkeypatch, capsys) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setattr(sys, "argv", ["sequential_monte_carlo.py", "--particles", "8"])
    example = importlib.import_module("sequential_monte_carlo")
    example.main()
    lines = capsys.readouterr().out.strip().splitlines()
    compiled = transformers_model(str(ROOT / "examples" / "tiny_model")).compiler.compile(example.FORMAT)
    assert lines
    assert all(compiled.parse(line.split("%  ")[1]).is_complete for line in lines)
    assert len((ROOT / "examples" / "sequential_monte_carlo.py").read_text().splitlines()) < 80


def test_the_benchmark_runs(capsys, tmp_path) -> None:
    from benchmarks import generation, harness

    threads = torch.get_num_threads()
    try:
        harness.main(generation, ["--smoke", "--devices", "cpu", "--output", str(tmp_path / "found")])
    finally:
        torch.set_num_threads(threads)
    found = json.loads((tmp_path / "found.json").read_text())["devices"]["cpu"]
    assert set(found) == {"fan-out", "short prompt", "format"}
    assert "of a free step" in capsys.readouterr().out
