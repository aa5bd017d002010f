"""Reasoning first: free text up to a marker, then an answer in a format; the reasoning is captured with it.

python examples/reasoning_first.py                     # the small model in this folder; no download

The small model never learnt to reason. It has learnt to write a line about a person, so here it writes one before it
answers, in at most 26 characters, because it does not know when to stop. For a model that reasons, use
`formats.until("</think>")` instead of the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from formatter_core import FormatterBuilder
from formatter_core.generation import completion
from formatter_transformers import transformers_model

PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\ncard: "


@dataclass
class Person:
    name: str
    age: int
    city: str
    job: str


def main() -> None:
    b = FormatterBuilder()
    b.append(b.regex(r"[^\n]{1,26}", name="reasoning"), "\n", b.json(Person, name="answer"))
    output = completion(transformers_model(str(Path(__file__).parent / "tiny_model")), b, max_tokens=120)(PROMPT)
    (reasoning,), (answer,) = output.captures["reasoning"], output.captures["answer"]
    print(f"reasoning  {reasoning}")
    print(f"answer     {answer}")


if __name__ == "__main__":
    main()
