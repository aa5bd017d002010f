"""A forked child can use all that it inherited, whatever other threads of its parent were just doing."""

from __future__ import annotations

import os

import pytest

from tests.core.forking import outcomes

if not hasattr(os, "fork"):
    pytest.skip("this system has no fork", allow_module_level=True)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_children_of_busy_processes_are_not_frozen() -> None:
    assert outcomes("native", threads=8, forks=8) == {"ok": 8}  # `python -m tests.core.forking` makes more
