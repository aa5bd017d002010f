"""A checked grammar in the form that engines read."""

from __future__ import annotations

__all__ = ["Program"]


class Program:
    """A checked grammar as one program, with counts and names of its parts. It never changes.

    Attributes:
        data: the program as bytes.
        nodes: the number of nodes.
        tokens: the ids of tokens.
        names: the names of captures, by their numbers.
        regions: the number of regions with token budgets.
        specials: whether the grammar has special tokens by name; the program never derives them.
    """

    tokens: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    regions: int = 0
    specials: bool = False

    def __init__(
        self,
        data: bytes,
        nodes: int,
        tokens: tuple[int, ...] = (),
        names: tuple[str, ...] = (),
        regions: int = 0,
        *,
        specials: bool = False,
    ) -> None:
        self._data = data
        self.nodes = nodes
        self.tokens = tokens
        self.names = names
        self.regions = regions
        self.specials = specials

    @property
    def data(self) -> bytes:
        """The bytes of the program. If the native library wrote and keeps the program, this copies it."""
        return self._data

    def memory(self) -> int:
        """Return the size of the program in bytes."""
        return len(self._data)

    def titles(self) -> list[str] | None:
        """Return the names of the program's rules, and perhaps further names; None if they are those of the grammar."""
        return None

    @property
    def captures(self) -> bool:
        """Tell whether the program has captures."""
        return bool(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        return self.data, self.nodes, self.tokens, self.names, self.regions, self.specials
