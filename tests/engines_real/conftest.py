"""For the tests with real engines: an engine that a signal ended is reported in one line, and ends the run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.engines_real.vllm_processes import EngineDied


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Every further test of the same engine would fail as well, with pages of what its client saw."""
    report = yield
    if not report.failed or call.excinfo is None:
        return report
    server = getattr(item, "funcargs", {}).get("server")
    cause = str(call.excinfo.value) if call.excinfo.errisinstance(EngineDied) else server and server.death()
    if cause:
        report.longrepr, report.sections = cause, []
        item.session.shouldfail = cause
    return report
