"""Contexts of llama.cpp as far as a scheduler can tell: cells, sequences that share them, and decoding in batches.

The logits after a token are a hash of its whole sequence, so that every output can be compared exactly with its solo
run, and whatever the cells should not hold shows.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any

import numpy as np

from tests.adapters.contract import PAD, WIDTH
from tests.adapters.llama_cpp_stand_ins import Llama, parsed


class Params(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_seq_max")] + [
        ("embeddings", ctypes.c_bool),
        ("kv_unified", ctypes.c_bool),
    ]


class OldParams(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_seq_max")] + [("logits_all", ctypes.c_bool)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


class Context:
    """Cells: each holds a token at a position for a set of sequences."""

    def __init__(self, params: Any) -> None:
        self.n_ctx, self.n_batch, self.n_seq_max = params.n_ctx, params.n_batch, params.n_seq_max
        assert self.n_seq_max <= self.n_ctx, "llama.cpp would abort the process"
        assert getattr(params, "kv_unified", True), "streams of their own do not share cells"
        self.cells: list[tuple[int, int, set[int]]] = []
        self.rows: dict[int, np.ndarray] = {}
        self.decodes = 0
        self.is_open = True

    def sequence(self, number: int) -> list[int]:
        held = sorted((position, token) for position, token, owners in self.cells if number in owners)
        assert [position for position, _ in held] == list(range(len(held))), "a sequence with holes"
        return [token for _, token in held]

    def decode(self, batch: Batch) -> int:
        assert self.is_open
        assert batch.n_tokens <= self.n_batch
        if any(not 0 <= batch.token[place] < WIDTH for place in range(batch.n_tokens)):
            return -1
        if len(self.cells) + batch.n_tokens > self.n_ctx:
            return 1
        self.decodes += 1
        self.rows = {}
        for place in range(batch.n_tokens):
            owners = {batch.seq_id[place][index] for index in range(batch.n_seq_id[place])}
            assert owners <= set(range(self.n_seq_max))
            texts = [self.sequence(owner) for owner in owners]
            assert all(text == texts[0] for text in texts), "a token for sequences that differ"
            assert batch.pos[place] == len(texts[0]), "positions must be consecutive"
            self.cells.append((batch.pos[place], batch.token[place], owners))
            if batch.logits[place]:
                self.rows[place] = logits_of([*texts[0], batch.token[place]])
        return 0

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        for position, _, owners in self.cells:
            if source in owners and start <= position < end:
                owners.add(target)

    def drop(self, sequence: int, start: int, end: int) -> bool:
        assert end == -1
        for position, _, owners in self.cells:
            if position >= start:
                owners.discard(sequence)
        self.cells = [cell for cell in self.cells if cell[2]]
        return True


def logits_of(tokens: list[int]) -> np.ndarray:
    random = np.random.default_rng([len(tokens), *tokens[-12:], sum(tokens) % 1000])
    return (random.standard_normal(WIDTH) * 3).astype(np.single)


class ContextLlama(Llama):
    """A `Llama` on whose model other contexts can be made."""

    def __init__(self, version: str, *, n_ctx: int = 512, n_batch: int = 32) -> None:
        super().__init__(version)
        kind = Params if self.release >= (0, 3, 15) else OldParams
        self.context_params = kind(n_ctx, n_batch, 1)
        self.n_batch = n_batch
        self.lora_path = None
        self._stack = ExitStack()

    def n_ctx(self) -> int:
        return int(self.context_params.n_ctx)

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return [PAD, *text] if add_bos else list(text)


def add_contexts(module: Any) -> list[Context]:
    """Give a stand-in of the module its contexts, under the names of its generation; returns those that are made."""
    made: list[Context] = []
    release = parsed(module.__version__)

    def make(model: str, params: Any) -> Context:
        made.append(Context(params))
        return made[-1]

    def batch_init(tokens: int, embd: int, sequences: int) -> Batch:
        ids = [(ctypes.c_int32 * sequences)() for _ in range(tokens)]
        rows = (ctypes.POINTER(ctypes.c_int32) * tokens)(
            *[ctypes.cast(row, ctypes.POINTER(ctypes.c_int32)) for row in ids]
        )
        fields = {name: (ctypes.c_int32 * tokens)() for name in ("token", "pos", "n_seq_id")}
        batch = Batch(0, fields["token"], None, fields["pos"], fields["n_seq_id"], rows, (ctypes.c_int8 * tokens)())
        batch.kept = (ids, rows, fields)
        return batch

    def free(context: Context) -> None:
        assert context.is_open, "freed twice"
        context.is_open = False

    prefix = "kv_cache" if release < (0, 3, 9) else "kv_self" if release < (0, 3, 10) else "memory"
    if prefix == "memory":
        module.llama_get_memory = lambda context: context
    setattr(module, f"llama_{prefix}_seq_cp", lambda context, *rest: context.copy(*rest))
    setattr(module, f"llama_{prefix}_seq_rm", lambda context, *rest: context.drop(*rest))
    setattr(module, "llama_init_from_model" if release >= (0, 3, 7) else "llama_new_context_with_model", make)
    trained = "llama_model_n_ctx_train" if release >= (0, 3, 7) else "llama_n_ctx_train"
    setattr(module, trained, lambda model: 512)
    module.llama_n_ctx = lambda context: context.n_ctx
    module.llama_batch_init = batch_init
    module.llama_batch_free = lambda batch: None
    module.llama_decode = lambda context, batch: context.decode(batch)
    module.llama_free = free
    module.llama_get_logits_ith = lambda context, place: context.rows[place].ctypes.data_as(
        ctypes.POINTER(ctypes.c_float)
    )
    return made
