"""Log-probabilities are those of the model's own forward pass, whatever is around the model and however it is used."""

from __future__ import annotations

import importlib.util
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers")

from formatter_core import formats  # noqa: E402
from formatter_core.errors import InvalidArgument, UnsupportedEngineVersion  # noqa: E402
from formatter_core.generation import (  # noqa: E402
    ScoreSettings,
    choose,
    completion,
    continuation,
)
from formatter_transformers import transformers_model  # noqa: E402
from tests.engines_real.transformers_batches import (  # noqa: E402
    FAMILIES,
    WRAPPERS,
    expected_logprobs,
    family_model,
    judge,
    largest_error,
)
from tests.engines_real.transformers_models import random_model, trained_tokenizer  # noqa: E402

TOLERANCE = 1e-4
PROMPTS = ["abc def gab", "hi", "a much longer prompt: abc bed head " * 3]


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer()


@pytest.fixture(scope="module", params=list(WRAPPERS))
def wrapped(request, tokenizer):
    if "peft" in request.param and importlib.util.find_spec("peft") is None:
        pytest.skip("needs peft")
    return WRAPPERS[request.param](random_model("qwen", tokenizer))


def test_random_schedules_have_the_log_probabilities_of_a_forward_pass(wrapped, tokenizer) -> None:
    model = transformers_model(wrapped, tokenizer=tokenizer)
    is_traced = judge(wrapped) is not wrapped  # tracing takes seconds for each new shape
    for seed in range(1 if is_traced else 8):
        assert largest_error(model, judge(wrapped), Random(seed), 2 if is_traced else 8) < TOLERANCE


def test_outputs_in_a_ragged_batch_have_the_log_probabilities_of_a_forward_pass(wrapped, tokenizer) -> None:
    model = transformers_model(wrapped, tokenizer=tokenizer)
    scores = ScoreSettings(logprob=True)
    free = continuation(model, max_tokens=3, scores=scores)(PROMPTS)
    formatted = completion(model, formats.regex("[a-z]{2,4}-[0-9]"), scores=scores)(PROMPTS)
    for output in [*free, *formatted]:
        whole = [*output.prompt, *output.tokens]
        rows = expected_logprobs(judge(wrapped), whole)[len(output.prompt) - 1 : -1]
        expected = [float(row[token]) for row, token in zip(rows, output.tokens, strict=True)]
        assert output.unmasked_logprobs == pytest.approx(expected, abs=TOLERANCE)


def test_options_weigh_what_a_forward_pass_says(wrapped, tokenizer) -> None:
    model = transformers_model(wrapped, tokenizer=tokenizer)
    for option in choose(model, PROMPTS[0], ["abc", "abd", "fade 7"]):
        whole = [*model.encode(PROMPTS[0]), *option.tokens]
        rows = expected_logprobs(judge(wrapped), whole)[-len(option.tokens) - 1 : -1]
        expected = sum(float(row[token]) for row, token in zip(rows, option.tokens, strict=True))
        assert option.logprob == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_families_that_take_positions_in_other_ways(family, tokenizer) -> None:
    torch_model = family_model(family, tokenizer)
    model = transformers_model(torch_model, tokenizer=tokenizer)
    for seed in range(6):
        assert largest_error(model, torch_model, Random(seed)) < TOLERANCE


def test_a_window_counts_no_columns_that_were_dropped(tokenizer) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=564,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,
        sliding_window=6,
    )
    torch_model = MistralForCausalLM(config).eval()
    model = transformers_model(torch_model, tokenizer=tokenizer)
    for seed in range(10):
        assert largest_error(model, torch_model, Random(seed), 8) < TOLERANCE


class Wrapper(torch.nn.Module):
    """Passes everything on, and hides what its model takes."""

    def __init__(self, model) -> None:
        super().__init__()
        self.inside = model
        self.config = model.config
        self.get_output_embeddings = model.get_output_embeddings

    def forward(self, *args, **kwargs):
        return self.inside(*args, **kwargs)


def test_a_wrapper_that_hides_what_the_model_takes_is_refused(tokenizer) -> None:
    with pytest.raises(UnsupportedEngineVersion, match=r"Wrapper has no signature.*position_ids"):
        transformers_model(Wrapper(random_model("llama", tokenizer)), tokenizer=tokenizer)


def test_data_parallel_models_are_refused(tokenizer) -> None:
    parallel = torch.nn.DataParallel(random_model("llama", tokenizer))
    with pytest.raises(InvalidArgument, match=r"DataParallel.*\.module"):
        transformers_model(parallel, tokenizer=tokenizer)


def test_peft_adapters_that_are_prompts_are_refused(tokenizer) -> None:
    peft = pytest.importorskip("peft", reason="needs peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(random_model("llama", tokenizer), config)
    with pytest.raises(UnsupportedEngineVersion, match="prompt-learning"):
        transformers_model(model, tokenizer=tokenizer)
