"""A step of vLLM with our logits processor against the same step with the processor of an older commit, in turns.

    python3.11 dev.py bench vllm_before --before FOLDER

FOLDER is a checkout of the older commit whose crate has been built there. Each has an engine of vLLM of its own, in a
process of its own; today's code has two, so that the ratio of these shows what the ratio of the others is worth. All
write the same tokens, a JSON text. Times are CPU time of the process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OPTIONS: dict[str, dict[str, Any]] = {
    "--before": {"required": True, "help": "a checkout of the older commit"},
    "--batch": {"type": int, "default": 32},
    "--tokens": {"type": int, "default": 64},
    "--repetitions": {"type": int, "default": 15},
}
SMOKE = {"batch": 2, "tokens": 8, "repetitions": 1}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    from tokenizers import Tokenizer

    from benchmarks.harness import beside, ratio, take_turns
    from benchmarks.vllm_overhead import SCHEMA, made_model, starts, text

    model = made_model(options.output.absolute().parent / "vllm_overhead_model")
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    ids = tokenizer.encode(text(), add_special_tokens=False).ids
    scripts = [[ids[0], *ids[start : start + options.tokens - 1]] for start in starts(tokenizer, ids)]
    task = json.dumps({"model": str(model), "schema": SCHEMA, "scripts": scripts, "batch": options.batch})
    trees = {"before": Path(options.before).absolute(), "now": ROOT, "now again": ROOT}
    with ExitStack() as stack:
        engines = {name: stack.enter_context(begun(tree, task)) for name, tree in trees.items()}
        milliseconds = take_turns(
            {name: partial(step, engine) for name, engine in engines.items()}, options.repetitions
        )
    control = ratio(milliseconds["now again"], milliseconds["now"])
    figures = beside(milliseconds, "before")
    return {"batch": options.batch, "tokens": options.tokens, "CPU ms a step": figures, "control": control}


def begun(tree: Path, task: str) -> subprocess.Popen[str]:
    """A process with the code of this tree."""
    from tests.engines_real.vllm_processes import environment

    paths = [ROOT / "tests" / "engines_real" / "vllm_site", tree, tree / "integrations"]
    env = environment(VLLM_LOGGING_LEVEL="ERROR", PYTHONPATH=os.pathsep.join(map(str, paths)))
    words = [sys.executable, __file__]
    process = subprocess.Popen(words, env=env, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ask(process, task)
    return process


def ask(process: subprocess.Popen[str], line: str) -> str:
    if process.stdin is None or process.stdout is None:
        raise ValueError("a process without pipes")
    process.stdin.write(line + "\n")
    process.stdin.flush()
    if not (answer := process.stdout.readline()):
        raise SystemExit(f"the engine ended with {process.wait()}")
    return answer


def step(process: subprocess.Popen[str]) -> float:
    return float(ask(process, "go on"))


def show(found: dict[str, Any]) -> str:
    """A row for each code."""
    from benchmarks.harness import markdown

    rows = [[name, f"{one['median']:.2f}", f"{one['ratio']:.3f}"] for name, one in found["CPU ms a step"].items()]
    head = ("code", f"CPU ms a step, {found['batch']} requests", "of before")
    return f"{markdown(head, rows)}\n\ncontrol against control: {found['control']:.3f}"


def serve() -> None:
    """In a process of its own, with either code: what nothing but vLLM and our logits processor is needed for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is no answer
    following = importlib.import_module("vllm_scripts").Following  # beside this file
    sys.path.remove(str(Path(__file__).parent))  # other modules go by the names of benchmarks too
    task = json.loads(sys.stdin.readline())
    from vllm import LLM, SamplingParams

    from formatter_vllm import FormatterLogitsProcessor, create_extra_args

    class ScriptedProcessor(following, FormatterLogitsProcessor):  # type: ignore[misc, valid-type]
        """Ours, and then the push towards the next token of the script."""

    scripts, batch = task["scripts"], task["batch"]
    llm = LLM(
        task["model"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=batch,
        logits_processors=[ScriptedProcessor],
    )
    format = create_extra_args(task["schema"])
    answers.write("ready\n")
    answers.flush()
    for _ in sys.stdin:
        wanted = [
            SamplingParams(
                temperature=0, max_tokens=len(script), ignore_eos=True, extra_args={**format, "script": script}
            )
            for script in (scripts[row % len(scripts)] for row in range(batch))
        ]
        spent = time.process_time()
        outputs = llm.generate([{"prompt_token_ids": [5, 6, 7, 8]}] * batch, wanted, use_tqdm=False)
        spent = time.process_time() - spent
        for one, output in zip(wanted, outputs, strict=True):
            if list(output.outputs[0].token_ids) != one.extra_args["script"]:
                raise SystemExit(f"the script is not allowed: {output.outputs[0].text!r}")
        answers.write(f"{1000 * spent / len(scripts[0])}\n")
        answers.flush()


if __name__ == "__main__":
    serve()
