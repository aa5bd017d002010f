"""Every public call of every object in every state, in a process that must live: no raw error, no crash, no hang."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

for needed in ("llama_cpp", "gguf", "tokenizers"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
#: Calls that must be refused once the object is closed, and calls that still work.
REFUSED = {
    "Scheduler": {"step", "run", "submit", "submit of a chat", "with", "close of its context"},
    "SharedContext": {"decode", "logits", "share", "truncate", "check_open"},
}
#: Calls that must be refused once the model is closed.
WITHOUT_MODEL = {
    **REFUSED,
    "LlamaModel": {"completion", "deepcopy of a writer", "encode", "encode_chat", "encode_continuation", "start"},
    "LlamaBatch": {"add", "forward", "forward_scored", "forward_tree", "crop", "select"},
    "World": {"Scheduler", "create_logits_processor", "create_sampler", "generate_parallel", "llama_model"},
}


def test_every_call_in_every_state_returns_or_raises_an_error_of_ours() -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.engines_real.llama_cpp_states"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=900,
        env={**os.environ, "PYTHONPATH": paths},
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1], done.stderr[-2000:])
    assert lines[0] == ["uncovered"], "calls that the table lacks"
    assert [line for line in lines if line[-1].startswith("wrong")] == []
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for kind, state, name, outcome in lines[1:]:
        found[kind, state][name] = outcome
    for state, refused in (("closed", REFUSED), ("owner closed", WITHOUT_MODEL)):
        for kind, names in refused.items():
            outcomes = found[kind, state]
            assert {name for name in names if outcomes[name] != "InvalidArgument"} == set(), (kind, state, outcomes)
    for state in ("new", "running", "finished"):
        assert {name for name, outcome in found["Scheduler", state].items() if outcome != "right"} == {
            "cancel of something else",
            "close of its context",
            "copy",
            "deepcopy",
            "pickle",
            *(["cancel in another"] if state != "finished" else []),
        }
    for name in ("step", "run", "submit", "cancel", "close"):
        assert found["Scheduler", "other thread"][name] == "right", "threads may share a scheduler"
