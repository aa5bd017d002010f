"""A vLLM server and the openai client: a format in, a typed result out. The client needs no vLLM.

vllm serve some/model --logits-processors formatter_vllm:FormatterLogitsProcessor
python examples/vllm_http.py --model some/model
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import openai

from formatter_vllm import create_extra_args, result


@dataclass
class Person:
    name: str
    age: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--address", default="http://127.0.0.1:8000/v1")
    options = parser.parse_args()

    client = openai.OpenAI(base_url=options.address, api_key="none")
    answer = client.chat.completions.create(
        model=options.model,
        messages=[{"role": "user", "content": "Who was Grace Hopper? Answer in JSON."}],
        max_tokens=200,
        extra_body={"vllm_xargs": create_extra_args(Person)},
    )
    person = result(answer.choices[0], Person)
    print(person.value if person.is_complete else f"cut: {person.missing}")


if __name__ == "__main__":
    main()
