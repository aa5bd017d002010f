"""Dataclasses of which very many are made: while one format is compiled, or for every token of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

__all__ = ["value"]

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorator: decorator


@dataclass_transform(frozen_default=True)
def value(*, eq: bool = True, slots: bool = True) -> Any:
    """Make a class an immutable dataclass, mostly with slots, with a hash if it is compared by content.

    That it is frozen, type checkers see to: Python's own way of freezing makes it take two to three times as long to
    make one.
    """
    return dataclass(slots=slots, eq=eq, unsafe_hash=eq)
