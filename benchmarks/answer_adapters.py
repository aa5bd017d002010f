"""Ask the answers' model through vLLM and mlx-lm, with our adapter of each; neither serves other libraries here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from benchmarks.answer_engines import OUR_OPTIONS, TransformersModel, Written, our_format
from benchmarks.answer_tasks import Task
from examples.real_model import END_OF_TURN

__all__ = ["ADAPTERS", "MlxModel", "VllmModel"]


class AdapterModel(Protocol):
    """Stand for a model that answers within formats through one of our adapters."""

    def write(
        self, name: str, tasks: Sequence[Task], prompts: Sequence[str], seed: int | None, most: int
    ) -> Iterator[Written]:
        """Yield an answer to each prompt, under the engine of this name; greedy without a seed."""


def _format(name: str, task: Task) -> Any:
    """Give the format that an adapter of ours gets for a task; None without one."""
    if name == "no format":
        return None
    if name not in OUR_OPTIONS:
        raise ValueError(f"{name} is not asked through this inference engine")
    return our_format(task, **OUR_OPTIONS[name])


class VllmModel:
    """Run the model on vLLM in this process, with the logits processor."""

    def __init__(self, path: str, threads: int = 1) -> None:
        os.environ.update({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
        import torch
        from vllm import LLM

        from formatter_vllm import FormatterLogitsProcessor

        torch.set_num_threads(threads)
        self.llm = LLM(
            path,
            dtype="float32",
            enforce_eager=True,
            max_model_len=2048,
            max_num_seqs=16,
            logits_processors=[FormatterLogitsProcessor],
        )
        self.tokenizer: Any = self.llm.get_tokenizer()
        self.end_id = self.tokenizer.convert_tokens_to_ids(END_OF_TURN)

    def write(
        self, name: str, tasks: Sequence[Task], prompts: Sequence[str], seed: int | None, most: int
    ) -> Iterator[Written]:
        """Yield an answer to each prompt, under the engine of this name; greedy without a seed."""
        from vllm import SamplingParams

        from formatter_vllm import create_extra_args

        wanted = [
            SamplingParams(
                temperature=0.0 if seed is None else 0.8,
                seed=seed,
                max_tokens=most,
                stop_token_ids=[self.end_id],
                extra_args=None if format is None else create_extra_args(format),
            )
            for format in (_format(name, task) for task in tasks)
        ]
        asked = [{"prompt_token_ids": self.tokenizer.encode(each, add_special_tokens=False)} for each in prompts]
        for output in self.llm.generate(asked, wanted, use_tqdm=False):
            ids = list(output.outputs[0].token_ids)
            yield _written(ids, {self.end_id}, self.tokenizer)


class MlxModel:
    """Run the model on mlx-lm, one answer at a time."""

    def __init__(self, path: str, threads: int = 1) -> None:
        import mlx_lm

        os.environ["OMP_NUM_THREADS"] = str(threads)
        self.library = mlx_lm
        self.model, self.tokenizer = mlx_lm.load(path)[:2]
        self.end_ids = set(self.tokenizer.eos_token_ids)

    def write(
        self, name: str, tasks: Sequence[Task], prompts: Sequence[str], seed: int | None, most: int
    ) -> Iterator[Written]:
        """Yield an answer to each prompt, under the engine of this name; greedy without a seed."""
        import mlx.core as mx
        from mlx_lm.sample_utils import make_sampler

        from formatter_mlx import create_logits_processor

        for number, (task, prompt) in enumerate(zip(tasks, prompts, strict=True)):
            format = _format(name, task)
            processors: list[Callable[[Any, Any], Any]] = []
            if format is not None:
                processors.append(create_logits_processor(self.tokenizer, format, model=self.model))
            mx.random.seed((seed or 0) * 1000 + number)
            ids = [
                response.token
                for response in self.library.stream_generate(
                    self.model,
                    self.tokenizer,
                    self.tokenizer.encode(prompt, add_special_tokens=False),
                    max_tokens=most,
                    sampler=make_sampler(0.0 if seed is None else 0.8),
                    logits_processors=processors,
                )
            ]
            yield _written(ids, self.end_ids, self.tokenizer)


def _written(ids: Sequence[int], end_ids: set[int], tokenizer: Any) -> Written:
    ended = bool(ids) and ids[-1] in end_ids
    text = str(tokenizer.decode(ids[:-1] if ended else ids))
    return Written(text, ended, len(ids), len(ids), 0.0, list(ids))


#: Inference engines beside llama.cpp that run the model, by name.
ADAPTERS: dict[str, Callable[[str, int], AdapterModel]] = {
    "transformers": TransformersModel,
    "vLLM": VllmModel,
    "mlx-lm": MlxModel,
}
