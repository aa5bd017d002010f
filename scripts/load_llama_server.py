"""Many requests at a time against our llama.cpp server, some of them aborted: every answer right, memory flat.

    PYTHONPATH=.:integrations PYTHON scripts/load_llama_server.py --requests 200 --output load.json

PYTHON is that of an environment with llama-cpp-python's server, gguf, httpx2 and jsonschema.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import jsonschema

from tests.engines_real.llama_cpp_models import write_bpe
from tests.engines_real.local_servers import serving

#: Of all requests, a quarter of which are faulty and answered at once.
_ABORTED = 0.18
_FAULTY = 0.25
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
_TOOL = {"type": "function", "function": {"name": "go", "parameters": _SCHEMA}}
_MESSAGES = [{"role": "user", "content": "Who?"}]


def main() -> None:
    """Run, print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8, help="of so many requests at a time each")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_bpe(folder / "model.gguf")
        with serving("formatter_llama_cpp.server", model, folder / "log", "--layout", "hermes") as address:
            found = measure(address, options.requests, options.rounds)
    text = json.dumps(found, indent=1)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")


def measure(address: str, count: int, rounds: int) -> dict[str, Any]:
    """The outcomes of the requests, and the server's resident memory in MiB after each round of them."""
    outcomes: Counter[str] = Counter()
    memory = []
    # The server closes a connection after five idle seconds; one that is used again must not be about to be closed.
    limits = httpx.Limits(max_connections=count, keepalive_expiry=2)
    with httpx.Client(base_url=address, timeout=600, limits=limits) as client:
        for first in range(0, rounds * count, count):
            with ThreadPoolExecutor(count) as pool:
                outcomes.update(pool.map(lambda number: _one(client, number), range(first, first + count)))
            memory.append(_resident())
    return {"requests": outcomes.total(), "outcomes": dict(outcomes), "resident MiB": memory}


def _one(client: httpx.Client, number: int) -> str:
    common: dict[str, Any] = {"messages": _MESSAGES, "seed": number, "temperature": 1.0, "max_tokens": 150}
    kinds: list[dict[str, Any]] = [
        {"response_format": {"type": "json_object", "schema": _SCHEMA}},
        {"grammar": 'root ::= "n" [0-9] [0-9]?'},
        {"tools": [_TOOL], "tool_choice": "required"},
        {"response_format": {"type": "json_object", "schema": {"type": "nonsense"}}},
    ]
    kind = number % len(kinds)
    body = {**common, **kinds[kind]}
    try:
        if kind != 3 and number * 0.618 % 1 < _ABORTED / (1 - _FAULTY):
            with client.stream("POST", "/chat/completions", json={**body, "stream": True}) as answer:
                next(answer.iter_lines(), None)
            return "aborted"
        answer = client.post("/chat/completions", json=body)
    except httpx.HTTPError as error:
        return f"no answer: {type(error).__name__}"
    if kind == 3:
        return "refused" if answer.status_code == 400 else f"wrong status {answer.status_code}"
    if answer.status_code != 200:
        return f"status {answer.status_code}"
    choice = answer.json()["choices"][0]
    if choice["finish_reason"] == "length":
        return "cut"
    try:
        _check(kind, choice["message"])
    except (ValueError, KeyError, AssertionError, jsonschema.ValidationError) as error:
        return f"wrong: {error!r}"[:200]
    return "right"


def _check(kind: int, message: dict[str, Any]) -> None:
    if kind == 1:
        assert re.fullmatch("n[0-9]{1,2}", message["content"])
        return
    texts = [message["content"]] if kind == 0 else [call["function"]["arguments"] for call in message["tool_calls"]]
    for text in texts:
        jsonschema.validate(json.loads(text), _SCHEMA)


def _resident() -> float:
    """Of the only child of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for line in Path(f"/proc/{children[0]}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


if __name__ == "__main__":
    main()
