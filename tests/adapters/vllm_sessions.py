"""The vLLM adapter, called as its two model runners call a logits processor."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from formatter_core import Compiler
from tests.adapters.contract import WIDTH, Request, Session
from tests.adapters.vllm_stand_ins import BatchUpdate, config_of, parameters_of

PROMPT = [5, 6, 7]


def _hook(compiler: Compiler, states: Any, *more: Any) -> Any:
    """Make the processor with the contract's compiler, in place of the one for the engine's tokenizer."""
    from formatter_vllm import FormatterLogitsProcessor
    from formatter_vllm.compilers import RequestCompiler
    from formatter_vllm.settings import Settings

    hook = FormatterLogitsProcessor(config_of(None, ()), states, *more)
    hook._constraints._compiler = RequestCompiler(compiler, Settings())
    return hook


def _parameters(compiler: Compiler, request: Request) -> Any:
    from formatter_vllm import create_extra_args

    arguments = None if request.format is None else create_extra_args(request.format)
    return parameters_of(arguments, end_ids=request.end_ids or compiler.vocabulary.end_ids)


#: The cases that no hook of vLLM's can meet.
_NEVER = {
    "result": "results are read from vLLM's outputs",
    "not called": "results are read from vLLM's outputs",
    "reused": "one object serves all requests that share it",
}


def _finite(masked: torch.Tensor) -> list[set[int]]:
    return [set(row.isfinite().nonzero().flatten().tolist()) for row in masked]


class BatchSession(Session):
    """The V1 runner: live lists of output ids, told once, when the request comes into its row."""

    cannot: ClassVar = {
        **_NEVER,
        "drafts": "vLLM refuses custom logits processors beside speculative decoding in its V1 runner",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        self._hook = _hook(compiler, torch.device("cpu"), False)
        self._parameters = [_parameters(compiler, request) for request in requests]
        self._outputs: list[list[int]] = [[] for _ in requests]
        added = [(row, parameters, PROMPT, self._outputs[row]) for row, parameters in enumerate(self._parameters)]
        self._hook.update_state(BatchUpdate(len(requests), [], added, []))

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        for output, tokens in zip(self._outputs, kept, strict=True):
            output[:] = tokens
        self._hook.update_state(None)
        return _finite(self._hook.apply(torch.linspace(-3, 3, width).repeat(len(kept), 1)))

    def preempt(self, row: int) -> None:
        self._outputs[row] = list(self._outputs[row])
        added = [(row, self._parameters[row], PROMPT, self._outputs[row])]
        self._hook.update_state(BatchUpdate(len(self._outputs), [row], added, []))

    def errors(self) -> Mapping[int, Exception]:
        rows = self._hook._rows._rows
        return {row: one.cursor.error for row, (one, _) in rows.items() if one.cursor.error is not None}


class RequestSession(Session):
    """The V0 engine: a callable for each request, asked for one row after the other with the whole output."""

    cannot: ClassVar = {
        **_NEVER,
        "drafts": "the V0 engine leaves logits processors out beside speculative decoding",
        "own ends": "a processor has the ends of its vocabulary, which create_logits_processor is told",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_vllm.per_request import RequestLogitsProcessor

        formats = [request.format for request in requests]
        self._processors = [None if one is None else RequestLogitsProcessor(compiler.compile(one)) for one in formats]

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        masked = torch.linspace(-3, 3, width).repeat(len(kept), 1)
        for processor, tokens, row in zip(self._processors, kept, masked, strict=True):
            if processor is not None:
                processor(PROMPT, list(tokens), row)
        return _finite(masked)

    def preempt(self, row: int) -> None:
        """The engine computes the row anew and then asks for the same output again."""

    def errors(self) -> Mapping[int, Exception]:
        cursors = {row: [*one._cursors.values()][-1] for row, one in enumerate(self._processors) if one is not None}
        return {row: cursor.error for row, cursor in cursors.items() if cursor.error is not None}


class SlotSession(Session):
    """Model Runner V2: numbered slots, whose tokens lie in one table, and a row for each draft."""

    cannot: ClassVar = {
        **_NEVER,
        "placeholders": "the runner passes the ids that the model was fed",
        "cleared": "an output begins again only when its request is preempted",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        count = len(requests)
        self._tokens = torch.zeros(count, 64, dtype=torch.int32)
        self._tokens[:, : len(PROMPT)] = torch.tensor(PROMPT)
        self._prompt = np.full(count, len(PROMPT), dtype=np.int32)
        self._prefill = self._prompt.copy()
        states = types.SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=count,
            vocab_size=WIDTH,
            all_token_ids=types.SimpleNamespace(gpu=self._tokens),
            prompt_len=types.SimpleNamespace(np=self._prompt),
            prefill_len=types.SimpleNamespace(np=self._prefill),
        )
        self._hook = _hook(compiler, states)
        self._parameters = [_parameters(compiler, request) for request in requests]
        for slot, parameters in enumerate(self._parameters):
            self._hook.add_request(slot, parameters)

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        return self._apply(kept, [[]] * len(kept), width)

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        return self._apply([kept], [drafts])

    def preempt(self, row: int) -> None:
        self._hook.add_request(row, self._parameters[row])

    def errors(self) -> Mapping[int, Exception]:
        cursors = {row: slot.constraint.cursor for row, slot in self._hook._slots._slots.items()}
        return {row: cursor.error for row, cursor in cursors.items() if cursor.error is not None}

    def _apply(
        self, kept: Sequence[Sequence[int]], drafts: Sequence[Sequence[int]], width: int = WIDTH
    ) -> list[set[int]]:
        rows: list[tuple[int, int, int, int]] = []  # slot, offset, token, position
        for slot, (tokens, proposed) in enumerate(zip(kept, drafts, strict=True)):
            known = [*PROMPT, *tokens]
            self._tokens[slot, : len(known)] = torch.tensor(known)
            fed = [known[-1], *proposed]
            rows += [(slot, offset, token, len(known) - 1 + offset) for offset, token in enumerate(fed)]
        columns = [torch.tensor(column, dtype=torch.int32) for column in zip(*rows, strict=True)]
        context = types.SimpleNamespace(
            expanded_idx_mapping=columns[0],
            expanded_local_pos=columns[1],
            input_ids=columns[2],
            pos=columns[3].long(),
            idx_mapping_np=np.arange(len(kept), dtype=np.int32),
        )
        return _finite(self._hook.apply(torch.linspace(-3, 3, width).repeat(len(rows), 1), context))
