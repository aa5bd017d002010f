#!/usr/bin/env python3
"""Tool calls that vLLM writes through our backend, read by vLLM's own tool parsers and by our layouts.

python3.11 dev.py run vllm scripts/judge_vllm_tools.py --model FOLDER --requests 500 --output tools.json

FOLDER is a model as `tests/engines_real/vllm_models.py` makes them. For each `tool_choice` there are as many requests
as `--requests` says, shared by the layouts; `--plain` leaves vLLM's own structural tags in place.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "integrations")]

#: vLLM's parsers, and the layouts that write what they read.
PARSERS = {"hermes": "hermes", "qwen3_coder": "qwen3-coder", "llama3_json": "llama3-json"}
#: How calls begin that do not begin with a marker of their own.
BEGINS = {"llama3_json": '{"name": "tool_0", "parameters": '}
CHOICES = ("auto", "required", "named", "strict")
VALUES: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 12},
    {"type": "integer", "minimum": -99, "maximum": 9999},
    {"type": "boolean"},
    {"enum": ["red", "</tool_call>", "été 日本"]},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
    {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"], "additionalProperties": False},
]


def tool_of(rng: random.Random, name: str, layout: str) -> dict[str, Any]:
    """A tool whose arguments can be written in every layout."""
    values = [value for value in VALUES if layout != "qwen3-coder" or "enum" not in value]
    properties = {f"key_{index}": rng.choice(values) for index in range(rng.randint(1, 3))}
    required = [key for key in properties if rng.random() < 0.7]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def requests_of(choice: str, parser: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Chat requests with this way to choose tools."""
    rng = random.Random(f"{choice} {parser} {seed}")
    made = []
    for _ in range(count):
        tools = [tool_of(rng, f"tool_{index}", PARSERS[parser]) for index in range(rng.randint(1, 3))]
        chosen: Any = {"named": {"type": "function", "function": {"name": tools[-1]["function"]["name"]}}}.get(
            choice, "required" if choice == "strict" else choice
        )
        for tool in tools:
            tool["function"]["strict"] = choice in ("auto", "strict") or parser == "qwen3_coder" or rng.random() < 0.7
        messages = [{"role": "user", "content": "".join(rng.choices("abcdefghij ", k=12))}]
        made.append({"messages": messages, "tools": tools, "tool_choice": chosen, "temperature": 1.0,
                     "parallel_tool_calls": rng.random() < 0.5})  # fmt: skip
    return made


def judged(llm: Any, parser_name: str, choice: str, count: int, seed: int) -> tuple[Counter[str], list[Any]]:
    """How many requests had each outcome, and some that vLLM's parser read differently from us."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    tokenizer = llm.get_tokenizer()
    kind = ParserManager.get_parser(tool_parser_name=parser_name, enable_auto_tools=True, tokenizer=tokenizer)
    begins = tokenizer.encode(BEGINS.get(parser_name, "<tool_call>"), add_special_tokens=False)
    prompts: list[str] = []
    parameters: list[Any] = []
    asked: list[tuple[dict[str, Any], Any, Any]] = []
    for data in requests_of(choice, parser_name, count, seed):
        request = ChatCompletionRequest(model="small", **data)
        parser = kind(tokenizer, request.tools)
        request = parser.adjust_request(request)
        sampling = request.to_sampling_params(200, {})
        if choice == "auto" and len(asked) % 5:  # a random model calls hardly ever
            sampling.extra_args = {**(sampling.extra_args or {}), "begins": begins}
        prompts.append(data["messages"][0]["content"])
        parameters.append(sampling)
        asked.append((data, request, parser))
    counts: Counter[str] = Counter()
    differences: list[Any] = []
    for (data, request, parser), output in zip(asked, llm.generate(prompts, parameters, use_tqdm=False), strict=True):
        one = output.outputs[0]
        outcome, detail = compared(parser_name, data, request, parser, one)
        counts[outcome] += 1
        if detail is not None and len(differences) < 10:
            differences.append(detail)
    return counts, differences


def pushing_processor() -> type:
    """A logits processor that makes an output begin with the tokens that its request names, where they are allowed."""
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class PushingLogitsProcessor(AdapterLogitsProcessor):  # type: ignore[misc]
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params: Any) -> Any:
            begins = (params.extra_args or {}).get("begins", [])

            def push(output_ids: list[int], logits: Any) -> Any:
                count = len(output_ids)
                if count < len(begins) and output_ids == begins[:count]:
                    logits[begins[count]] += 50.0
                return logits

            return push if begins else None

    return PushingLogitsProcessor


def compared(parser_name: str, data: dict[str, Any], request: Any, parser: Any, output: Any) -> tuple[str, Any]:
    """The outcome of one request, and the facts if vLLM's parser reads it differently from our layout."""
    from formatter_core import formats, parse
    from formatter_core.errors import InvalidValue

    if output.finish_reason != "stop":
        return output.finish_reason, None
    choice = data["tool_choice"]
    named = choice["function"]["name"] if isinstance(choice, dict) else choice
    functions = [tool["function"] for tool in data["tools"]]
    kept = [function if function["strict"] else {"name": function["name"]} for function in functions]
    format = formats.chat_answer(
        PARSERS[parser_name], tools=[{"type": "function", "function": one} for one in kept], tool_choice=named,
        parallel=data["parallel_tool_calls"], reasoning="off",
    )  # fmt: skip
    ours = parse(format, output.text)
    _, content, calls = parser.parse(
        output.text, request, enable_auto_tools=True, model_output_token_ids=list(output.token_ids)
    )
    theirs = [(call.name, json.loads(call.arguments)) for call in calls or ()]
    facts = {"text": output.text, "choice": choice, "theirs": theirs, "content": content}
    if not ours.is_complete:
        return "not in the layout", {**facts, "missing": ours.missing}
    try:
        expected = [(call.name, call.arguments) for call in ours.value.tool_calls]
    except InvalidValue:
        return "a number that is none in Python", None
    if json.dumps(theirs, sort_keys=True) != json.dumps(expected, sort_keys=True, default=float):
        return "read otherwise", {**facts, "ours": repr(expected)}
    return f"the same {'calls' if expected else 'text'}", None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    # The logits processor that makes outputs begin with calls is no module's, so no other process can import it.
    os.environ |= {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    if options.plain:
        from formatter_vllm import tools

        tools.install = lambda: None
    from vllm import LLM

    from formatter_vllm.structured_outputs import register

    register()
    llm = LLM(
        model=options.model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=32,
        logits_processors=[pushing_processor()],
    )
    found: dict[str, Any] = {"seed": options.seed, "structural tags of vLLM": options.plain, "counts": {}}
    differences = {}
    for choice in options.choices:
        for index, name in enumerate(PARSERS):
            count = (options.requests + index) // len(PARSERS)
            counts, some = judged(llm, name, choice, count, options.seed)
            found["counts"][f"{choice} {name}"] = dict(counts)
            differences[f"{choice} {name}"] = some
            print(choice, name, dict(counts), flush=True)
    found["differences"] = {key: some for key, some in differences.items() if some}
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
