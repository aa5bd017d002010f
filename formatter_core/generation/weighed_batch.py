"""Draw the next tokens of a batch on the host, from the model's own distribution under the mask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation.forced import only_id
from formatter_core.generation.loop import ENOUGH_LEFT, Row
from formatter_core.generation.lost_mass import Node
from formatter_core.generation.models import Array, SequenceBatch, WeighingModel
from formatter_core.generation.results import ChosenToken
from formatter_core.generation.sampling import Sampling
from formatter_core.generation.written import no_token
from formatter_core.runtime import bitmask
from formatter_core.runtime.cursor import Cursor
from formatter_core.runtime.history import shared_length

__all__ = ["Position", "WeighedBatch", "chosen_at", "sampling_of"]

#: The size limit of the probabilities that one pass copies to the host, in bytes; runs of forced text are cut to fit.
_MAX_COPIED_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Position:
    """The tokens that may follow a prefix.

    Attributes:
        node: a node with the most probable tokens.
        row: float32 (width,), the probability of each token; 0 where the format forbids it.
        forced: the token that must follow, if there is exactly one.
    """

    node: Node
    row: NDArray[np.float32]
    forced: int | None


class WeighedBatch:
    """A batch whose rows have slots and are computed together; the model first runs when a result is needed.

    Args:
        model: the model, which gives probabilities.
        slots: the number of rows.
        forces: whether to compute a run of forced text in one pass.
        with_end: whether the end of a text that must end has the model's probability; otherwise it is certain.
    """

    def __init__(self, model: WeighingModel, slots: int, *, forces: bool, with_end: bool) -> None:
        self._model = model
        self._forces = forces
        self._with_end = with_end
        self._batch: SequenceBatch | None = None
        self._slots = list(range(slots))  # the slot of each row of the batch

    def weigh(self, rows: Mapping[int, Row], going: Collection[int]) -> dict[int, list[Position]]:
        """Compute what may follow some sequences: at their ends, and along the forced text that follows.

        A sequence that fails ends with its error, and has no entry in the result.

        Args:
            rows: the sequences, by slot.
            going: all slots that have not ended, whether or not they need a result now.
        """
        masks = self._masks(rows)
        plans = {slot: self._ahead(rows[slot], mask, len(masks)) for slot, mask in masks.items()}
        if not plans:
            return {}
        logits = self._logits(rows, plans, going)
        found: dict[int, list[Position]] = {slot: [] for slot in plans}
        places = [(slot, at) for slot, plan in plans.items() for at in range(len(plan.masks))]
        by_sampling: dict[Sampling, list[int]] = {}
        for index, (slot, _) in enumerate(places):
            by_sampling.setdefault(sampling_of(rows[slot]), []).append(index)
        positions: dict[int, Position] = {}
        for sampling, indices in by_sampling.items():
            allowed = np.stack([plans[places[index][0]].masks[places[index][1]] for index in indices])
            weighed = self._model.weigh(logits[indices], allowed, sampling)
            for index, row, scale, mass in zip(
                indices, weighed.weights, weighed.scales.tolist(), weighed.allowed_logprobs.tolist(), strict=True
            ):
                slot, at = places[index]
                is_end = not self._with_end and plans[slot].must_stop[at]
                positions[index] = _position(row, scale, mass, sampling, only_id(plans[slot].masks[at]), is_end)
        for index, (slot, _) in enumerate(places):
            found[slot].append(positions[index])
        for slot in plans:
            if np.isnan(found[slot][0].row[0]):
                rows[slot].fail(no_token())
                del found[slot]
        return found

    def select(self, slots: Sequence[int]) -> None:
        """Make slot `i` continue the sequence of slot `slots[i]`; a slot that has ended is empty."""
        at = {slot: index for index, slot in enumerate(self._slots)}
        going = [slot for slot, old in enumerate(slots) if old in at]
        if self._batch is not None and going:
            self._batch.select([at[slots[slot]] for slot in going])
            self._slots = going

    def remember(self, slot: int) -> None:
        """Keep what was computed for a slot, for later prompts with the same beginning."""
        if self._batch is not None and slot in self._slots:
            self._batch.remember(self._slots.index(slot))

    def _masks(self, rows: Mapping[int, Row]) -> dict[int, NDArray[np.int32]]:
        bits = bitmask.allocate(len(rows), len(self._model.vocabulary), fill="all")
        cursors = [(place, row.cursor) for place, row in enumerate(rows.values()) if row.cursor is not None]
        Cursor.step_batch([cursor for _, cursor in cursors], bits, [place for place, _ in cursors])
        for row in rows.values():
            row.check()
        return {slot: mask for (slot, row), mask in zip(rows.items(), bits, strict=True) if row.stopped is None}

    def _ahead(self, row: Row, mask: NDArray[np.int32], rows: int) -> _Plan:
        """Plan the positions to compute for a sequence: its end, and the forced text after it."""
        plan = _Plan([mask], [], [self._must_stop(row.cursor)])
        most = _MAX_COPIED_BYTES // (4 * len(self._model.vocabulary) * rows) - 1
        most = min(most, row.room - len(row.tokens) - 1) if self._forces and self._batch is not None else 0
        trial: Cursor | None = None
        while row.cursor is not None and len(plan.tokens) < most and (token := only_id(plan.masks[-1])) is not None:
            if token in self._model.vocabulary.end_ids:
                break
            trial = trial or Cursor(row.cursor.formatter.fork())
            following = np.zeros_like(mask)
            trial.append(token)
            trial.fill_bitmask(following)
            if trial.has_failed:  # the failure shows again if the text really goes there
                break
            plan.tokens.append(token)
            plan.masks.append(following)
            plan.must_stop.append(self._must_stop(trial))
        return plan

    def _must_stop(self, cursor: Cursor | None) -> bool:
        return not self._with_end and cursor is not None and cursor.formatter.must_stop

    def _logits(self, rows: Mapping[int, Row], plans: Mapping[int, _Plan], going: Collection[int]) -> Array:
        """Return the logits of all positions, (positions, width), in the model's own arrays."""
        is_new = self._batch is None
        batch = self._started(rows, plans, going)
        wholes = {slot: [*rows[slot].before, *rows[slot].tokens, *plan.tokens] for slot, plan in plans.items()}
        at = {slot: index for index, slot in enumerate(self._slots)}
        if is_new and all(list(batch.tokens[at[slot]]) == whole for slot, whole in wholes.items()):
            return batch.logits[[at[slot] for slot in plans]]
        lengths = [len(tokens) for tokens in batch.tokens]
        for slot, plan in plans.items():
            have, whole = list(batch.tokens[at[slot]]), wholes[slot]
            # The token before the first position is computed again, to get the logits after it.
            lengths[at[slot]] = min(shared_length(have, whole), len(whole) - len(plan.tokens) - 1)
        if lengths != [len(tokens) for tokens in batch.tokens]:
            batch.crop(lengths)
        new: list[list[int]] = [[] for _ in self._slots]
        for slot, whole in wholes.items():
            rows[slot].passes += 1
            new[at[slot]] = whole[lengths[at[slot]] :]
        keep = max(len(plan.masks) for plan in plans.values())
        logits = batch.forward(new, keep=keep)
        places = [
            (at[slot], keep - len(plan.masks) + i) for slot, plan in plans.items() for i in range(len(plan.masks))
        ]
        return logits[[row for row, _ in places], [place for _, place in places]]

    def _started(self, rows: Mapping[int, Row], plans: Mapping[int, _Plan], going: Collection[int]) -> SequenceBatch:
        """Return the batch; rows that have ended are dropped if there are many."""
        if self._batch is None:
            prompts = list(dict.fromkeys(rows[slot].before for slot in plans))
            self._batch = self._model.start(prompts, room=max(rows[slot].room for slot in plans))
            self._batch.select([prompts.index(rows[slot].before) for slot in plans])
            self._slots = list(plans)
        elif len(left := [slot for slot in self._slots if slot in going]) <= ENOUGH_LEFT * len(self._slots):
            self._batch.select([self._slots.index(slot) for slot in left])
            self._slots = left
        return self._batch


