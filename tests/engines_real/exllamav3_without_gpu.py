"""ExLlamaV3 on a machine without a GPU: what is real, and what stands in.

Real, from the installed wheel: `Config`, `Tokenizer`, `Filter`, `Job` with `prepare_for_queue`, `activate`,
`prepare_logit_mask`, `receive_sample` and what these call (rewinding, banned strings, stop conditions).

Standing in: the CUDA extension and the packages on it, which the code above asks for one function only; the loop around
the jobs (`Generator.iterate`), which launches kernels; the model, whose logits are a hash of what came before; and the
sampler, a kernel too, which here takes the best that the job's mask leaves.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import itertools
import json
import shutil
import sys
import time
import types
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: Packages that need a GPU to be built or to be of use.
_ABSENT = ("triton", "fla", "flash_attn", "formatron")


class _Anything:
    """Stands for anything that is taken from an absent module: a value, a decorator, a base class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) and not options else _Anything()


class _StandIn(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nothing else finds."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] in _ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the module empty."""


def import_exllamav3() -> Any:
    """Import the package, with stand-ins for its extension and for packages that are not installed."""
    if "exllamav3" not in sys.modules:
        sys.meta_path.append(_Finder())
        extension, functions = _StandIn("exllamav3.ext"), _StandIn("exllamav3_ext")
        functions.partial_strings_match = partial_strings_match
        extension.exllamav3_ext = functions
        sys.modules["exllamav3.ext"] = extension
    import exllamav3

    return exllamav3


def partial_strings_match(text: np.ndarray, offsets: np.ndarray, strings: np.ndarray) -> int:
    """Return where one of the strings begins in the text; -2 if the text ends with a part of one, else -1."""
    searched = bytes(text).decode("utf-32-le")
    places = np.frombuffer(bytes(offsets), dtype=np.int32)
    wanted = [bytes(strings[begin:end]).decode("utf-32-le") for begin, end in itertools.pairwise(places)]
    full = [searched.index(string) for string in wanted if string in searched]
    partial = [begin for begin in range(len(searched)) for string in wanted if string.startswith(searched[begin:])]
    if partial and (not full or min(partial) < min(full)):
        return -2
    return min(full, default=-1)


def tokenizer_in(folder: Path, source: Path, **changes: Any) -> Any:
    """Make the real `Tokenizer` in a folder with a copy of the model's files and a changed configuration."""
    exllamav3 = import_exllamav3()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(source / name, folder / name)
    config = {**json.loads((folder / "config.json").read_text()), "rope_theta": 1e4, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    return exllamav3.Tokenizer(exllamav3.Config.from_directory(str(folder)))


#: Every generator has threads of its own; here they share theirs.
POOL = ThreadPoolExecutor(max_workers=4)


class Loop:
    """Drives the jobs: one step asks all filters, samples a token for each job, and hands it over."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.padded_vocab_size = -(-tokenizer.config.vocab_size // 32) * 32
        self.pagetable = types.SimpleNamespace(max_pages=4096, referenced_pages={})
        self.model = types.SimpleNamespace(
            config=tokenizer.config, caps={}, output_device="cpu", modules=[types.SimpleNamespace(device="cpu")]
        )
        self.max_total_tokens, self.max_batch_size, self.max_chunk_size = 1 << 20, 64, 2048
        self.active_jobs: list[Any] = []
        self.pending_jobs: list[Any] = []
        self.filter_pool = POOL
        self.results: list[dict[str, Any]] = []
        self.masks: list[set[int]] = []
        """The ids that each mask left, in the order in which tokens were sampled."""
        self.wishes: list[int] = []
        """The tokens that the model writes next if it may."""

    def __getattr__(self, name: str) -> Any:
        """Tell a job that there are no drafts, no recurrent states, no images, and nothing else."""
        if name.startswith("_"):
            raise AttributeError(name)
        return 0 if name.endswith(("_tokens", "_min", "_interval")) else None

    def start(self, job: Any) -> None:
        job.prepare_for_queue(self, len(self.active_jobs))
        self._activate(job)
        self.active_jobs.append(job)

    def queue_again(self, job: Any) -> None:
        """Queue a job with a long output again, as the generator does; the job goes on."""
        assert job.prepare_for_requeue() is job
        self._activate(job)

    def _activate(self, job: Any) -> None:
        # Pinned memory is the driver's; these are the buffers that the job would make.
        job.pinned_logit_mask = torch.empty((1, self.padded_vocab_size), dtype=torch.half)
        job.pinned_logit_bitmask = torch.empty((1, self.padded_vocab_size // 32), dtype=torch.int32)
        job.time_enqueue = job.time_first_prefill = job.time_first_token = time.time()
        for sequence in job.sequences:
            sequence.allocated_pages = []
        job.activate()

    def run(self, *jobs: Any) -> None:
        for job in jobs:
            self.start(job)
        for _ in range(2000):
            if not self.active_jobs:
                return
            self.step()
        raise AssertionError("a job never ends")

    def step(self) -> None:
        """Take a step in the order of the generator: only the samples wait for the model."""
        with_filters = [job for job in self.active_jobs if job.new_tokens >= 0]
        for job in with_filters:
            for each in job.filters:
                if each.is_active:
                    in_pool = each.use_background_worker()
                    job.filter_futures.append(self.filter_pool.submit(each.get_next_logit_mask) if in_pool else None)
        self.launch()
        for job in with_filters:
            for each in job.filters:
                if each.is_active:
                    in_pool = each.use_background_worker()
                    job.logit_masks.append(None if in_pool else each.get_next_logit_mask())
        for job in self.active_jobs:
            job.prepare_logit_mask()
        self.wait()
        for job in list(self.active_jobs):
            token = torch.tensor([[self.sample(job)]])
            if job.receive_sample(None, token, None, None, None, self.results)[0]:
                self.active_jobs.remove(job)

    def launch(self) -> None:
        """Start the model; on a GPU, it goes on by itself."""

    def wait(self) -> None:
        """Wait for the model's logits."""

    def sample(self, job: Any) -> int:
        """Return the best token that the mask leaves; it must leave one."""
        allowed = self.allowed(job)
        self.masks.append(set(np.flatnonzero(allowed).tolist()))
        assert allowed.any(), "a kernel would take any token then"
        if self.wishes and allowed[self.wishes[0]]:
            return self.wishes.pop(0)
        logits = logits_after(tokens_of(job, prompt=True), self.padded_vocab_size)
        return int(np.where(allowed, logits, -np.inf).argmax())

    def allowed(self, job: Any) -> np.ndarray:
        mask = job.device_logit_mask
        if mask is None:
            return np.arange(self.padded_vocab_size) < self.tokenizer.actual_vocab_size
        if mask.dtype == torch.int32:
            return np.unpackbits(mask.numpy().view(np.uint8), bitorder="little").astype(bool)
        return (mask == 0)[0].numpy()

    def text(self, job: Any) -> str:
        return "".join(each.get("text", "") for each in self.results if each["job"] is job)

    def reason(self, job: Any) -> str:
        return next(str(each["eos_reason"]) for each in self.results if each["job"] is job and each["eos"])


def tokens_of(job: Any, *, prompt: bool = False) -> list[int]:
    """Return the tokens of the job's output, or of the prompt and the output."""
    sequence = job.sequences[0]
    ids: list[int] = sequence.sequence_ids.torch()[0].tolist()
    return ids if prompt else ids[sequence.input_ids.torch().shape[-1] :]


def logits_after(tokens: Sequence[int], width: int) -> np.ndarray:
    """Compute logits that depend on every token so far; this is the model."""
    state = zlib.crc32(np.asarray(tokens, dtype=np.int64).tobytes())
    return np.random.default_rng(state).standard_normal(width)


class SimulatedModel:
    """A `Model` that loads nothing."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    def from_config(cls, config: Any) -> SimulatedModel:
        return cls(config)

    def load(self) -> None:
        """There are no weights."""


class SimulatedCache:
    """A `Cache` that is empty."""

    def __init__(self, model: SimulatedModel, max_num_tokens: int) -> None:
        self.model, self.max_num_tokens = model, max_num_tokens


class SimulatedGenerator(Loop):
    """`Generator`, as far as the page and the example use it."""

    def __init__(self, model: SimulatedModel, cache: SimulatedCache, tokenizer: Any) -> None:
        super().__init__(tokenizer)

    def enqueue(self, job: Any) -> None:
        self.start(job)

    def num_remaining_jobs(self) -> int:
        return len(self.active_jobs)

    def iterate(self) -> list[dict[str, Any]]:
        before = len(self.results)
        self.step()
        return self.results[before:]

    def generate(self, prompt: str, *, completion_only: bool, **options: Any) -> str:
        assert completion_only
        job = import_exllamav3().Job(input_ids=self.tokenizer.encode(prompt, add_bos=False), **options)
        self.run(job)
        return self.text(job)
