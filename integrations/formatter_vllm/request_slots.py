"""The requests of Model Runner V2: numbered slots, and logits rows that name their slot and their latest token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from formatter_vllm.constraints import Constraint, Constraints, asks_for_format

__all__ = ["RequestSlots"]


@dataclass
class _Slot:
    parameters: Any
    prompt_length: int
    prefill_length: int  # the prompt, and the output that a preempted request had
    output: list[int]
    constraint: Constraint | None = None  # from the first row on: only then can the prompt be read


class RequestSlots:
    """The constraint of each request slot, and how many of its tokens the constraint has followed.

    Args:
        constraints: makes the constraint of a new request.
        states: vLLM's `LogitsProcRequestState`: lengths and token ids by slot.
    """

    def __init__(self, constraints: Constraints, states: Any) -> None:
        self._constraints = constraints
        self._states = states
        self._slots: dict[int, _Slot] = {}
        self._staged: _HostCopy | None = None

    def stage(self) -> None:
        """Ask the device for the length and the latest token of each slot; called before each forward pass.

        So masks are made while the model runs: they wait for the step before, and not for this one.
        """
        self._staged = None
        if self._slots and hasattr(self._states, "total_len"):
            lengths = self._states.total_len.gpu.to(torch.int64)
            latest = self._states.all_token_ids.gpu.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
            self._staged = _HostCopy(torch.stack([lengths, latest.to(torch.int64)]))

    def add(self, slot: int, parameters: Any) -> bool:
        """Put a new request, or one that was preempted, into a slot; whether it has a format."""
        self._slots.pop(slot, None)
        if not asks_for_format(parameters):
            return False
        prompt_length = int(self._states.prompt_len.np[slot])
        prefill_length = int(self._states.prefill_len.np[slot])
        self._slots[slot] = _Slot(parameters, prompt_length, prefill_length, [])
        return True

    def follow(self, context: Any, count: int) -> tuple[list[tuple[int, Constraint]], dict[int, list[int]]]:
        """Return the constrained rows among `count`, after the output so far, and drafts by a request's first row.

        Args:
            context: vLLM's `LogitsContext`.

        Rows of a prompt that is not read to its end have none: what is sampled there is thrown away.
        """
        rows: list[tuple[int, Constraint]] = []
        drafts: dict[int, list[int]] = {}
        slot_ids = context.idx_mapping_np.tolist()
        if self._slots.keys().isdisjoint(slot_ids):
            return rows, drafts
        table = self._staged_rows(context, slot_ids) if count == len(slot_ids) else None  # without drafts
        for row, (slot_id, offset, token_id, position) in enumerate(table or _rows_of(context, count)):
            slot = self._slots.get(slot_id)
            if slot is None or position + 1 < slot.prefill_length:
                continue
            if offset == 0:
                rows.append((row, self._follow(slot_id, slot, token_id, position)))
            else:
                drafts.setdefault(row - offset, []).append(token_id)
        return rows, drafts

    def _staged_rows(self, context: Any, slot_ids: Sequence[int]) -> list[tuple[int, int, int, int]] | None:
        """Return the slot, offset, latest token and its position of each request's only row, as staged."""
        staged, self._staged = self._staged, None
        if staged is None:
            return None
        lengths, latest = staged.read()
        visible = context.seq_lens_upper_bound_np.tolist()  # less than the length while the prompt is being read
        return [
            (slot_id, 0, latest[slot_id], min(lengths[slot_id], bound) - 1)
            for slot_id, bound in zip(slot_ids, visible, strict=False)
        ]

    def _follow(self, slot_id: int, slot: _Slot, token_id: int, position: int) -> Constraint:
        """Return the constraint after the output so far, whose latest token was fed to the model at `position`."""
        constraint = slot.constraint
        if constraint is None:
            constraint = slot.constraint = self._constraints.of_request(
                slot.parameters, lambda: self._tokens(slot_id, 0, slot.prompt_length)
            )
        length = position + 1 - slot.prompt_length
        if length == len(slot.output) + 1:
            slot.output.append(token_id)
        elif length != len(slot.output):  # after a preemption, or where drafts were kept
            slot.output = self._tokens(slot_id, slot.prompt_length, position + 1)
        constraint.cursor.follow(slot.output)
        return constraint

    def _tokens(self, slot_id: int, start: int, stop: int) -> list[int]:
        return [int(token) for token in self._states.all_token_ids.gpu[slot_id, start:stop].tolist()]


class _HostCopy:
    """A tensor on its way to the host."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._event = torch.cuda.Event() if tensor.is_cuda else None
        self._host = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        self._host.copy_(tensor, non_blocking=True)
        if self._event is not None:
            self._event.record()

    def read(self) -> Any:
        """Wait for the copy and return its elements as lists."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.tolist()


def _rows_of(context: Any, count: int) -> list[list[int]]:
    """Return the slot, offset, latest token and its position of each row: one copy that waits for the forward pass."""
    columns = (context.expanded_idx_mapping, context.expanded_local_pos, context.input_ids, context.pos)
    rows: list[list[int]] = torch.stack([column[:count].to(torch.int64) for column in columns]).cpu().T.tolist()
    return rows
