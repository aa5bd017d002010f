"""The type variable of what a format's value is; written without a parameter, `Result` is `Result[Any]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Value_co"]

if TYPE_CHECKING:  # a default is Python 3.13's, and type checkers know it everywhere
    from typing import Any

    from typing_extensions import TypeVar

    Value_co = TypeVar("Value_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Value_co = TypeVar("Value_co", covariant=True)
