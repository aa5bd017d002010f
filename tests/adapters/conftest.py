"""Fixtures that several adapters' tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.openai_stand_ins import Answer, StandIn, serving


@pytest.fixture
def script() -> Iterator[StandIn]:
    """A server of OpenAI's protocol; a test sets what it answers, or what it does about counts of tokens."""
    with serving(StandIn(lambda body, index: Answer(""))) as running:
        yield running
