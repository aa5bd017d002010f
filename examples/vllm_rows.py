"""Turns a file of prompts, one per line, into typed rows of JSON, with several vLLM servers in parallel.

vllm serve some/model --port 8000 --logits-processors formatter_vllm:FormatterLogitsProcessor
vllm serve some/model --port 8001 --logits-processors formatter_vllm:FormatterLogitsProcessor
python examples/vllm_rows.py prompts.txt rows.jsonl --model some/model \
    --addresses http://127.0.0.1:8000/v1 http://127.0.0.1:8001/v1

The servers share nothing: each reads the vocabulary and compiles the format once. Rows keep the order of the prompts.
With `fit=True` no answer is cut, so each prompt gets its row, or a reason why it has none.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import openai

from formatter_vllm import create_extra_args, result


@dataclass
class Review:
    is_positive: bool
    stars: int


def rows_of(prompts: list[str], model: str, addresses: list[str], at_once: int) -> Iterator[dict[str, object]]:
    """A row for each prompt, in order; prompts are distributed over the servers in turn."""
    clients = [openai.OpenAI(base_url=address, api_key="none") for address in addresses]
    arguments = create_extra_args(Review, fit=True)

    def row(number: int) -> dict[str, object]:
        try:
            answer = clients[number % len(clients)].completions.create(
                model=model, prompt=prompts[number], max_tokens=60, extra_body={"vllm_xargs": arguments}
            )
        except openai.APIError as error:
            return {"prompt": prompts[number], "error": str(error)}
        return {"prompt": prompts[number], **asdict(result(answer.choices[0], Review).value)}

    with ThreadPoolExecutor(at_once * len(clients)) as pool:
        yield from pool.map(row, range(len(prompts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--addresses", nargs="+", default=["http://127.0.0.1:8000/v1"])
    parser.add_argument("--at-once", type=int, default=16, help="requests that each server has at a time")
    options = parser.parse_args()
    prompts = options.prompts.read_text(encoding="utf-8").splitlines()
    with options.rows.open("w", encoding="utf-8") as file:
        for row in rows_of(prompts, options.model, options.addresses, options.at_once):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
