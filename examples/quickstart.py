"""What a model writes on its own, and what it writes within a format: three formats, side by side.

python examples/quickstart.py                          # the small model in this folder; no download
python examples/quickstart.py --seeds 100              # how often is the text in the format, with and without?
python examples/quickstart.py --model some/model       # any causal model that transformers can load
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from formatter_core import CompiledFormat, Compiler, FormatterBuilder, formats
from formatter_transformers import create_logits_processor, create_vocabulary

TINY_MODEL = Path(__file__).parent / "tiny_model"
MOST_TOKENS = 120
#: What the demo shows of the small model, and what to expect of it. Its format holds either way.
SENTENCES = {
    "A sentence of a kind that the small model was trained on: the values are right":
        "Ivo is 41 years old, lives in Delhi and works as a pilot.",
    "A sentence of a kind that it was never trained on: in the format, but the values are guesses":
        "Dr. Grace Hopper (85) was an admiral in Arlington.",
}  # fmt: skip


#: Keywords of JSON Schema bound what a field may hold: a model that rambles comes to an end all the same.
Text = Annotated[str, {"maxLength": 30}]


@dataclass
class Person:
    name: Text
    age: Annotated[int, {"minimum": 0, "maximum": 150}]
    city: Text
    job: Text


def card() -> FormatterBuilder:
    """Text with typed holes; each named hole is found in the captures."""
    b = FormatterBuilder()
    name, age = b.regex(r"\p{L}[\p{L} .]{0,30}", name="name"), b.integer(minimum=0, maximum=150, name="age")
    job, city = b.regex(r"[a-z]{1,20}", name="job"), b.regex(r"\p{Lu}[\p{L} ]{0,30}", name="city")
    return b.append(f"{name} ({age}), {job} from {city}")


#: What is asked, the cue that asks for it, and the format of the answer: whatever `Compiler.compile` takes.
TASKS: list[tuple[str, str, Any]] = [
    ("a dataclass", "", Person),
    ("text with holes", "card: ", card()),
    ("a choice", "job: ", formats.choice(["admiral", "doctor", "engineer", "pilot", "teacher"])),
]


class Writer:
    """A model with its tokenizer."""

    def __init__(self, name: str, temperature: float) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForCausalLM.from_pretrained(name).eval()
        self.compiler = Compiler(create_vocabulary(self.tokenizer, model=self.model))
        self.temperature = temperature

    def write(self, prompt: str, seed: int, count: int = 1, processors: Sequence[Any] = ()) -> torch.Tensor:
        torch.manual_seed(seed)
        inputs = self.tokenizer(prompt, return_tensors="pt")
        output: torch.Tensor = self.model.generate(
            **inputs,
            do_sample=True,
            temperature=self.temperature,
            top_k=0,
            num_return_sequences=count,
            max_new_tokens=MOST_TOKENS,
            logits_processor=list(processors),
        )
        return output

    def unconstrained(self, prompt: str, seed: int, count: int = 1) -> list[str]:
        width = len(self.tokenizer(prompt)["input_ids"])
        return self.tokenizer.batch_decode(self.write(prompt, seed, count)[:, width:], skip_special_tokens=True)

    def constrained(self, prompt: str, seed: int, format: Any, count: int = 1) -> list[Any]:
        processor = create_logits_processor(self.tokenizer, format, model=self.model)
        return processor.results(self.write(prompt, seed, count, [processor]))


def show(writer: Writer, title: str, prompt: str, format: Any, seed: int) -> None:
    compiled = writer.compiler.compile(format)
    (free,) = writer.unconstrained(prompt, seed)
    (result,) = writer.constrained(prompt, seed, format)
    print(f"\n{title}, after {prompt!r}")
    print(f"  unconstrained  {free!r}\n                 {verdict(compiled, free)}")
    print(f"  constrained    {result.text!r}\n                 {verdict(compiled, result.text)}")
    print(f"  value          {result.value!r}")


def verdict(compiled: CompiledFormat, text: str) -> str:
    """Judged by the format itself, without tokens."""
    result = compiled.parse(text)
    return "in the format" if result.is_complete else f"NOT in the format: {result.missing}"


def table(writer: Writer, sentence: str, seeds: int) -> bool:
    """Print the shares of texts in the format; whether every constrained text that ended is."""
    print(f"\n{sentence!r}: in the format, of {seeds} samples at temperature {writer.temperature:g}:")
    print(f"  {'':18}{'unconstrained':>15}{'constrained':>15}")
    is_kept = True
    for title, cue, wanted in TASKS:
        compiled = writer.compiler.compile(wanted)
        prompt = f"{sentence}\n{cue}"
        free = [compiled.parse(text).is_complete for text in writer.unconstrained(prompt, 2, seeds)]
        results = writer.constrained(prompt, 2, wanted, seeds)
        kept = [result.is_complete for result in results if result.ended != "length"]
        note = f"   ({seeds - len(kept)} cut at {MOST_TOKENS} tokens)" if len(kept) < seeds else ""
        print(f"  {title:18}{sum(free) / seeds:15.1%}{sum(kept) / max(1, len(kept)):15.1%}{note}")
        is_kept = is_kept and all(kept)
    return is_kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(TINY_MODEL), help="a folder or a name that transformers can load")
    parser.add_argument("--sentence", help="in place of the two that are shown")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=20, help="samples of each format in the table; 0: no table")
    options = parser.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    writer = Writer(options.model, options.temperature)
    print(f"grammar engine: {writer.compiler.engine}")
    sentences = {"": options.sentence} if options.sentence else SENTENCES
    for expectation, sentence in sentences.items():
        print(f"\n--- {expectation}")
        for title, cue, wanted in TASKS:
            show(writer, title, f"{sentence}\n{cue}", wanted, options.seed)
    if options.seeds and not table(writer, list(sentences.values())[-1], options.seeds):
        sys.exit("a constrained text is not in its format")


if __name__ == "__main__":
    main()
