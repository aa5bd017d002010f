"""Formats behind reasoning, in vLLM itself: `python vllm_reasoning.py PARSER HOW REQUESTS MODEL_FOLDER OUTPUT_FILE`.

`PARSER` is one of vLLM's reasoning parsers, and `HOW` is `backend` (structured outputs with n-gram speculation) or
`processor`. The cache for keys and values is so small that requests are preempted. Each record holds the text behind
the reasoning as vLLM's own parser splits it, so a test can judge it.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.engines_real.vllm_scenarios import SMALL_ENGINE, announce_amx, format_of

KINDS = ("list", "schema", "word", "short")
#: Ends of prompts as chat templates leave them: without a region, with an opened one, or with an empty one.
ENDINGS = ("", "<think>\n", "<think>\n\n</think>\n\n")
#: Repeated in prompts, so that there are drafts, right and wrong ones.
SAID = {
    "list": "[true, 1, true, 1, true, 1, true, 1]",
    "word": "abcabcabcabc",
    "schema": '{"name": "abc", "tags": ["abc", "abc", true, null], "ok": true}',
    "short": "abc",
}


def main(parser: str, how: str, requests: str, folder: str, output: str) -> None:
    announce_amx()
    options: dict[str, Any] = {}
    if how == "backend":
        os.environ["FORMATTER_VLLM_STRUCTURED_OUTPUTS"] = "1"
        options["speculative_config"] = {
            "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1,
        }  # fmt: skip
    else:
        options["logits_processors"] = [import_module("formatter_vllm").FormatterLogitsProcessor]
    from vllm import LLM

    llm = LLM(model=folder, structured_outputs_config={"reasoning_parser": parser}, **SMALL_ENGINE, **options)
    records = []
    # Apart, for the V1 runner on a CPU confuses drafts where greedy and sampled requests share a batch.
    for temperature in (1.0, 0.0):
        numbers = range(int(requests) // 2)
        records += run(llm, how, parser, [(index, temperature) for index in numbers])
    metrics = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    Path(output).write_text(json.dumps({"records": records, "metrics": metrics}), encoding="utf-8")


def run(llm: Any, how: str, parser: str, cases: list[tuple[int, float]]) -> list[dict[str, Any]]:
    from vllm import SamplingParams
    from vllm.reasoning import ReasoningParserManager
    from vllm.sampling_params import StructuredOutputsParams

    from formatter_vllm import create_extra_args, result

    tokenizer = llm.get_tokenizer()
    prompts, parameters = [], []
    for index, temperature in cases:
        kind = KINDS[index % len(KINDS)]
        prompts.append((SAID[kind] + " ") * 3 + ENDINGS[index % len(ENDINGS)])
        own: dict[str, Any] = {}
        if how == "backend":
            format = format_of(kind)
            own["structured_outputs"] = StructuredOutputsParams(
                **({"json": format} if kind == "schema" else {"regex": format.pattern})
            )
        else:
            own["extra_args"] = create_extra_args(format_of(kind), after_reasoning=True)
        parameters.append(SamplingParams(temperature=temperature, max_tokens=150, **own))
    records = []
    reader = ReasoningParserManager.get_reasoning_parser(parser)(tokenizer)
    for (index, _), prompt, output in zip(
        cases, prompts, llm.generate(prompts, parameters, use_tqdm=False), strict=True
    ):
        kind, one = KINDS[index % len(KINDS)], output.outputs[0]
        is_over = prompt.endswith(ENDINGS[2])
        reasoning, content = (None, one.text) if is_over else reader.extract_reasoning(one.text, None)
        made = result(one, format_of(kind), after_reasoning=not is_over)
        records.append({
            "kind": kind, "ending": ENDINGS.index(prompt[prompt.find("<think>"):] if "<think>" in prompt else ""),
            "text": one.text, "finish": one.finish_reason, "content": content, "reasoning": reasoning,
            "complete": made.is_complete, "read": made.text,
        })  # fmt: skip
    return records


if __name__ == "__main__":
    main(*sys.argv[1:])
