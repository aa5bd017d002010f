"""What type checkers see: the cases of `tests/typing`, checked by mypy as strictly as the code."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_value_has_the_type_that_was_asked_for(monkeypatch) -> None:
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)  # where its settings and its cache are
    monkeypatch.delenv("MYPYPATH", raising=False)
    told, faults, code = api.run(["tests/typing"])
    assert code == 0, told + faults
