"""Parameters of which the fast tests take a sample; `dev.py test -m slow` takes the rest."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest


def sampled(rows: Iterable[Any], count: int) -> list[Any]:
    """Return the rows of a parametrised test (a tuple is several values), `slow` from number `count` on."""
    rest = iter(rows)
    return [*islice(rest, count), *(_slow(*row) if isinstance(row, tuple) else _slow(row) for row in rest)]


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)
