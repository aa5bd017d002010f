"""Each rule that never bends, broken on purpose, turns a test red."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.sabotage.adapter_plants import PLANTS
from tests.sabotage.planted import ROOT, described
from tests.sabotage.plants import Plant


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    if not hasattr(os, "fork"):
        pytest.skip("faults are planted in forked processes")
    run = subprocess.run(
        [sys.executable, "-m", "tests.sabotage.planted"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_rule_is_broken_at_least_once() -> None:
    assert {plant.rule for plant in PLANTS} == set(range(1, 8))


def test_without_faults_all_of_these_tests_pass(outcomes: dict[str, dict[str, Any]]) -> None:
    assert not outcomes[""]["failures"]
    assert not outcomes[""].get("errors")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"rule {plant.rule}: {plant.name}")
def test_a_planted_fault_is_noticed(plant: Plant, outcomes: dict[str, dict[str, Any]]) -> None:
    if plant.name not in outcomes:
        pytest.skip(f"{plant.needs} is not installed")
    outcome = outcomes[plant.name]
    assert not outcome.get("errors"), outcome
    assert any(plant.is_shown_by(failure) for failure in outcome["failures"]), outcome


FAILED_CHECK = {"type": "AssertionError", "is_check": True, "by_fault": False}


@pytest.mark.parametrize(
    ("escapes", "failure", "counts"),
    [
        ("", FAILED_CHECK, True),
        ("", {"type": "AttributeError", "is_check": False, "by_fault": False}, False),
        ("", {"type": "AssertionError", "is_check": False, "by_fault": True}, False),
        ("RuntimeError", {"type": "RuntimeError", "is_check": False, "by_fault": False}, True),
        ("RuntimeError", {"type": "RuntimeError", "is_check": False, "by_fault": True}, False),
        ("RuntimeError", {"type": "TypeError", "is_check": False, "by_fault": False}, False),
    ],
)
def test_only_a_failed_check_or_the_expected_exception_counts(
    escapes: str, failure: dict[str, object], counts: bool
) -> None:
    assert Plant(1, lambda patch: None, "", escapes=escapes).is_shown_by(failure) is counts


def test_an_error_raised_by_a_fault_itself_is_recognised() -> None:
    def broken() -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        broken()
    assert described(caught.value)["by_fault"]
    assert not described(caught.value)["is_check"]
