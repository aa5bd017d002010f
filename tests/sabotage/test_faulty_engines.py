"""Faults planted in a grammar engine are found by comparing it with the oracle, within a fixed number of seeds."""

from __future__ import annotations

import sys

import pytest

from formatter_core.engine.native import NativeEngine
from formatter_core.engine.protocol import GrammarEngine
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from tests.sabotage.faulty_engines import FAULTS, FaultyEngine

SEEDS = 300


def right_engine() -> GrammarEngine:
    """Return the engine that faults are planted in: the one that users get, or the oracle."""
    return NativeEngine()


def test_without_a_fault_nothing_is_found() -> None:
    report = compare(OracleEngine(), FaultyEngine(right_engine()), range(40))
    assert report.differences == []
    assert report.masks > 40


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    state, rewrite = FAULTS[fault]
    report = compare(OracleEngine(), FaultyEngine(right_engine(), state, rewrite), range(SEEDS), most_differences=1)
    assert report.differences, f"not found within {SEEDS} seeds"
    # Shown by `pytest -s`: how long each took.
    found = report.differences[0]
    sys.stdout.write(f"{fault}: {found.what}, at seed {found.seed} and mask {report.masks}\n")
