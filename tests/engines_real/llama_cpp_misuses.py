"""Misuse the llama.cpp hooks and scheduler at random on the real engine: each is an error of ours, none a wrong result.

    python3.11 dev.py run llama_cpp -m tests.engines_real.llama_cpp_misuses --count 500 --interruptions 200 OUTPUT

The process must live to the end: a misuse that makes llama.cpp abort or crash shows as no output.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from formatter_core import formats
from formatter_core.errors import FormatterError
from formatter_core.generation import Sampling, choose
from formatter_llama_cpp import Scheduler, create_logits_processor, create_sampler, create_vocabulary, llama_model
from tests.engines_real.llama_cpp_models import write_bpe, write_spm

_LINE = "[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]"
_FORMAT = formats.regex(_LINE)
#: Lines of our own code that a run of the scheduler below executes, about; interruptions are drawn from these.
_LINES = 8_000


class Misuses:
    """Hold the models, and one method for each kind of misuse, which returns what came out."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.path = write_bpe(folder / "bpe.gguf")
        self.llama = self._load(self.path)
        self.same_width = self._load(write_bpe(folder / "other.gguf", seed=7))
        self.other_width = self._load(write_spm(folder / "spm.gguf"))

    @staticmethod
    def _load(path: Path, **options: Any) -> Any:
        return llama_cpp.Llama(
            str(path), n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False, seed=1, type_k=0, type_v=0, **options
        )

    def wrong_model(self) -> str:
        """Let another model call a processor."""
        other = [self.same_width, self.other_width][self.random.integers(2)]
        processor = create_logits_processor(self.llama, _FORMAT)
        output = other.create_completion("the", max_tokens=8, seed=self._seed(), logits_processor=processor)
        return _judged(lambda: processor.result(output))

    def two_threads(self) -> str:
        """Let two models call a processor at a time."""
        processor = create_logits_processor(self.llama, _FORMAT)
        models = [self.llama, self.same_width]
        with ThreadPoolExecutor(2) as pool:
            outputs = list(
                pool.map(lambda one: one.create_completion("the", max_tokens=60, logits_processor=processor), models)
            )
        return "; ".join(sorted({_judged(partial(processor.result, output)) for output in outputs}))

    def closed(self) -> str:
        """Use a closed model."""
        llama = self._load(self.path)
        if self.random.integers(2):
            create_vocabulary(llama)
        llama.close()
        calls: list[Callable[[Any], Any]] = [
            create_vocabulary,
            lambda llama: create_logits_processor(llama, _FORMAT),
            lambda llama: create_sampler(llama, _FORMAT),
            Scheduler,
            llama_model,
        ]
        return _judged(lambda: calls[self.random.integers(len(calls))](llama))

    def grammar_beside(self) -> str:
        """Give a grammar of the library's own beside a processor."""
        texts = ["root ::= [0-9] [0-9]", 'root ::= "{" [a-z]* "}"', "root ::= [a-z ]+"]
        grammar = llama_cpp.LlamaGrammar.from_string(texts[self.random.integers(3)], verbose=False)
        processor = create_logits_processor(self.llama, _FORMAT)
        output = self.llama.create_completion("the", max_tokens=20, logits_processor=processor, grammar=grammar)
        return _judged(lambda: processor.result(output))

    def another_output(self) -> str:
        """Ask for the result of another call's output."""
        processor = create_logits_processor(self.llama, formats.choice(["left", "right"]))
        self.llama.create_completion("the", max_tokens=20, seed=self._seed(), logits_processor=processor)
        other = create_logits_processor(self.llama, formats.choice(["Delhi", "Oslo"]))
        output = self.llama.create_completion("the", max_tokens=20, seed=self._seed(), logits_processor=other)
        return _judged(lambda: processor.result(output))

    def wrong_numbers(self) -> str:
        """Give numbers out of range."""
        wrong: list[dict[str, int]] = [
            {"context_size": 0},
            {"context_size": -3},
            {"max_sequences": 0},
            {"max_sequences": 10**6},
            {"batch": 0},
        ]
        asked: list[dict[str, Any]] = [
            {"top_logprobs": -1},
            {"max_tokens": 0},
            {"samples": -1},
            {"prompt": [10**7]},
            {"prompt": []},
        ]
        if self.random.integers(2):
            return _judged(lambda: Scheduler(self.llama, **wrong[self.random.integers(len(wrong))]))
        with Scheduler(self.llama) as scheduler:
            return _judged(
                lambda: scheduler.submit(**dict[str, Any]({"prompt": "the"}, **asked[self.random.integers(len(asked))]))
            )

    def wrong_options(self) -> str:
        """Give options that cannot be weighed."""
        options = [[], ["a", "a"], ["", "b"], ["x" * 5000]][self.random.integers(4)]
        return _judged(lambda: choose(llama_model(self.llama), "the", options))

    def interrupted(self) -> str:
        """Interrupt a run of the scheduler somewhere, and go on."""
        job: dict[str, Any] = {"format": _FORMAT, "max_tokens": 40, "sampling": Sampling(1.0, seed=self._seed())}
        alone = self._alone(job)
        left = int(self.random.integers(1, _LINES))

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if not re.search("formatter_llama_cpp|generation/written", frame.f_code.co_filename):
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        with Scheduler(self.llama, max_sequences=4, context_size=128) as scheduler:
            request = scheduler.submit("the name", samples=6, **job)
            try:
                sys.settrace(trace)
                for _ in scheduler.run():
                    pass
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            going_on = _judged(lambda: list(scheduler.run()))
        outputs = [sample.output for sample in request.samples]
        for output, expected in zip(outputs, alone, strict=True):
            if output is None:
                return "wrong: a sample without an output"
            if output.error is None and output.tokens != expected:
                return f"wrong: {output.text!r}"
        return "undisturbed" if left > 0 else going_on

    def reused(self) -> str:
        """Use a processor for two calls at a time, in one thread."""
        processor = create_logits_processor(self.llama, _FORMAT)
        stream = self.llama.create_completion("the", max_tokens=30, logits_processor=processor, stream=True)
        for _ in range(int(self.random.integers(1, 5))):
            next(stream, None)
        output = self.llama.create_completion("a name", max_tokens=30, seed=self._seed(), logits_processor=processor)
        return _judged(lambda: processor.result(output))

    def cancelled(self) -> str:
        """Cancel a request after some steps, beside one that goes on."""
        job: dict[str, Any] = {"format": _FORMAT, "max_tokens": 40, "sampling": Sampling(1.0, seed=self._seed())}
        alone = self._alone(job)
        with Scheduler(self.llama, max_sequences=4, context_size=128) as scheduler:
            request, other = scheduler.submit("the name", samples=6, **job), scheduler.submit("the", samples=2, **job)
            for _ in range(int(self.random.integers(0, 12))):
                scheduler.step()
            scheduler.cancel(other)
            for _ in scheduler.run():
                pass
        if [sample.output and sample.output.tokens for sample in request.samples] != alone:
            return "wrong: the other request changed"
        results = [sample.output.result for sample in other.samples if sample.output is not None]
        return _judged(lambda: [result.value for result in results if result is not None])

    def _alone(self, job: dict[str, Any]) -> list[tuple[int, ...]]:
        with Scheduler(self.llama, max_sequences=6, context_size=512) as scheduler:
            request = scheduler.submit("the name", samples=6, **job)
            for _ in scheduler.run():
                pass
            return [sample.output.tokens for sample in request.samples if sample.output is not None]

    def _seed(self) -> int:
        return int(self.random.integers(10_000))


def _judged(call: Callable[[], Any]) -> str:
    """Name the error that a misuse raised; "wrong" if it is none of ours, or the result is not right."""
    try:
        found = call()
    except FormatterError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
        return f"wrong: raw {error!r}"[:200]
    text = getattr(found, "text", None)
    if text is not None and found.is_complete and not re.fullmatch(_LINE, text):
        return f"wrong: {text!r}"
    return "incomplete" if text is not None and not found.is_complete else "right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="a JSON file for the outcomes of each kind of misuse")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--interruptions", type=int, default=200)
    options = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        misuses = Misuses(Path(folder), seed=1)
        kinds = [
            misuses.wrong_model,
            misuses.two_threads,
            misuses.closed,
            misuses.grammar_beside,
            misuses.another_output,
            misuses.wrong_numbers,
            misuses.wrong_options,
            misuses.reused,
            misuses.cancelled,
        ]
        chosen = [kinds[number % len(kinds)] for number in range(options.count - options.interruptions)]
        for kind in [*chosen, *[misuses.interrupted] * options.interruptions]:
            found.setdefault(kind.__name__, Counter())[kind()] += 1
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
