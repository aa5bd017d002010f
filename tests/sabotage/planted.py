"""Runs one test for each planted fault, and all of these tests without any; prints what came of it as JSON.

Arguments name some of the faults; without any, all are planted. Each run is a child of one process that has imported
everything, so that a run costs little and leaves nothing behind.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.sabotage.adapter_plants import PLANTS
from tests.sabotage.plants import Plant

SABOTAGE = Path(__file__).resolve().parent
ROOT = SABOTAGE.parents[1]
#: Seconds after which a run counts as hanging.
LONGEST = 150


class Outcomes:
    """A pytest plugin that counts outcomes, and says of each failure what raised it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[dict[str, object]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or report.skipped:
            self.counts[report.outcome] += 1
        if report.failed and call.excinfo is not None:
            self.counts["errors"] += report.when != "call"
            self.failures.append({"test": item.nodeid, **described(call.excinfo.value)})
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.counts["errors"] += report.failed


def described(error: BaseException) -> dict[str, object]:
    """The error's type and text; whether a check of a test raised it, or the code of a fault did."""
    frames = traceback.extract_tb(error.__traceback__)
    by_fault = not frames or SABOTAGE in Path(frames[-1].filename).resolve().parents
    is_check = isinstance(error, (AssertionError, pytest.fail.Exception)) and not by_fault
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = str(error)[:300]
    return {"type": type(error).__name__, "text": text, "where": where, "is_check": is_check, "by_fault": by_fault}


def outcomes(tests: Sequence[str], plant: Plant | None) -> dict[str, object]:
    """Run tests in a child process, with a fault or without."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        signal.alarm(LONGEST)
        seen = Outcomes()
        if plant is not None:
            plant.apply(pytest.MonkeyPatch())
        pytest.main([*tests, "-q", "-p", "no:cacheprovider", "--tb=no", f"--rootdir={ROOT}"], plugins=[seen])
        with os.fdopen(writing, "w") as file:
            json.dump({**seen.counts, "failures": seen.failures}, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        reported = file.read()
    os.waitpid(child, 0)
    return json.loads(reported) if reported else {"hung or crashed": 1, "failures": []}


def is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def main() -> None:
    os.chdir(ROOT)
    wanted = sys.argv[1:]
    plants = [plant for plant in PLANTS if is_there(plant.needs) and (not wanted or plant.name in wanted)]
    for name in ("torch", "tokenizers", "hypothesis", "kbnf"):
        if is_there(name):
            importlib.import_module(name)
    found: dict[str, object] = {plant.name: outcomes([plant.test], plant) for plant in plants}
    found[""] = outcomes(sorted({plant.test for plant in plants}), None)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
