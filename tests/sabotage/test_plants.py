"""Each rule that never bends, broken on purpose, turns a test red."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.sabotage.adapter_plants import PLANTS
from tests.sabotage.planted import ROOT
from tests.sabotage.plants import Plant


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, object]]:
    if not hasattr(os, "fork"):
        pytest.skip("faults are planted in forked processes")
    run = subprocess.run(
        [sys.executable, "-m", "tests.sabotage.planted"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_rule_is_broken_at_least_once() -> None:
    assert {plant.rule for plant in PLANTS} == set(range(1, 8))


def test_without_faults_all_of_these_tests_pass(outcomes: dict[str, dict[str, object]]) -> None:
    assert not outcomes[""]["which"]
    assert not outcomes[""].get("errors")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"rule {plant.rule}: {plant.name}")
def test_a_planted_fault_is_noticed(plant: Plant, outcomes: dict[str, dict[str, object]]) -> None:
    if plant.name not in outcomes:
        pytest.skip(f"{plant.needs} is not installed")
    outcome = outcomes[plant.name]
    assert outcome.get("failed"), outcome
    assert not outcome.get("errors"), outcome
