"""The requests of Model Runner V2: numbered slots, and logits rows that name their slot and their latest token."""

from __future__ import annotations

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
    """Which constraint holds in which slot, and how far each has come.

    Args:
        constraints: makes the constraint of a new request.
        states: vLLM's `LogitsProcRequestState`: lengths and token ids by slot.
    """

    def __init__(self, constraints: Constraints, states: Any) -> None:
        self._constraints = constraints
        self._states = states
        self._slots: dict[int, _Slot] = {}

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
        """The constrained rows among `count`, in step with the output, and drafts by the first row of their request.

        Args:
            context: vLLM's `LogitsContext`.

        Rows of a prompt that is not read to its end have none: what is sampled there is thrown away.
        """
        rows: list[tuple[int, Constraint]] = []
        drafts: dict[int, list[int]] = {}
        if self._slots.keys().isdisjoint(context.idx_mapping_np.tolist()):
            return rows, drafts
        columns = (context.expanded_idx_mapping, context.expanded_local_pos, context.input_ids, context.pos)
        # One copy from the device, which waits for the forward pass.
        table = torch.stack([column[:count].to(torch.int64) for column in columns]).cpu().tolist()
        for row, (slot_id, offset, token_id, position) in enumerate(zip(*table, strict=True)):
            slot = self._slots.get(slot_id)
            if slot is None or position + 1 < slot.prefill_length:
                continue
            if offset == 0:
                rows.append((row, self._follow(slot_id, slot, token_id, position)))
            else:
                drafts.setdefault(row - offset, []).append(token_id)
        return rows, drafts

    def _follow(self, slot_id: int, slot: _Slot, token_id: int, position: int) -> Constraint:
        """The constraint in step with the output, whose latest token was fed to the model at `position`."""
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
