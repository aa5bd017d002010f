"""Define one of several formats, and the base class of formats: the operator `|`, JSON data and a key."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar

from formatter_core.formats.parts import Part, Parts, data_of, key_of
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.unfinished import ChosenPart
from formatter_core.grammar import Choice
from formatter_core.limits import Limits

__all__ = ["Alternatives", "OneOfFormat"]


class Alternatives:
    """A base class that gives a format the operator `|`: `a | b` is `one_of(a, b)`, for formats and literal texts.

    For a dataclass it also makes the JSON data and the key, from its fields.

    Attributes:
        kind: the `type` of its JSON data.
    """

    kind: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.kind, **{one.name: data_of(getattr(self, one.name)) for one in fields(self)}}

    def key(self) -> Hashable:
        return (self.kind, *(key_of(getattr(self, one.name)) for one in fields(self)))

    def __or__(self, other: object) -> OneOfFormat:
        return _joined(self, other) or NotImplemented

    def __ror__(self, other: object) -> OneOfFormat:
        return _joined(other, self) or NotImplemented


@dataclass(frozen=True)
class OneOfFormat(Alternatives):
    """A format of one of the alternatives; its value is that of the alternative that matches."""

    kind: ClassVar = "one_of"
    alternatives: tuple[Part, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        parts = Parts(limits, exclusive=True)
        body = Choice(tuple(parts.add(part) for part in self.alternatives))
        return parts.lowered("one of", body, lambda match: parts.values(match)[0], ChosenPart)


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
