"""Stand-ins for mlx and mlx-lm 0.32: arrays are numpy's, and the loops call processors as the real ones do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.adapters.engine_modules import modules_of


def put_along_axis(a: np.ndarray, indices: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    changed = a.copy()
    np.put_along_axis(changed, indices, values, axis)
    return changed


def generate_step(
    prompt: Any, model: Any, *, sampler: Any, logits_processors: Any, input_embeddings: Any = None
) -> Any:
    tokens = None

    def _model_call(input_tokens: Any) -> Any:
        return model(input_tokens)

    def _step(input_tokens: Any) -> Any:
        nonlocal tokens
        logits = _model_call(input_tokens[None])[:, -1, :]
        if logits_processors and len(input_tokens) > 0:
            tokens = input_tokens if tokens is None else np.concatenate([tokens, input_tokens])
            for processor in logits_processors:
                logits = processor(tokens, logits)
        return sampler(logits)

    y = _step(prompt)
    while True:
        next_y = _step(y)
        yield y.item()
        y = next_y


def speculative_generate_step(prompt: Any, model: Any, draft_model: Any) -> Any:
    raise NotImplementedError


class GenerationBatch:
    """Its rows are shown lists that the caller makes up; `seen` are the logits after the processors."""

    def __init__(self, uids: list[int], logits_processors: list[list[Any]]) -> None:
        self.model = None
        self.uids = uids
        self.logits_processors = logits_processors
        self.tokens: list[list[int]] = [[] for _ in uids]

    def _step(self, inputs: np.ndarray, logits: np.ndarray) -> np.ndarray:
        processed = []
        for e in range(len(self.uids)):
            sample_logits = logits[e : e + 1]
            for processor in self.logits_processors[e]:
                sample_logits = processor(np.array([*self.tokens[e], inputs[e]]), sample_logits)
            processed.append(sample_logits)
        return np.concatenate(processed)


class BatchGenerator:
    def __init__(self, logits_processors: list[list[Any]]) -> None:
        self.batch = GenerationBatch(list(range(len(logits_processors))), logits_processors)

    def next(self, kept: list[list[int]], logits: np.ndarray) -> np.ndarray:
        self.batch.tokens = [row[:-1] for row in kept]
        return self.batch._step(np.array([row[-1] for row in kept]), logits)


@contextmanager
def mlx_of(_: str = "") -> Iterator[None]:
    """Import the adapter on these stand-ins, of one release alone; afterwards both are forgotten."""
    arrays = {
        name: getattr(np, name) for name in ("array", "full", "zeros", "take_along_axis", "broadcast_to", "float32")
    }
    loops = (generate_step, speculative_generate_step, GenerationBatch, BatchGenerator)
    contents: dict[str, dict[str, Any]] = {
        "mlx.core": {
            **arrays,
            **dict.fromkeys(("async_eval", "eval"), lambda *arrays: None),
            "put_along_axis": put_along_axis,
            "Dtype": np.dtype,
        },
        "mlx_lm.generate": {one.__name__: one for one in loops},
        "mlx_lm.models.cache": {"KVCache": object, "make_prompt_cache": lambda model: []},
    }
    with modules_of("formatter_mlx", contents):
        yield
