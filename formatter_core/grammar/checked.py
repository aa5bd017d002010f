"""What a grammar is to engines, once it is checked."""

from __future__ import annotations

__all__ = ["Program"]


class Program:
    """A checked grammar as one program, and what it consists of. It never changes.

    Attributes:
        data: the program as bytes.
        nodes: how many nodes there are.
        tokens: the ids of tokens.
        names: the names of captures, by the numbers that stand for them.
        regions: how many regions have budgets of tokens.
        specials: whether there are any special tokens by name, which in the program never come.
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
        """The program; a library that has written and keeps it copies it here."""
        return self._data

    def memory(self) -> int:
        """How many bytes it takes."""
        return len(self._data)

    def titles(self) -> list[str] | None:
        """The names of its rules, and perhaps more, where they are not those of the grammar's; None where they are."""
        return None

    @property
    def captures(self) -> bool:
        """Whether there are captures."""
        return bool(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        return self.data, self.nodes, self.tokens, self.names, self.regions, self.specials
