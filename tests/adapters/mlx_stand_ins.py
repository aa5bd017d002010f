"""Stand-ins for mlx and mlx-lm 0.32: arrays are numpy's, and the loops call processors as the real ones do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np


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


#: What is replaced, and the adapter, which has to be imported anew.
_PACKAGES = ("mlx", "mlx_lm", "formatter_mlx")


@contextmanager
def mlx_of(_: str = "") -> Iterator[None]:
    """The adapter on these stand-ins, of one release alone; afterwards both are forgotten."""
    core, loops, caches = ModuleType("mlx.core"), ModuleType("mlx_lm.generate"), ModuleType("mlx_lm.models.cache")
    caches.__dict__.update(KVCache=object, make_prompt_cache=lambda model: [])
    core.__dict__.update(array=np.array, full=np.full, zeros=np.zeros, take_along_axis=np.take_along_axis)
    core.__dict__.update(put_along_axis=put_along_axis, broadcast_to=np.broadcast_to)
    core.__dict__.update(Dtype=np.dtype, float32=np.float32)
    core.__dict__.update(dict.fromkeys(("async_eval", "eval"), lambda *arrays: None))
    for one in (generate_step, speculative_generate_step, GenerationBatch, BatchGenerator):
        setattr(loops, one.__name__, one)
    mlx = ModuleType("mlx")
    mlx.__dict__.update(core=core)
    before = _taken_out()
    sys.modules.update({"mlx": mlx, "mlx_lm": ModuleType("mlx_lm"), "mlx_lm.models": ModuleType("mlx_lm.models")})
    sys.modules.update({one.__name__: one for one in (core, loops, caches)})
    try:
        yield
    finally:
        _taken_out()
        sys.modules.update(before)


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.split(".")[0] in _PACKAGES]
    return {name: sys.modules.pop(name) for name in names}
