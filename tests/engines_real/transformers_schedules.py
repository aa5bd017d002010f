"""Random schedules of logits processors that are reused, nested, threaded and reset, on `generate` of transformers.

Each call of `generate` ends in an error of ours or in texts of their format, checked by a pattern of Python's.

    python3.11 dev.py run dev -m tests.engines_real.transformers_schedules --count 1000 --output schedules.json
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import StoppingCriteria

from formatter_core import formats
from formatter_core.errors import FormatterError
from formatter_transformers import create_logits_processor

#: Each pattern with one that matches the texts that a limit on their length cut.
PATTERNS = {
    "[0-9]{3}": "[0-9]{0,3}",
    "[a-j]{2,8}": "[a-j]{0,8}",
    r"-?[1-9][0-9]{0,5}": r"-?([1-9][0-9]{0,5})?",
    r"\[(true|[0-9])(,(true|[0-9]))*\]": r"(\[((true|[0-9]),)*(t?|tr|tru|true|[0-9])?\]?)?",
}
PROMPTS = ["Question 1", "Question 12", "Question 123", "Question 1a", "x", "[true", "-1"]
MODES: list[dict[str, Any]] = [
    {},
    {"do_sample": True},
    {"do_sample": True, "num_return_sequences": 3},
    {"num_beams": 3},
    {"prompt_lookup_num_tokens": 3},
    {"do_sample": True, "temperature": 2.0, "top_k": 0},
]


class OutOfFormat(AssertionError):
    """A text that its format does not allow, without an error."""


class _Interruption(StoppingCriteria):
    """Does something else between two tokens."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self._act(input_ids)
        return torch.zeros(len(input_ids), dtype=torch.bool)


class _Schedule:
    def __init__(self, seed: int, tokenizer: Any, model: Any, assistant: Any) -> None:
        self._tokenizer, self._model, self._assistant = tokenizer, model, assistant
        self.rng = random.Random(seed)
        self.outcomes: Counter[str] = Counter()
        patterns = self.rng.choices(list(PATTERNS), k=self.rng.randint(1, 3))
        self._processors = [
            (pattern, create_logits_processor(tokenizer, formats.regex(pattern), model=model)) for pattern in patterns
        ]
        self._outputs: list[torch.Tensor] = []

    def run(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            seeds = [self.rng.randint(0, 10**9) for _ in range(self.rng.choice([1, 1, 1, 2, 5, 8]))]
            with ThreadPoolExecutor(len(seeds)) as pool:
                for future in [pool.submit(self._act, random.Random(seed), 0) for seed in seeds]:
                    future.result()

    def _act(self, rng: random.Random, depth: int) -> None:
        pattern, processor = rng.choice(self._processors)
        if rng.random() < 0.4:
            processor.reset()
        options: dict[str, Any] = dict(rng.choice(MODES))
        if self._assistant is not None and not options.keys() & {"num_return_sequences", "num_beams"}:
            options = {"do_sample": rng.random() < 0.5, "assistant_model": self._assistant}
        if depth < 2 and rng.random() < 0.6:
            options["stopping_criteria"] = [_Interruption(lambda rows: self._interrupt(rng, depth, rows))]
        inputs = self._inputs(rng)
        width = inputs.shape[1]
        try:
            with torch.random.fork_rng():
                torch.manual_seed(rng.randint(0, 10**9))
                output = self._model.generate(
                    inputs,
                    attention_mask=torch.ones_like(inputs),
                    max_new_tokens=rng.choice([2, 24]),
                    logits_processor=[processor],
                    **options,
                )
        except FormatterError as error:
            self.outcomes[type(error).__name__] += 1
            return
        self._outputs.append(output[:1])
        for row in output[:, width:].tolist():
            self._judge(pattern, row, f"{options.keys()} after {self._tokenizer.decode(inputs[0])!r}")
        try:
            results = processor.results(output)
        except FormatterError as error:  # it was reset, or serves another call by now
            self.outcomes[f"results: {type(error).__name__}"] += 1
            return
        for result in results:
            if result.is_complete and not re.fullmatch(pattern, result.value):
                raise OutOfFormat(f"results() calls {result.value!r} complete, which {pattern} is not")

    def _interrupt(self, rng: random.Random, depth: int, rows: torch.Tensor) -> None:
        chance = rng.random()
        if chance < 0.1:
            rng.choice(self._processors)[1].reset()
        elif chance < 0.25:
            self._act(rng, depth + 1)
        elif chance < 0.5:
            time.sleep(0.001)  # another thread's turn

    def _inputs(self, rng: random.Random) -> torch.Tensor:
        if self._outputs and rng.random() < 0.3:
            output = rng.choice(self._outputs)
            return output[:, : rng.randint(1, output.shape[1])]
        return torch.tensor([self._tokenizer(rng.choice(PROMPTS))["input_ids"]])

    def _judge(self, pattern: str, tokens: list[int], where: str) -> None:
        ends = self._model.generation_config.eos_token_id
        first_end = next((index for index, token in enumerate(tokens) if token in ends), None)
        text = self._tokenizer.decode(tokens[:first_end], clean_up_tokenization_spaces=False)
        allowed = PATTERNS[pattern] if first_end is None else pattern
        self.outcomes["cut" if first_end is None else "complete"] += 1
        if not re.fullmatch(allowed, text):
            raise OutOfFormat(f"{text!r} is not in {allowed}; {where}")


def run_schedule(seed: int, tokenizer: Any, model: Any, assistant: Any = None) -> Counter[str]:
    """The outcomes of the calls of one schedule.

    Raises:
        OutOfFormat: a text that its format does not allow, without an error.
    """
    schedule = _Schedule(seed, tokenizer, model, assistant)
    schedule.run()
    return schedule.outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()

    from tests.engines_real.transformers_models import random_model, trained_tokenizer

    torch.set_num_threads(1)
    tokenizer = trained_tokenizer()
    model = random_model("llama", tokenizer)
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.count):
        try:
            outcomes += run_schedule(seed, tokenizer, model, model if seed % 4 == 3 else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
            failures[seed] = f"{type(error).__name__}: {error}"[:300]
    report = {
        "transformers": transformers.__version__,
        "schedules": arguments.count,
        "first_seed": arguments.first_seed,
        "outcomes": dict(outcomes.most_common()),
        "failed_schedules": failures,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False)
    with arguments.output.open("w") if arguments.output else nullcontext(sys.stdout) as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