@dataclass
class _Plan:
    """The positions of one sequence: masks, the tokens between them, and whether the text must end there."""

    masks: list[NDArray[np.int32]]
    tokens: list[int]
    must_stop: list[bool]


def sampling_of(row: Row) -> Sampling:
    """Return the sampling of a row.

    Raises:
        InvalidArgument: the row has another kind of sampler than a `Sampling`.
    """
    if not isinstance(row.sampler, Sampling):
        raise InvalidArgument(
            "only the distribution of a Sampling is known; give sampling=multinomial(...)", argument="sampling"
        )
    return row.sampler


def chosen_at(node: Node, token: int, share: float) -> ChosenToken:
    """Return the scores of a token that was drawn at a node with this probability."""
    unmasked = min(0.0, node.temperature * float(np.log(share)) + node.scale) if share > 0 else -np.inf
    return ChosenToken(token, min(0.0, unmasked - node.allowed_logprob), unmasked)


def _position(
    row: NDArray[np.float32], scale: float, mass: float, sampling: Sampling, forced: int | None, is_end: bool
) -> Position:
    if is_end:  # the end follows, whatever its probability
        total = float(row.sum(dtype=np.float64))
        if total > 0:
            row = row / np.float32(total)
            scale += sampling.temperature * float(np.log(total))
        elif total == 0 and forced is not None:
            row = row.copy()
            row[forced] = 1.0
    return Position(Node.of(row, sampling.temperature, scale, mass), row, forced)
