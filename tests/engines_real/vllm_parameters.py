"""Every parameter of a request beside a format, in vLLM: `python vllm_parameters.py HOW MODEL_FOLDER OUTPUT_FILE`.

`HOW` is `processor` (V1 runner), `v2` (the same on Model Runner V2), or `backend` (vLLM's own structured outputs, which
formatter-core enforces). Each record holds what
one request with one parameter gave, or how it was refused; `test_vllm_parameters.py` says what is right.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.engines_real.vllm_processes import DTYPE
from tests.engines_real.vllm_scenarios import announce_amx

#: The format of every request.
PATTERN = "[a-j]{12}"
#: With this the text is one letter again and again.
_REPEATED: dict[str, Any] = {"temperature": 0.0, "logit_bias": {"j": 2.6}}
#: A parameter, what it is set to, and what else the request needs for it. Letters stand for the ids of tokens.
CASES: dict[str, dict[str, Any]] = {
    "n": {"n": 3},
    "presence_penalty": {"presence_penalty": 2.0, **_REPEATED},
    "frequency_penalty": {"frequency_penalty": 2.0, **_REPEATED},
    "repetition_penalty": {"repetition_penalty": 5.0, **_REPEATED},
    "temperature": {"temperature": 0.0},
    "watermarking": {"watermarking": False},
    "top_p": {"top_p": 1e-6},
    "top_k": {"top_k": 1},
    "min_p": {"min_p": 1.0},
    "seed": {"seed": 7},
    "stop": {"stop": ["c", "d", "e"]},
    "stop_token_ids": {"stop_token_ids": ["1"], "logit_bias": {"1": 100.0}},
    "ignore_eos": {"ignore_eos": True},
    "max_tokens": {"max_tokens": 2},
    "min_tokens": {"min_tokens": 3},
    "logprobs": {"logprobs": 2},
    "prompt_logprobs": {"prompt_logprobs": 1},
    "prompt_logprob_token_ids": {"prompt_logprob_token_ids": [["a", "b"]]},
    "prompt_logprob_start": {"prompt_logprob_token_ids": [["a", "b"]], "prompt_logprob_start": 0},
    "logprob_token_ids": {"logprob_token_ids": ["a", "1"]},
    "flat_logprobs": {"logprobs": 1, "flat_logprobs": True},
    "detokenize": {"detokenize": False},
    "skip_special_tokens": {"skip_special_tokens": False},
    "spaces_between_special_tokens": {"spaces_between_special_tokens": False},
    "include_stop_str_in_output": {"stop": ["c", "d", "e"], "include_stop_str_in_output": True},
    "output_kind": {},
    "stream_interval": {"stream_interval": 5},
    "skip_clone": {"skip_clone": True},
    "structured_outputs": {},
    "logit_bias": {"logit_bias": {"j": 100.0, "1": 100.0}},
    "allowed_token_ids": {"allowed_token_ids": ["a", "b", "1", "end"]},
    "extra_args": {},
    "bad_words": {"bad_words": ["a", "b"]},
    "skip_reading_prefix_cache": {"skip_reading_prefix_cache": True},
    "thinking_token_budget": {"thinking_token_budget": 0},
    "repetition_detection": {"logit_bias": {"j": 100.0}},
    "routed_experts_prompt_start": {"routed_experts_prompt_start": 1},
    "trace_decode_token_ids": {"trace_decode_token_ids": ["1", "1"]},
}


#: Triton's interpreter, which stands in for a GPU on Model Runner V2, cannot run the kernel of these two.
NOT_ON_V2 = {"top_k", "top_p"}


def main(how: str, folder: str, output: str) -> None:
    if how == "v2":
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
        from tests.engines_real.vllm_triton import interpret_triton

        interpret_triton()
    announce_amx()
    options: dict[str, Any] = {"reasoning_config": {"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}}
    if how == "backend":
        os.environ["FORMATTER_VLLM_STRUCTURED_OUTPUTS"] = "1"
        import_module("formatter_vllm.structured_outputs").register()
    else:
        options["logits_processors"] = [import_module("formatter_vllm").FormatterLogitsProcessor]
    from vllm import LLM, SamplingParams

    llm = LLM(model=folder, dtype=DTYPE, enforce_eager=True, max_model_len=256, max_num_seqs=64, **options)
    tokenizer = llm.get_tokenizer()
    ids = {text: tokenizer.encode(text, add_special_tokens=False)[0] for text in "abj1"}
    ids["end"] = tokenizer.eos_token_id
    cases = {**CASES, **{f"{name} again": CASES[name] for name in ("temperature", "seed")}, "no penalty": _REPEATED}
    records: dict[str, Any] = {}
    for name, case in cases.items():
        if how == "v2" and name in NOT_ON_V2:
            continue
        try:
            llm.llm_engine.add_request(name, "abc", parameters_of(how, name, in_ids(case, ids)))
        except Exception as error:  # noqa: BLE001 - the class differs between versions; the message is what counts
            records[name] = {"refused": f"{type(error).__name__}: {error}"}
    while llm.llm_engine.has_unfinished_requests():
        records |= {answer.request_id: record(answer) for answer in llm.llm_engine.step() if answer.finished}
    fields = sorted(name for name in SamplingParams.__struct_fields__ if not name.startswith("_"))
    Path(output).write_text(json.dumps({"records": records, "ids": ids, "fields": fields}), encoding="utf-8")


def in_ids(value: Any, ids: dict[str, int], is_id: bool = False) -> Any:
    """Return the value with ids in place of the letters that stand for them."""
    if isinstance(value, dict):
        return {
            ids[key] if is_id else key: in_ids(item, ids, is_id or "token_id" in key or key == "logit_bias")
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [in_ids(item, ids, is_id) for item in value]
    return ids[value] if is_id and isinstance(value, str) else value


def parameters_of(how: str, name: str, options: dict[str, Any]) -> Any:
    """Return the `SamplingParams` of a case, with the format in one of its two places."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    from formatter_core import formats
    from formatter_vllm import create_extra_args

    options = {"temperature": 1.0, "max_tokens": 30, "output_kind": RequestOutputKind.FINAL_ONLY, **options}
    if how == "backend" or name == "structured_outputs":
        options["structured_outputs"] = StructuredOutputsParams(regex=PATTERN)
    if how != "backend":
        options["extra_args"] = create_extra_args(formats.regex(PATTERN))
    if name == "extra_args":
        options["extra_args"] = {**options.get("extra_args", {}), "another": 1}
    elif name == "output_kind":
        options["output_kind"] = RequestOutputKind.CUMULATIVE
    elif name == "repetition_detection":
        kind: Any = import_module("vllm.sampling_params").RepetitionDetectionParams
        options["repetition_detection"] = kind(max_pattern_size=1, min_pattern_size=1, min_count=3)
    return SamplingParams(**options)


def record(answer: Any) -> dict[str, Any]:
    """Return the answer to a request as JSON data."""
    from formatter_core import formats
    from formatter_vllm import result

    return {
        "outputs": [
            {
                "text": one.text,
                "ids": list(one.token_ids),
                "finish": one.finish_reason,
                "stop": one.stop_reason,
                "logprobs": None if one.logprobs is None else [sorted(step) for step in one.logprobs],
                "kind of logprobs": type(one.logprobs).__name__,
                "complete": result(one, formats.regex(PATTERN)).is_complete,
            }
            for one in answer.outputs
        ],
        "prompt logprobs": None if answer.prompt_logprobs is None else len(answer.prompt_logprobs),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
