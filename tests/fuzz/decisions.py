"""Numbers out of the bytes of an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Decisions"]

_T = TypeVar("_T")


class Decisions:
    """Reads numbers out of the bytes of an input; every number is 0 once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_left(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        if not self.is_left:
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def below(self, bound: int) -> int:
        value = self.byte()
        if bound > 256:
            value = value << 8 | self.byte()
        return value % bound

    def choice(self, options: Sequence[_T]) -> _T:
        return options[self.below(len(options))]

    def some(self, options: Sequence[_T], most: int) -> list[_T]:
        """Choose at least one of the options and at most `most`, each once, in their order."""
        places = {self.below(len(options)) for _ in range(1 + self.below(most))}
        return [options[place] for place in sorted(places)]
