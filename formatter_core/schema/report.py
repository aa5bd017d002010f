"""Keywords that a schema cannot have enforced: refused, or dropped and recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

from formatter_core.errors import UnsupportedSchema
from formatter_core.schema.refusals import Dropped

__all__ = ["Refusals"]


#: The remedy for every refusal, where options of a schema can be given.
_REMEDY = 'Remove it, or pass on_unsupported="warn" to ignore it'


@dataclass(slots=True)
class Refusals:
    """Refuses keywords by raising, or, if `lenient`, by recording and ignoring them."""

    lenient: bool = False
    dropped: list[Dropped] = field(default_factory=list)
    _strict: int = 0

    @property
    def is_strict(self) -> bool:
        """Whether keywords that could otherwise be dropped must be refused here."""
        return self.lenient and self._strict > 0

    def refuse(self, pointer: str, keyword: str, reason: str) -> None:
        """Refuse a keyword.

        Raises:
            UnsupportedSchema: unless keywords may be dropped here.
        """
        if not self.lenient or self._strict:
            raise UnsupportedSchema(reason, pointer=pointer, keyword=keyword, remedy="" if self.lenient else _REMEDY)
        entry = Dropped(pointer, keyword, reason)
        if entry not in self.dropped:
            self.dropped.append(entry)

    def __enter__(self) -> None:
        """Refuse by raising from here on: below a negation, dropping a keyword would narrow the format."""
        self._strict += 1

    def __exit__(self, *_: object) -> None:
        self._strict -= 1
