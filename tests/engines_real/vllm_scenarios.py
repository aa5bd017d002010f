"""Runs vLLM itself for the tests, in its own process: `python vllm_scenarios.py NAME MODEL_FOLDER OUTPUT_FILE`.

A scenario writes JSON: its outputs, and facts about the run. `NAME` is `v1` (the V1 model runner), `v2` (Model Runner
V2), `drafts` (Model Runner V2 with n-gram speculation, the class found by its entry point alone), `backend` (the
structured-outputs backend on the V1 runner with n-gram speculation), or `backend-v2` (the same on Model Runner V2). The
cache for keys and values is so small that requests are preempted, and prompts are longer than what one step may read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.adapters.vllm_stand_ins import count_copies
from tests.engines_real.reasoning_budgets import budgeted_answer, judged
from tests.engines_real.vllm_processes import DTYPE

STEP_TOKENS = 48  # tokens that one step reads at most: longer prompts are read in chunks
#: Of an engine whose cache is so small that requests are preempted.
SMALL_ENGINE: dict[str, Any] = {
    "dtype": DTYPE,
    "enforce_eager": True,
    "max_model_len": 320,
    "max_num_seqs": 12,
    "max_num_batched_tokens": STEP_TOKENS,
    "enable_prefix_caching": False,
    "block_size": 32,
    "num_gpu_blocks_override": 14,
    "disable_log_stats": False,
}

#: The scenarios on Model Runner V2.
ON_V2 = ("v2", "drafts", "backend-v2")

PATTERNS = {
    "word": r"[a-j]{20,60}(é|日本)?",
    "list": r"\[(true|[0-9]{1,3})(, (true|[0-9]{1,3})){9,30}\]",
    "short": r"abc|été 日本|😀!",
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["abc", "été", True, None]}, "minItems": 3, "maxItems": 9},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "tags", "ok"],
    "additionalProperties": False,
}


def format_of(kind: str) -> Any:
    """Return the format of this name: a pattern, the schema, or a text with holes."""
    from formatter_core import FormatterBuilder, formats

    if kind == "schema":
        return SCHEMA
    if kind == "card":
        b = FormatterBuilder()
        return b.append("n=", b.integer(minimum=0, maximum=120, name="n"), "; ", b.regex("[a-j]{1,6}", name="w"), ".")
    return formats.regex(PATTERNS[kind])


def main(name: str, folder: str, output: str) -> None:
    absent = absence(name)
    if absent:
        Path(output).write_text(json.dumps({"absent": absent}))
        return
    if name in ON_V2:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
        from tests.engines_real.vllm_triton import interpret_triton

        interpret_triton()
    announce_amx()
    from vllm import LLM

    options: dict[str, Any] = {}
    counted = ("runner v1", "runner v2", "draft rows", "rows of NaN", "copies after the forward pass")
    seen: dict[str, int] = dict.fromkeys(counted, 0)
    if name not in ("v1", "v2"):
        options["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    if name.startswith("backend"):
        os.environ["FORMATTER_VLLM_STRUCTURED_OUTPUTS"] = "1"
    if name not in ("v1", "v2"):
        hook = import_module("formatter_vllm.entry_point").EntryPointLogitsProcessor
    else:
        hook = import_module("formatter_vllm").FormatterLogitsProcessor
        options["logits_processors"] = [hook]
    watch(hook, seen)
    llm = LLM(model=folder, **SMALL_ENGINE, **options)
    scenarios = Scenarios(llm, seen)
    if name.startswith("backend"):
        record = scenarios.backend()
    else:
        record = scenarios.speculation() if name == "drafts" else scenarios.everything()
    record["metrics"] = scenarios.metrics()
    record["seen"] = seen
    record["failures"] = scenarios.failures()
    record["checks requests"] = import_module("formatter_vllm._compat").CHECKS_REQUESTS
    Path(output).write_text(json.dumps(record), encoding="utf-8")


def announce_amx() -> None:
    """Be a machine whose processor announces AMX that the process may not use: what chooses it dies of SIGILL."""
    import torch

    torch.cpu._is_amx_tile_supported = lambda: True


def absence(name: str) -> str | None:
    """Return what this vLLM is too old to have; None if it has all that is needed."""
    if name in ON_V2:  # nothing of vLLM may be imported before Triton's interpreter is chosen
        specification = importlib.util.find_spec("vllm")
        folder = Path(specification.origin or "").parent if specification is not None else Path()
        if not any(folder.glob("v1/worker/gpu/sample/logits_processor*")):
            return "this vLLM has no logits processors on Model Runner V2"
    if name == "backend" and importlib.util.find_spec("vllm.parser") is None:
        return "this vLLM is too old for the structured-outputs backend"
    return None


def watch(hook: Any, seen: dict[str, int]) -> None:
    """Count which runner calls the hook, and keep the objects that vLLM makes."""
    made, apply = hook.__init__, hook.apply
    hook.objects = []

    def remembered(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        hook.objects.append(self)

    def counted(self: Any, logits: Any, ctx: Any = None) -> Any:
        seen["runner v1" if ctx is None else "runner v2"] += 1
        if ctx is not None:
            seen["draft rows"] += int((ctx.expanded_local_pos > 0).sum())
        seen["rows of NaN"] += int(logits.isnan().any(dim=-1).sum())
        with count_copies() as copies:
            masked = apply(self, logits, ctx)
        seen["copies after the forward pass"] += len(copies)
        return masked

    hook.__init__, hook.apply = remembered, counted
    Scenarios.hook = hook


class Scenarios:
    """Each method is one thing that users do; it returns what came out as JSON data."""

    hook: Any = None

    def __init__(self, llm: Any, seen: dict[str, int]) -> None:
        from formatter_vllm import create_vocabulary

        self.llm = llm
        self.seen = seen
        self.vocabulary = create_vocabulary(llm.get_tokenizer(), model=llm)

    @property
    def top(self) -> dict[str, Any]:
        """Triton's interpreter cannot run the kernel of these two."""
        return {} if self.seen["runner v2"] else {"top_k": 20, "top_p": 0.8}

    def everything(self) -> dict[str, Any]:
        return {
            "mixed": self.mixed(),
            "several": self.several(),
            "aborted": self.aborted(),
            "ends": self.ends(),
            "refused": self.refused(),
            "unchecked": self.unchecked(),
            "reasoning": self.reasoning(),
            "mixed again": self.mixed(seed=1),
        }

    def failures(self) -> int:
        return sum(processor.failures for processor in self.hook.objects)

    def metrics(self) -> dict[str, float]:
        return {metric.name: metric.value for metric in self.llm.get_metrics() if hasattr(metric, "value")}

    def parameters(self, kind: str | None, **options: Any) -> Any:
        from vllm import SamplingParams

        from formatter_vllm import create_extra_args

        arguments = None if kind is None else create_extra_args(format_of(kind))
        return SamplingParams(**{"max_tokens": 150, "temperature": 1.0, "extra_args": arguments, **options})

    def prompt(self, seed: int) -> str:
        rng = random.Random(seed)
        return " ".join("".join(rng.choices("abcdefghij", k=4)) for _ in range(rng.choice([1, 20, 60])))

    def generate(self, kinds: list[str | None], prompts: list[str], parameters: list[Any]) -> list[dict[str, Any]]:
        outputs = self.llm.generate(prompts, parameters, use_tqdm=False)
        return [self.record(kind, output) for kind, output in zip(kinds, outputs, strict=True)]

    def record(self, kind: str | None, output: Any) -> dict[str, Any]:
        from formatter_vllm import result

        outputs = []
        for one in output.outputs:
            found = {"text": one.text, "ids": list(one.token_ids), "finish": one.finish_reason, "stop": one.stop_reason}
            if kind is not None:
                for how, given in (("by text", None), ("by tokens", self.vocabulary)):
                    made = result(one, format_of(kind), vocabulary=given)
                    found[how] = {"complete": made.is_complete, "ended": made.ended}
                    if made.is_complete:
                        found[how].update(value=made.value, captures={k: list(v) for k, v in made.captures.items()})
            outputs.append(found)
        return {"kind": kind, "prompt tokens": len(output.prompt_token_ids), "outputs": outputs}

    def mixed(self, seed: int = 0) -> list[dict[str, Any]]:
        """Constrained and free requests side by side, greedy and sampled, with long and short prompts."""
        kinds = ["word", None, "schema", "list", "card", "short", "list", None, "schema", "word", "list", "schema"]
        parameters = [self.parameters(kind, temperature=float(index % 4 > 0)) for index, kind in enumerate(kinds)]
        return self.generate(kinds, [self.prompt(100 * seed + index) for index in range(len(kinds))], parameters)

    def several(self) -> list[dict[str, Any]]:
        return self.generate(["word", "card"], ["ab", "cd"], [self.parameters(kind, n=3) for kind in ("word", "card")])

    def aborted(self) -> list[dict[str, Any]]:
        """Take requests away after some steps, beside others that go on."""
        engine = self.llm.llm_engine
        kinds = {"1": "list", "2": "word", "3": "list", "4": None}
        for key, kind in kinds.items():
            engine.add_request(key, "ab cd", self.parameters(kind, ignore_eos=kind is None))
        finished, steps = {}, 0
        while engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished:
                    finished[output.request_id] = output
            steps += 1
            if steps == 6:
                engine.abort_request(["1", "4"])
        return [self.record(kinds[key], output) for key, output in sorted(finished.items()) if key in ("2", "3")]

    def ends(self) -> dict[str, Any]:
        tokenizer = self.llm.get_tokenizer()
        letter = tokenizer.encode("a", add_special_tokens=False)[0]
        digit = tokenizer.encode("1", add_special_tokens=False)[0]
        cases = {
            "ignored": ("short", {"ignore_eos": True, "max_tokens": 20}),
            "stop ids": ("list", {"stop_token_ids": [letter]}),
            "stop string": ("list", {"stop": [","]}),
            "length": ("list", {"max_tokens": 5}),
            "logprobs": ("short", {"logprobs": 2}),
            "penalties": ("word", {"repetition_penalty": 1.5, "min_p": 0.01, **self.top}),
            "nothing left": ("short", {"allowed_token_ids": [digit]}),
        }
        kinds = [kind for kind, _ in cases.values()]
        parameters = [self.parameters(kind, **options) for kind, options in cases.values()]
        return dict(zip(cases, self.generate(kinds, ["x"] * len(cases), parameters), strict=True))

    def refused(self) -> dict[str, str | None]:
        """Bad requests, each followed by nothing: the next scenario shows that the engine still answers."""
        from vllm import SamplingParams

        bad: dict[str, Any] = {
            "regex": {"regex": "a("},
            "schema": {"json_schema": {"type": "object", "properties": {"x": {"type": "strin"}}}},
            "unsupported": {"json_schema": {"type": "array", "items": {"type": "object"}, "uniqueItems": True}},
            "key": {"grammer": "x"},
            "limit": {"regex": "[a-z]{10000000}"},
        }
        cases = {name: {"extra_args": {"formatter": value}} for name, value in bad.items()}
        cases["min_tokens"] = {"extra_args": {"formatter": {"regex": "a"}}, "min_tokens": 3}
        messages: dict[str, str | None] = {}
        for name, options in cases.items():
            try:
                self.llm.generate(["x"], SamplingParams(max_tokens=5, **options), use_tqdm=False)
                messages[name] = None
            except Exception as error:  # noqa: BLE001 - the class differs between versions; the message is what counts
                messages[name] = f"{type(error).__name__}: {error}"
        return messages

    def unchecked(self) -> list[dict[str, Any]]:
        """Send a fault that only the worker finds, as in a vLLM that checks no request when it comes in."""
        from vllm import SamplingParams

        before = self.failures()
        check = self.hook.validate_params
        self.hook.validate_params = classmethod(lambda *_: None)
        try:
            bad = SamplingParams(max_tokens=20, extra_args={"formatter": {"regex": "("}})
            found = self.generate([None, "word"], ["x", "y"], [bad, self.parameters("word")])
        finally:
            self.hook.validate_params = check
        return [*found, {"failures": self.failures() - before}]

    def reasoning(self) -> list[dict[str, Any]]:
        """Reasoning with a budget of tokens, sampled: what we read, and what stands in the tokens."""
        from vllm import SamplingParams

        from formatter_vllm import create_extra_args, result

        format = budgeted_answer()
        parameters = SamplingParams(max_tokens=150, temperature=1.0, extra_args=create_extra_args(format))
        outputs = self.llm.generate([self.prompt(seed) for seed in range(6)], parameters, use_tqdm=False)
        records = []
        for output in outputs:
            value = result(output.outputs[0], format, vocabulary=self.vocabulary).value
            reasoning, number, count = judged(self.vocabulary, output.outputs[0].token_ids)
            records.append({"read": [value.reasoning, value.content], "said": [reasoning, number], "count": count})
        return records

    def backend(self) -> dict[str, Any]:
        """Run vLLM's structured outputs with this project as their backend."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        import_module("formatter_vllm.structured_outputs")
        said = self.said()
        kinds: list[str | None] = ["list", "schema", "word", None] * 2
        prompts = [said.get(kind or "list", "") * 2 for kind in kinds]
        mixed = []
        # Apart, for the V1 runner on a CPU confuses drafts where greedy and sampled requests share a batch.
        for temperature in (0.0, 1.0):
            parameters = []
            for kind in kinds:
                own = {"json": SCHEMA} if kind == "schema" else {"regex": PATTERNS[kind or "word"]}
                wanted = None if kind is None else StructuredOutputsParams(**own)
                parameters.append(SamplingParams(max_tokens=120, temperature=temperature, structured_outputs=wanted))
            mixed += self.generate(kinds, prompts, parameters)
        bad: dict[str, dict[str, Any]] = {
            "regex": {"regex": r"(a)\1"},
            "unsupported": {"json": {"type": "array", "items": {"type": "object"}, "uniqueItems": True}},
        }
        refused = {}
        for name, own in bad.items():
            try:
                self.llm.generate(["x"], SamplingParams(structured_outputs=StructuredOutputsParams(**own)))
                refused[name] = "nothing was raised"
            except Exception as error:  # noqa: BLE001 - the class differs between versions; the message is what counts
                refused[name] = str(error)
        choice = SamplingParams(structured_outputs=StructuredOutputsParams(choice=["abc", "é"]), max_tokens=20)
        return {
            "mixed": mixed,
            "refused": refused,
            "choice": self.generate([None], ["x"], [choice]),
            # The V1 runner leaves our logits processor out beside drafts, and nobody is told.
            "left out": self.generate(["word"], ["x"], [self.parameters("word", max_tokens=40)]),
        }

    def said(self) -> dict[str, str]:
        return {
            "list": "[true, 1, true, 1, true, 1, true, 1] ",
            "word": "abcabcabcabc ",
            "schema": '{"name": "abc", "tags": ["abc", "abc", true, null], "ok": true} ',
        }

    def speculation(self) -> dict[str, Any]:
        """Run prompts that repeat texts of the format, so that there are drafts, right and wrong ones."""
        said = self.said()
        kinds: list[str | None] = [*said, None] * 2
        prompts = [said.get(kind or "list", "") * 2 for kind in kinds]
        parameters = [
            self.parameters(kind, temperature=float(index >= 4), max_tokens=100) for index, kind in enumerate(kinds)
        ]
        return {"mixed": self.generate(kinds, prompts, parameters)}


if __name__ == "__main__":
    main(*sys.argv[1:])
