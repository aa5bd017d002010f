"""Lowering that takes long lets other threads run, if there are any."""

from __future__ import annotations

import pytest

from formatter_core import formats
from formatter_core.limits import DEFAULT_LIMITS, turns

SCHEMA = {"type": "object", "properties": {"a": {"not": {"required": ["b"]}}, "c": {"type": "array", "minItems": 1}}}


@pytest.mark.parametrize("threads", [1, 2])
def test_other_threads_come_between(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(turns, "_TURN", 0.0)
    monkeypatch.setattr(turns, "active_count", lambda: threads)
    monkeypatch.setattr(turns, "sleep", slept.append)
    assert formats.json_schema(SCHEMA).to_grammar(DEFAULT_LIMITS).grammar.lowered
    assert bool(slept) == (threads > 1)
