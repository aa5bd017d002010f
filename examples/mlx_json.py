"""mlx-lm fills a Pydantic model from two prompts in one batch, and writes text with typed holes; on a Mac, or any CPU.

python examples/mlx_json.py                                          # with the small model of this repository
python examples/mlx_json.py --model mlx-community/Qwen3-4B-4bit      # or whatever mlx_lm.load takes
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mlx_lm
from pydantic import BaseModel, Field

from formatter_core import FormatterBuilder
from formatter_mlx import create_logits_processor

PROMPTS = [
    "Ivo is 41 years old, lives in Delhi and works as a pilot.\n",
    "Ann is 7 years old, lives in Oslo and works as a teacher.\n",
]


class Person(BaseModel):
    name: str = Field(pattern="^[A-Z][a-z]{1,11}$")
    age: int = Field(ge=0, le=150)
    city: str = Field(pattern="^[A-Z][a-z]{1,11}$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(Path(__file__).parent / "tiny_model"))
    options, _ = parser.parse_known_args()
    model, tokenizer = mlx_lm.load(options.model)

    processor = create_logits_processor(tokenizer, Person, model=model)
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    batch = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=80, logits_processors=[processor])
    for result in processor.results(batch):
        print(repr(result.value) if result and result.is_complete else "cut")

    b = FormatterBuilder()
    b.append(
        "Name: ", b.regex("[A-Z][a-z]{1,11}", name="name"), ", age ", b.integer(name="age", minimum=0, maximum=150), "."
    )
    holes = create_logits_processor(tokenizer, b, model=model)
    for response in mlx_lm.stream_generate(model, tokenizer, PROMPTS[0], max_tokens=80, logits_processors=[holes]):
        print(response.text, end="", flush=True)
    print(f"\n{holes.result(response).captures}")


if __name__ == "__main__":
    main()
