"""A place of a parse."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Match"]


class Match(NamedTuple):
    """One place of a parse: the whole text, or a `Capture`. Offsets count bytes of the whole text.

    `children` are the captures directly inside, in order of their start.
    """

    name: str
    start: int
    end: int
    data: bytes
    children: tuple[Match, ...] = ()

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")
