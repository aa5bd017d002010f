"""Define the type variable of a format's value; without a parameter, `Result` is `Result[Any]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Value_co"]

if TYPE_CHECKING:  # Python 3.13 has such defaults; type checkers know them everywhere
    from typing import Any

    from typing_extensions import TypeVar

    Value_co = TypeVar("Value_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Value_co = TypeVar("Value_co", covariant=True)
