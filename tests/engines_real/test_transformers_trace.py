"""Traces of real `generate` calls, and of our own loop on the same model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import completion, greedy
from formatter_core.trace import SCORES
from formatter_core.trace import trace_of as trace_of_output
from formatter_transformers import create_logits_processor, trace_of, transformers_model
from tests.schemas import closed

FOLDER = str(Path(__file__).resolve().parents[2] / "examples" / "tiny_model")
PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"
SCHEMA = closed({"name": {"type": "string"}, "age": {"type": "integer", "maximum": 30}})
RECORDED = {"return_dict_in_generate": True, "output_logits": True, "max_new_tokens": 40}


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(FOLDER).eval()


def test_generate_and_the_loop_have_the_same_trace(tokenizer, model) -> None:
    processor = create_logits_processor(tokenizer, SCHEMA, model=model)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    output = model.generate(**inputs, **RECORDED, do_sample=False, logits_processor=[processor])
    ours = trace_of(processor, output)
    write = completion(
        transformers_model(model, tokenizer=tokenizer),
        SCHEMA,
        scores=SCORES,
        sampling=greedy(),
        max_tokens=40,
        fit=False,
    )
    loop = trace_of_output(write(PROMPT))
    assert [step.token_id for step in ours.steps] == [step.token_id for step in loop.steps]
    for one, other in zip(ours.steps, loop.steps, strict=True):
        assert one.masked_probability == pytest.approx(other.masked_probability, abs=1e-4)
        assert (one.allowed, one.place, one.expected) == (other.allowed, other.place, other.expected)
        assert one.wanted[0].token_id == other.wanted[0].token_id
    assert [trap.proposal for trap in ours.traps] == [trap.proposal for trap in loop.traps]
    assert "`maximum` at #/properties/age" in ours.traps[0].proposal


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True, "num_return_sequences": 3},
        {"num_beams": 4, "num_return_sequences": 2, "output_scores": True},
    ],
)
def test_each_sequence_has_its_own_logits(tokenizer, model, options) -> None:
    torch.manual_seed(3)
    processor = create_logits_processor(tokenizer, formats=[SCHEMA, None], model=model)
    tokenizer.pad_token = tokenizer.eos_token
    inputs = tokenizer([PROMPT, PROMPT], return_tensors="pt")
    output = model.generate(**inputs, **RECORDED, **options, logits_processor=[processor])
    count = options["num_return_sequences"]
    for row in range(count):
        seen = trace_of(processor, output, row=row, top=3)
        # The logits are those after the row's own tokens: a pass over all of it gives the same.
        with torch.inference_mode():
            whole = model(output.sequences[row : row + 1]).logits[0].float().log_softmax(-1)
        first = inputs["input_ids"].shape[1] - 1
        for at, step in enumerate(seen.steps):
            assert whole[first + at].exp()[step.token_id].item() == pytest.approx(step.unmasked_probability, abs=1e-3)
            assert len(step.wanted) == 3
    with pytest.raises(InvalidArgument, match="no format"):
        trace_of(processor, output, row=count)
    with pytest.raises(InvalidArgument, match="sequences"):
        trace_of(processor, output, row=2 * count)


def test_an_output_without_logits_is_refused(tokenizer, model) -> None:
    processor = create_logits_processor(tokenizer, formats.choice(["a", "b"]), model=model)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    output = model.generate(**inputs, max_new_tokens=5, logits_processor=[processor])
    with pytest.raises(InvalidArgument, match="output_logits"):
        trace_of(processor, output)
    with pytest.raises(InvalidArgument, match="FormatterLogitsProcessor"):
        trace_of(output, processor)
