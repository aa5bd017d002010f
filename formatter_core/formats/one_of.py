"""One of several formats, and the operator `|`, which every format has."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.formats.parts import Part, Parts, part_key, part_to_json
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Choice
from formatter_core.limits import Limits

__all__ = ["Alternatives", "OneOfFormat"]


class Alternatives:
    """Gives a format the operator `|`: `a | b` is `one_of(a, b)`, of formats and literal texts."""

    def __or__(self, other: object) -> OneOfFormat:
        return _joined(self, other) or NotImplemented

    def __ror__(self, other: object) -> OneOfFormat:
        return _joined(other, self) or NotImplemented


@dataclass(frozen=True)
class OneOfFormat(Alternatives):
    """One of the alternatives; the value is that of the one that was chosen."""

    alternatives: tuple[Part, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        parts = Parts(limits, exclusive=True)
        body = Choice(tuple(parts.add(part) for part in self.alternatives))
        return parts.lowered("one of", body, lambda match: parts.values(match)[0])

    def to_json(self) -> dict[str, Any]:
        return {"type": "one_of", "alternatives": [part_to_json(part) for part in self.alternatives]}

    def key(self) -> Hashable:
        return ("one_of", tuple(part_key(part) for part in self.alternatives))


def _joined(left: object, right: object) -> OneOfFormat | None:
    alternatives: list[Part] = []
    for each in (left, right):
        if isinstance(each, OneOfFormat):
            alternatives.extend(each.alternatives)
        elif isinstance(each, str) or (isinstance(each, Format) and not isinstance(each, type)):
            alternatives.append(each)
        else:
            return None
    return OneOfFormat(tuple(alternatives))
