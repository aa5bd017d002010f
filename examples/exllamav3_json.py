"""ExLlamaV3 fills a Pydantic model from each of several prompts in one batch; one more job thinks first. Needs a GPU.

python examples/exllamav3_json.py --model FOLDER     # a model in EXL3 format, or any that ExLlamaV3 loads
"""

from __future__ import annotations

import argparse

from exllamav3 import Cache, Config, Generator, Job, Model, Tokenizer
from pydantic import BaseModel, Field

from formatter_core import FormatterBuilder
from formatter_exllamav3 import create_filter

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
    parser.add_argument("--model", required=True, help="the folder of a model")
    options = parser.parse_args()
    config = Config.from_directory(options.model)
    model = Model.from_config(config)
    cache = Cache(model, max_num_tokens=4096)
    model.load()
    tokenizer = Tokenizer.from_config(config)
    generator = Generator(model=model, cache=cache, tokenizer=tokenizer)

    thoughts = FormatterBuilder()
    thoughts.append("<think>", thoughts.regex("[a-zA-Z ,.]{0,60}", name="thoughts"), "</think>")
    thoughts.append(thoughts.json(Person, name="person"))
    filters = [create_filter(tokenizer, Person), create_filter(tokenizer, Person), create_filter(tokenizer, thoughts)]
    for prompt, filter in zip([*PROMPTS, PROMPTS[0]], filters, strict=True):
        ids = tokenizer.encode(prompt, add_bos=False)
        generator.enqueue(Job(input_ids=ids, max_new_tokens=200, stop_conditions=filter.end_ids, filters=[filter]))
    while generator.num_remaining_jobs():
        generator.iterate()
    for filter in filters:
        result = filter.result()
        print(repr(result.value) if result.is_complete else f"cut: {result.text!r}")
    print(dict(filters[-1].result().captures))


if __name__ == "__main__":
    main()
