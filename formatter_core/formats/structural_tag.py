"""Read XGrammar's structural tags as formats."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from formatter_core.errors import InvalidSchema
from formatter_core.errors.arguments import one_of, shown
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.formats.tag_reader import read_tag, why_empty
from formatter_core.limits import Limits
from formatter_core.schema import Spelling
from formatter_core.schema.data import own_json, read_json

__all__ = ["StructuralTagFormat", "structural_tag"]


@dataclass(frozen=True, eq=False)
class StructuralTagFormat(Alternatives):
    """A format that a structural tag describes. `tag` is the format's own copy: do not change it."""

    tag: dict[str, Any]
    spelling: Spelling = "canonical"

    def __post_init__(self) -> None:
        one_of(self.spelling, "spelling", get_args(Spelling))

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(
            read_tag(self.tag, limits, self.spelling), why_empty=lambda: why_empty(self.tag, limits, self.spelling)
        )

    def to_json(self) -> dict[str, Any]:
        return {"type": "structural_tag", "tag": own_json(self.tag), "spelling": self.spelling}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructuralTagFormat) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> Hashable:
        # `repr` distinguishes 1 from True, and different orders of keys.
        return ("structural_tag", repr(self.tag), self.spelling)


def structural_tag(tag: Mapping[str, Any] | str, *, spelling: Spelling = "canonical") -> StructuralTagFormat:
    """Return the format of a structural tag of XGrammar, as a dict or as JSON text; `spelling` is that of its JSON
    parts.

    The tag is `{"type": "structural_tag", "format": {…}}`, or the older `{"structures": […], "triggers": […]}`.
    Compiling reports errors, and keywords that are not enforced, with a JSON Pointer.

    Raises:
        InvalidSchema: the tag is not JSON.
    """
    data = read_json(tag) if isinstance(tag, str) else own_json(tag)
    if not isinstance(data, dict):
        raise InvalidSchema(f"a structural tag is an object, found {shown(tag)}; give a dict, or JSON text of one")
    return StructuralTagFormat(data, spelling)
