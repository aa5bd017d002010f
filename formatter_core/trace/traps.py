"""Find traps: places of a format where the mask removes most of the probability; propose what to change there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from formatter_core.formats.protocol import Format
from formatter_core.limits import Limits
from formatter_core.parsing.expectation import listed, quoted
from formatter_core.trace.proposals import Proposals
from formatter_core.trace.steps import Alternative, Step, shown_bytes

__all__ = ["Trap", "find_traps"]

#: A step is part of a trap if the mask removed more than this probability.
_MUCH = 0.5
#: Maximum traps that are returned, and refused tokens that one of them names.
_MAX_TRAPS = 10
_MAX_WANTED_NAMES = 3


@dataclass(frozen=True, slots=True)
class Trap:
    """A place of the format where the mask removed more than half of the probability at some steps.

    Attributes:
        place: as in `Step.place`.
        steps: the indices of these steps.
        causes: those steps that follow a step where the mask removed little; what comes after a refused token is often
            refused for that reason alone.
        blame: the sum of the masked probability, from each cause up to the next step where the mask removed little.
        wanted: what the model wanted instead, the most frequent first; "the end" for an end id.
        expected: what the format expected at the first of the causes.
        proposal: a sentence that says what to change.
        is_checked: whether the changed format was tried and allows what the model wanted.
    """

    place: str
    steps: tuple[int, ...]
    causes: tuple[int, ...]
    blame: float
    wanted: tuple[str, ...]
    expected: str
    proposal: str
    is_checked: bool

    def __str__(self) -> str:
        where = f"at {self.place}" if self.place.startswith("#") else self.place or "at the outermost level"
        wanted = listed([quoted(text) for text in self.wanted], "or") if self.wanted else "something else"
        count = f"{len(self.steps)} token{'s' if len(self.steps) > 1 else ''}"
        return f"{where}, {count}: the model wanted {wanted}, not {self.expected}; {self.proposal}"


def find_traps(steps: Sequence[Step], text: bytes, format: Format, limits: Limits) -> tuple[Trap, ...]:
    """Return the traps of one output, those with the most blame first.

    Args:
        steps: the tokens of the output.
        text: the text that the tokens spell.
        format: the format of the output.
        limits: the maximum cost of trying a change.
    """
    proposals = Proposals(format, limits)
    groups: dict[str, list[int]] = {}
    blame: dict[int, float] = {}
    cause = None
    for index, step in enumerate(steps):
        if step.masked_probability <= _MUCH:
            cause = None
            continue
        cause = index if cause is None else cause
        groups.setdefault(step.place, []).append(index)
        blame[cause] = blame.get(cause, 0.0) + step.masked_probability
    found = []
    for place, indices in groups.items():
        causes = [index for index in indices if index in blame]
        found.append((sum(blame[index] for index in causes), place, indices, causes))
    found.sort(key=lambda trap: -trap[0])
    return tuple(_trap(steps, text, proposals, *trap) for trap in found[:_MAX_TRAPS])


def _trap(
    steps: Sequence[Step],
    text: bytes,
    proposals: Proposals,
    blame: float,
    place: str,
    indices: list[int],
    causes: list[int],
) -> Trap:
    first = steps[(causes or indices)[0]]
    if causes:
        proposal, is_checked = proposals.of(first, text[: first.start])
    else:
        proposal, is_checked = "this follows from the traps above", False
    refused = [steps[index].refused for index in causes or indices]
    names = Counter(_name(other) for other in refused if other is not None)
    wanted = tuple(name for name, _ in names.most_common(_MAX_WANTED_NAMES))
    return Trap(place, tuple(indices), tuple(causes), blame, wanted, first.expected, proposal, is_checked)


def _name(other: Alternative) -> str:
    if other.is_end:
        return "the end"
    return shown_bytes(other.bytes) if other.bytes else f"token {other.token_id}"
